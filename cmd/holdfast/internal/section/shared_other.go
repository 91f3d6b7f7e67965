//go:build !unix

package section

import (
	"errors"
	"os"
)

// Sharing reports whether processes can share sections on this system.
const Sharing = false

// Create fails: this system has no memory that processes can share.
func Create(int) (*os.File, error) { return nil, errors.ErrUnsupported }

// Map fails: this system has no memory that processes can share.
func Map(*os.File, int) ([]Section, error) { return nil, errors.ErrUnsupported }

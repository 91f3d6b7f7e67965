//go:build !unix

package load

import (
	"errors"
	"os"
)

// Sharing reports whether processes can share memory on this system. Otherwise exclusion is
// checked inside each process only.
const Sharing = false

func mapMemory(*os.File, size) (*memory, error) { return nil, errors.ErrUnsupported }

//go:build !unix

package sale

import (
	"errors"
	"os"
)

// CanPause reports whether this system can stop processes.
const CanPause = false

func pause(*os.Process) error  { return errors.ErrUnsupported }
func resume(*os.Process) error { return errors.ErrUnsupported }

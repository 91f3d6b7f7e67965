//go:build !unix

package redistest

// unsupported is a signal that the system does not know, so that sending it
// fails. It lets the package compile where nothing can be paused.
type unsupported string

func (s unsupported) String() string { return string(s) }
func (s unsupported) Signal()        {}

const (
	sigStop = unsupported("stop")
	sigCont = unsupported("continue")
	sigTerm = unsupported("terminate")
)

package engine

import (
	"errors"
	"fmt"
	"time"
)

// The errors that callers branch on. Package holdfast documents them.
var (
	ErrNotAcquired = errors.New("lock not acquired")
	ErrNotHeld     = errors.New("lock not held")
	ErrLost        = errors.New("lease lost")
	ErrClosed      = errors.New("client is closed")
	ErrUnavailable = errors.New("server unavailable")
	ErrRefused     = errors.New("server refused")
)

// Busy is the ErrNotAcquired of a lock that somebody else holds.
type Busy struct {
	TTL   time.Duration // what the holder still has; negative: no end; zero: not known
	Local bool          // the holder is in this process
	Young bool          // nobody holds it, but the server has come up too lately
	Votes string        // how several servers voted
	Err   error         // why the wait ended: a context's error, or nil
}

func (b *Busy) Error() string {
	text := ErrNotAcquired.Error()
	switch {
	case b.Votes != "":
		text += ": " + b.Votes
	case b.Young:
		text = fmt.Sprintf("%s: the server was restarted and must not grant it for another %v", text, b.TTL)
	case b.TTL > 0:
		text = fmt.Sprintf("%s: held by another owner for %v unless renewed", text, b.TTL)
	case b.TTL < 0:
		text += ": held by another owner, without an end"
	case b.Local:
		text += ": held by another lease of this client"
	}
	if b.Err != nil {
		text += ": " + b.Err.Error()
	}
	return text
}

// Unwrap makes the error match ErrNotAcquired and, if a context ended the
// wait, that context's error.
func (b *Busy) Unwrap() []error {
	if b.Err == nil {
		return []error{ErrNotAcquired}
	}
	return []error{ErrNotAcquired, b.Err}
}

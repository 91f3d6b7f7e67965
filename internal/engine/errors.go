package engine

import (
	"errors"
	"fmt"
	"time"
)

// The errors that callers branch on. Package holdfast documents them.
var (
	ErrNotAcquired = errors.New("not acquired")
	ErrNotHeld     = errors.New("not held")
	ErrLost        = errors.New("lease lost")
	ErrClosed      = errors.New("client is closed")
	ErrUnavailable = errors.New("server unavailable")
	ErrRefused     = errors.New("server refused")
	ErrSameServer  = errors.New("two clients are of one server")
	ErrNoEvents    = errors.New("no keyspace events")
	ErrInvalid     = errors.New("invalid argument")

	ErrNotReplicated = errors.New("not replicated")
)

// refusalHints say what to change when a server refuses, by its code.
var refusalHints = map[string]string{
	"WRONGTYPE": ": a value of another type is stored by that name: choose another name",
	"NOPERM":    ": Check says which rights the user lacks",
}

// Busy is the ErrNotAcquired of a lock that somebody else holds.
type Busy struct {
	TTL   time.Duration // what the holder still has; negative: no end; zero: not known
	Local bool          // the holder is in this process
	Young bool          // nobody holds it, but the server has come up too lately
	Votes string        // how several servers voted
	Key   string        // which one of several locks it is
	Why   string        // what is in the way, if not a holder
	Err   error         // why the wait ended: a context's error, or nil
}

func (b *Busy) Error() string {
	text, where := ErrNotAcquired.Error(), ""
	if b.Key != "" {
		where = fmt.Sprintf("%.80q is ", b.Key)
	}
	switch {
	case b.Votes != "":
		text += ": " + b.Votes
	case b.Young:
		text = fmt.Sprintf("%s: the server was restarted and must not grant it for another %v", text, b.TTL)
	case b.Why != "":
		text += ": " + b.Why
		if b.TTL > 0 {
			text = fmt.Sprintf("%s; that may change in %v", text, b.TTL)
		}
	case b.Local:
		text += ": " + where + "held by another lease of this client"
		if b.TTL > 0 {
			text += fmt.Sprintf(", which ends in %v unless renewed", b.TTL)
		}
		text += " (to enter it again, use the context of that lease)"
	case b.TTL > 0:
		text = fmt.Sprintf("%s: %sheld by another owner, whose lease ends in %v unless renewed", text, where, b.TTL)
	case b.TTL < 0:
		text += ": " + where + "held by another owner, without an end (if the key is not that of a lock, choose another name)"
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

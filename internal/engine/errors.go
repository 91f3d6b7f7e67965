package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// The errors that callers branch on. Package holdfast documents them.
var (
	ErrNotAcquired = errors.New("not acquired")
	ErrQueueFull   = errors.New("queue is full")
	ErrDeadlock    = errors.New("deadlock")
	ErrNotHeld     = errors.New("not held")
	ErrLost        = errors.New("lease lost")
	ErrClosed      = errors.New("client is closed")
	ErrUnavailable = errors.New("server unavailable")
	ErrRefused     = errors.New("server refused")
	ErrSameServer  = errors.New("two clients use the same server")
	ErrNoEvents    = errors.New("no keyspace events")
	ErrInvalid     = errors.New("invalid argument")
	ErrNotFound    = errors.New("not found")

	ErrNotReplicated = errors.New("not replicated")
)

// refusalHints say what to do when a server refuses a request, by error code.
var refusalHints = map[string]string{
	"WRONGTYPE": ": use another name, or check which program writes the key",
	"NOPERM":    ": Check reports which permissions the user lacks",
}

// Busy is the ErrNotAcquired of a lock that another owner holds.
type Busy struct {
	TTL    time.Duration // how long the lease of the holder still lasts; negative: no expiry; zero: unknown
	Local  bool          // the holder is a lease of this client
	Young  bool          // the lock is free, but the server was restarted and does not grant it yet
	Votes  string        // how several servers voted
	Key    string        // which of several locks is held
	Why    string        // why the lock was refused, if not because of a holder
	Holder string        // who holds it, in words; "": not known
	Full   bool          // as many wait for the lock as may
	Absent bool          // what was to be taken does not exist
	Err    error         // the error of the context that ended the wait, or nil
}

func (b *Busy) Error() string {
	text, where, left := ErrNotAcquired.Error(), "", clock.Rounded(b.TTL)
	if b.Key != "" {
		where = fmt.Sprintf("%.80q is ", b.Key)
	}
	switch {
	case b.Full:
		text += ": " + where + "held, and its " + ErrQueueFull.Error()
	case b.Votes != "":
		text += ": " + b.Votes
	case b.Young:
		text = fmt.Sprintf("%s: the server was restarted and must not grant it for another %v", text, left)
	case b.Why != "":
		text += ": " + b.Why
		if b.TTL > 0 {
			text = fmt.Sprintf("%s; that may change in %v", text, left)
		}
	case b.Local:
		text += ": " + where + "held by another lease of this client"
		if b.TTL > 0 {
			text += fmt.Sprintf(", which ends in %v unless renewed", left)
		}
		text += " (to re-enter it, use the context of that lease)"
	case b.TTL > 0:
		text = fmt.Sprintf("%s: %sheld by %s, whose lease ends in %v unless renewed", text, where, cmp.Or(b.Holder, "another owner"), left)
	case b.TTL < 0:
		text += ": " + where + "held by " + cmp.Or(b.Holder, "another owner") + ", without expiry (if the key does not belong to a lock, choose another name)"
	}
	if b.Err != nil {
		text += ": " + b.Err.Error()
	}
	return text
}

// Unwrap makes the error match ErrNotAcquired and, if a context ended the
// wait, that context's error, and, if the queue is full, ErrQueueFull, and, if there
// is nothing to take from, ErrNotFound.
func (b *Busy) Unwrap() []error {
	errs := []error{ErrNotAcquired}
	if b.Full {
		errs = append(errs, ErrQueueFull)
	}
	if b.Absent {
		errs = append(errs, ErrNotFound)
	}
	if b.Err != nil {
		errs = append(errs, b.Err)
	}
	return errs
}

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// The errors that callers branch on. Package holdfast documents them.
var (
	ErrNotAcquired   = errors.New("not acquired")
	ErrQueueFull     = errors.New("queue is full")
	ErrDeadlock      = errors.New("deadlock")
	ErrNotHeld       = errors.New("not held")
	ErrLost          = errors.New("lease lost")
	ErrClosed        = errors.New("client is closed")
	ErrUnavailable   = errors.New("server unavailable")
	ErrRefused       = errors.New("server refused")
	ErrSameServer    = errors.New("two clients use the same server")
	ErrNoEvents      = errors.New("no keyspace events")
	ErrInvalid       = errors.New("invalid argument")
	ErrNotFound      = errors.New("not found")
	ErrNotReplicated = errors.New("not replicated")
)

// refusalHints say what to do when a server refuses a request, by error code.
var refusalHints = map[string]string{
	"WRONGTYPE": ": use another name, or check which program writes the key",
	"NOPERM":    ": Check reports which permissions the user lacks",
}

// Texts of a Busy: who holds a plain lock, and why a call is refused, at once or at its end.
const (
	plainHolder = "a client of another library (the key is a string with a TTL, as SET NX PX writes it)"
	whyQueue    = "other calls of this client are ahead in the queue"
	whyTurn     = "other calls of this client are waiting for it"
)

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

// Unwrap makes the error match ErrNotAcquired, and what else applies: ErrQueueFull, ErrNotFound,
// the error of the context that ended the wait.
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

// An outage is a series of failed requests.
type outage struct {
	err   error         // of the last request; nil: there is no outage
	since time.Duration // when the first failed request was sent
	n     int           // how many requests have failed
}

// note adds the failure of a request sent at that time, and returns how long the outage lasts.
func (o *outage) note(err error, sent time.Duration) time.Duration {
	if o.err == nil {
		o.since = sent
		o.n = 0
	}
	if !errors.Is(o.err, ErrNotReplicated) || driver.ClassOf(err) != driver.Ambiguous { // a request without an answer says less
		o.err = err
	}
	o.n++
	return clock.Early() - o.since
}

func (o *outage) over() { o.err = nil }

// pause returns how long to wait before the next attempt: 5 ms, doubling up to 0.5 s, with jitter.
func (o *outage) pause() time.Duration {
	d := min(5*time.Millisecond<<min(o.n-1, 10), 500*time.Millisecond)
	return d/2 + clock.Random(d/2)
}

// error returns the error of a call that the outage has ended.
func (o *outage) error() error { return fmt.Errorf("%w: %w", ErrUnavailable, o.err) }

// refusedError returns the error of a request that the server refuses.
func refusedError(err error) error {
	if errors.Is(err, driver.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w%s", ErrRefused, err, refusalHints[driver.CodeOf(err)])
}

// gaveUp returns the error of a wait that err has ended. If ttl is zero, it may not be held.
func gaveUp(err error, out *outage, ttl time.Duration) error {
	switch {
	case errors.Is(err, ErrClosed):
		return err
	case out.err != nil:
		return fmt.Errorf("%w (%w)", out.error(), err)
	case ttl == 0:
		return err // no answer has said that the lock is held
	}
	return &Busy{TTL: ttl, Err: err}
}

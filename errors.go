package holdfast

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// What an error means to the caller. Match with [errors.Is]; the text around
// it is in [*Error].
var (
	// ErrNotAcquired says that somebody else held the lock for as long as the
	// call could wait; or that there were no permits, that the latch was closed,
	// that the rate did not allow it. The error of a wait that a context has ended matches
	// that context's error, too; if the context was done before anybody was
	// asked, it matches only that.
	ErrNotAcquired = engine.ErrNotAcquired

	// ErrLost says that a lease has ended before it was released. The error is
	// a [*LostError], which knows why.
	ErrLost = engine.ErrLost

	// ErrNotHeld says that the lease has been released before, or that a permit
	// is not taken.
	ErrNotHeld = engine.ErrNotHeld

	// ErrReentrant says that the context already holds the lock and the call
	// is [NonReentrant].
	ErrReentrant = errors.New("already held by this context")

	// ErrUpgrade says that the context holds an [RWMutex] to read and wants to
	// write: it would wait for itself. Release the read lease first, and look
	// again at what was read once the write lease is granted.
	ErrUpgrade = errors.New("this context holds the lock for reading: release the read lease before locking for writing")

	// ErrUnavailable says that the server has not answered, or that it is
	// alive but cannot serve now: it loads, fails over, or is read-only. It
	// never means that the lock is taken. If a context ended the wait for the
	// answer, the error matches that context's error, too.
	ErrUnavailable = engine.ErrUnavailable

	// ErrRefused says that the server refuses, and will until something is
	// changed there: its memory is full, the user may not, the name belongs to
	// a key of another type.
	ErrRefused = engine.ErrRefused

	// ErrNotReplicated says that the server has granted the lock, but fewer
	// replicas than [Options.Replication] asks for have acknowledged it in time;
	// it was given back. The error matches [ErrUnavailable], too.
	ErrNotReplicated = engine.ErrNotReplicated

	// ErrInvalid says that an argument makes no sense; the text says what to
	// change. Nothing was sent.
	ErrInvalid = engine.ErrInvalid

	// ErrNotFound says that there is no such thing at the server.
	ErrNotFound = errors.New("not found")

	// ErrCodec says that a [Codec] could not encode the value it was given, so
	// that nothing was sent, or could not decode the one at the server: another
	// codec has written it, or it is of another type. The value is not in the
	// text.
	ErrCodec = errors.New("codec")

	// ErrUnsupported says that this cannot be done with an object of that
	// kind; the text says what to use instead. Nothing was sent.
	ErrUnsupported = errors.New("not supported")

	// ErrDump says that what [Object.Restore] was given is not a dump of such
	// an object, or was damaged. Nothing was changed.
	ErrDump = errors.New("not a dump of this kind of object")

	// ErrNoEvents says that the server does not publish the events that
	// [Object.Listen] needs, or does not say whether it does; the text says
	// what to set there.
	ErrNoEvents = engine.ErrNoEvents

	// ErrClosed says that the client has been closed.
	ErrClosed = engine.ErrClosed
)

// An Error is what failed, on which object, and why.
type Error struct {
	Op   string // "lock", "release", ...
	Kind string // "mutex"
	Name string
	Err  error
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("holdfast: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("holdfast: %s %s %.80q: %v", e.Op, e.Kind, e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Remaining returns how long the holder of a lock still has it, or how long it
// takes until a permit is free, as far as an error that matches [ErrNotAcquired]
// knows. It is negative for a lock that
// never expires and zero if nothing is known.
func Remaining(err error) time.Duration {
	var busy *engine.Busy
	if errors.As(err, &busy) {
		return busy.TTL
	}
	return 0
}

// A LossReason says how a lease was lost.
type LossReason string

// The reasons for a loss.
const (
	LossExpired  LossReason = "expired"   // no renewal was confirmed in time, or the lease time was over
	LossNotOwner LossReason = "not owner" // the server says that another owner holds the lock, or nobody
	LossForced   LossReason = "forced"    // this client freed the lock by force
	LossClosed   LossReason = "closed"    // the client was closed

	// LossFailover: a replica has taken over, or the server was restarted, and
	// does not know the lease.
	LossFailover LossReason = "failover"
	// LossUnreplicated: no renewal has reached enough replicas in time.
	LossUnreplicated LossReason = "not replicated"
)

var lossReasons = map[watchdog.Reason]LossReason{
	watchdog.Expired:  LossExpired,
	watchdog.NotOwner: LossNotOwner,
	watchdog.Forced:   LossForced,
	watchdog.Closed:   LossClosed,
	watchdog.Failover: LossFailover,
	watchdog.Unacked:  LossUnreplicated,
}

// A LostError is the error, and the cause of the context, of a lease that was
// lost. It matches [ErrLost].
type LostError struct {
	Name   string
	Owner  string
	Reason LossReason

	// Cause is the error of the last renewal, if that has failed and the lease
	// is over for it; otherwise nil. It matches no error of a context.
	Cause error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("holdfast: lease on %.80q lost: %s", e.Name, e.Reason)
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// Is reports whether target is [ErrLost], or [ErrClosed] if that is why.
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == LossClosed
}

func missing(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotFound}, args...)...)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

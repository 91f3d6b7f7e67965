package holdfast

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// The errors of this package. Match them with [errors.Is]. Most are wrapped in an
// [*Error], which adds the operation and the name of the object.
var (
	// ErrNotAcquired means that the call did not get the lock or the permits in the
	// time that it could wait, that a [Latch] stayed closed, or that the rate of a
	// [RateLimiter] did not allow the permits in time. If a context ended the wait, the
	// error also matches the error of that context and its cause. If the context was
	// done before the first request, the error matches only these.
	ErrNotAcquired = engine.ErrNotAcquired

	// ErrQueueFull means that the lock is held and that as many wait for it as
	// [Options.MaxQueue] allows. The error also matches ErrNotAcquired.
	ErrQueueFull = engine.ErrQueueFull

	// ErrDeadlock means that [EndDeadlocks] ended the call. The error is a
	// [*DeadlockError]. It also matches ErrNotAcquired.
	ErrDeadlock = engine.ErrDeadlock

	// ErrLost means that a lease ended before it was released. The error is a
	// [*LostError], which has the reason.
	ErrLost = engine.ErrLost

	// ErrNotHeld means that the lease was already released, or that a permit is
	// not taken.
	ErrNotHeld = engine.ErrNotHeld

	// ErrReentrant means that the context already holds the lock and the call
	// has the option [NonReentrant].
	ErrReentrant = errors.New("already held by this context")

	// ErrUpgrade means that a call with the context of a read lease would lock the
	// [RWMutex] for writing, and so wait for itself. Release the read lease first, and
	// read the data again under the write lease.
	ErrUpgrade = errors.New("this context holds the lock for reading: release the read lease before locking for writing")

	// ErrUnavailable means that the server did not answer, or that it cannot serve at
	// the moment: it is loading, failing over, or read-only. It never means that
	// another owner holds the lock. If a context ended the wait for the answer, the
	// error also matches the error of that context and its cause.
	ErrUnavailable = engine.ErrUnavailable

	// ErrRefused means that the server refuses the request until its state or
	// configuration changes: its memory is full, the user lacks permission, or
	// the name belongs to a key of another type.
	ErrRefused = engine.ErrRefused

	// ErrNotReplicated means that the server granted the lock, but fewer replicas than
	// [Options.Replication] requires acknowledged it in time. The lock was released.
	// The error also matches [ErrUnavailable].
	ErrNotReplicated = engine.ErrNotReplicated

	// ErrInvalid means that an argument is invalid. The text says what to
	// change. Nothing was sent.
	ErrInvalid = engine.ErrInvalid

	// ErrNotFound means that the object does not exist on the server. If a call wanted
	// permits of a semaphore that does not exist, the error also matches
	// ErrNotAcquired.
	ErrNotFound = engine.ErrNotFound

	// ErrUnsupported means that this kind of object does not support the
	// operation. The text says what to use instead. Nothing was sent.
	ErrUnsupported = errors.New("not supported")

	// ErrClosed means that the client is closed.
	ErrClosed = engine.ErrClosed
)

// An Error describes a failed operation. Most functions of this package return
// errors of this type, or a [*LostError].
type Error struct {
	Op   string // the operation, such as "lock" or "release"
	Kind string // the kind of object, such as "mutex"
	Name string // the name that the program uses, as [Lease.Name]
	Err  error  // the cause
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("holdfast: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("holdfast: %s %s %.80q: %v", e.Op, e.Kind, e.Name, e.Err)
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Remaining returns how long the holder still has the lock, or how long it takes until
// a permit is free, from an error that matches [ErrNotAcquired]. The result is negative
// if the lock never expires, and zero if the time is not known.
func Remaining(err error) time.Duration {
	var busy *engine.Busy
	if errors.As(err, &busy) {
		return busy.TTL
	}
	return 0
}

// A LossReason says why a lease was lost.
type LossReason string

// The reasons for a loss.
const (
	LossExpired  LossReason = "expired"   // no renewal was confirmed in time, or the fixed lease time has passed
	LossNotOwner LossReason = "not owner" // on the server, another owner holds the lock or it is free
	LossForced   LossReason = "forced"    // this client called ForceUnlock or Depose
	LossClosed   LossReason = "closed"    // the client was closed

	// LossFailover means that a replica was promoted or the server was
	// restarted, and that the server does not know the lease.
	LossFailover LossReason = "failover"
	// LossUnreplicated means that no renewal reached enough replicas in time.
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

// A LostError is the error of a lost lease, and the cause of its context. It
// matches [ErrLost].
type LostError struct {
	Name   string     // the name of the lock, see [Lease.Name]
	Owner  string     // the owner, see [Lease.Owner]
	Reason LossReason // why the lease was lost

	// Cause is the error of the last renewal if the lease expired because
	// renewals failed, and nil otherwise. It does not match any error of
	// package context.
	Cause error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("holdfast: lease on %.80q lost: %s", e.Name, e.Reason)
}

// Unwrap returns e.Cause.
func (e *LostError) Unwrap() error { return e.Cause }

// Is reports whether target is [ErrLost], or [ErrClosed] if the reason is
// [LossClosed].
func (e *LostError) Is(target error) bool {
	return target == ErrLost || target == ErrClosed && e.Reason == LossClosed
}

// because returns the error of a call with ctx. If ctx has ended the call, the error matches
// the error of ctx, and also its cause.
func because(ctx context.Context, err error) error {
	if ctx == nil {
		return err
	}
	done := ctx.Err()
	if done == nil || !errors.Is(err, done) || errors.Is(err, context.Cause(ctx)) {
		return err
	}
	e, ok := err.(*Error) //nolint:errorlint // not one that is wrapped
	if !ok {
		return &caused{err, context.Cause(ctx)}
	}
	return &Error{e.Op, e.Kind, e.Name, &caused{e.Err, context.Cause(ctx)}}
}

// caused is an error of a context, and the cause of that context. It matches the cause, but not
// what the cause matches: the cause may be the error of another call, and would be mistaken
// for the error of this call.
type caused struct{ error, cause error }

func (c *caused) Error() string { return c.error.Error() + ": " + c.cause.Error() }

func (c *caused) Unwrap() error { return c.error }

func (c *caused) Is(target error) bool {
	return reflect.TypeOf(target).Comparable() && target == c.cause
}

func missing(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotFound}, args...)...)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Lease is a held lock. Every call that takes a lock returns a Lease, which must be
// released. It may be passed to other goroutines.
type Lease struct {
	client  *Client
	kind    string
	name    string
	hold    *engine.Hold // nil if the lease has parts
	pass    int          // which user of the hold this lease is
	token   int64
	renewed bool
	parts   *parts // of a lease on several locks; nil: a lease on one lock
	whole   *Lease // the lease on several locks that this one is a part of; nil: none

	parent   context.Context     // the context given to Lock
	outer    *Lease              // the innermost lease that parent carries
	survives string              // the kind of a lease in parent whose release this lease survives
	exit     func(*Lease, error) // called after Release
	call     waitingCall         // that waits for the lease

	seen   atomic.Pointer[observation] // nil: not observed
	needed atomic.Bool                 // the context was made: a loss must end it
	mu     sync.Mutex
	done   bool // released
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// A waitingCall is a call that waits for a lease.
type waitingCall struct {
	bounded bool                    // it has a limit
	abort   context.CancelCauseFunc // ends it, to resolve a deadlock; nil: it cannot be ended
}

// Name returns the name of the lock, without [Options].NamePrefix.
func (l *Lease) Name() string {
	switch {
	case l.client != nil:
		return strings.TrimPrefix(l.name, l.client.options.NamePrefix)
	case l.parts != nil && l.parts.redlock == nil:
		names := make([]string, len(l.parts.leases))
		for i, p := range l.parts.leases {
			names[i] = p.Name()
		}
		return strings.Join(names, "+")
	}
	return l.name
}

// Owner returns the name of the holder at the server: the client's ID, a colon and a
// number. An owner is new for every grant of the server. Leases that enter again,
// leases after a hand-off inside the process, and read leases that share a hold have
// the same owner. For a lease on several locks, it is the owner of the first lock.
func (l *Lease) Owner() string {
	if l.parts != nil {
		return l.parts.leases[0].Owner()
	}
	if l.hold == nil {
		return "" // the zero Lease
	}
	return l.hold.Owner()
}

// Token returns the fencing token. It is higher than the tokens of all earlier leases
// on this name by the same kind of lock. Send it with every write, and let the resource
// reject tokens below the highest that it has seen. Entering a lock again keeps the
// token.
//
// The token of a read lease is at least as high as that of any earlier write lease. A
// lease of a [Redlock] has the token zero, and so has one on several locks, whose
// [Lease.Parts] have tokens.
func (l *Lease) Token() int64 { return l.token }

// PermitIDs returns the permit ids of a lease of a [LeasedSemaphore], in Redisson's
// format, or nil for a lease on a lock.
func (l *Lease) PermitIDs() []string {
	if l.hold == nil {
		return nil
	}
	return l.hold.Ref.IDs()
}

// Valid reports whether the lock is held now. It compares clocks and sends no request.
// Call it right before an irrevocable step: a process that was stopped and resumed may
// run for a moment before its [Lease.Context] is done.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.done && clock.Now() < l.deadline()
}

// zero reports whether the lease was never granted.
func (l *Lease) zero() bool { return l.hold == nil && l.parts == nil }

// deadline returns the deadline by clock.Now. It is zero once the lock is lost.
func (l *Lease) deadline() time.Duration {
	if l.parts != nil {
		return l.parts.deadline()
	}
	if l.hold == nil {
		return 0
	}
	return l.hold.Deadline()
}

// why returns why the lock was lost, or zero if it was not lost.
func (l *Lease) why() watchdog.Reason {
	if l.parts != nil {
		if lost := l.parts.lost(); lost != nil {
			return lost.why()
		}
		return 0
	}
	return l.hold.Loss()
}

// Deadline returns the time until which the server is known to keep the lock for
// this lease. Renewals move it. It is the zero Time once the lease has ended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.deadline(); !l.done && d != 0 {
		return time.Now().Add(d - clock.Now())
	}
	return time.Time{}
}

// announce calls the OnAcquire hook. If the hook panics, announce releases the
// lease.
func (l *Lease) announce(fn func(*Lease)) {
	if fn == nil {
		return
	}
	ok := false
	defer func() {
		if !ok {
			_ = l.Release(l.parent)
		}
	}()
	l.hook(func() { fn(l) })
	ok = true
}

// Extend makes the server keep the lock for at least d from now on. It never shortens a
// lease. [Lease.Deadline] is a little earlier than the server's end of the lease. The
// error matches [ErrLost] if the lock was lost, [ErrNotHeld] if the lease was released,
// and [ErrUnavailable] if the server did not answer: then the deadline does not change.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.whole != nil {
		return l.whole.Extend(ctx, d)
	}
	if err := checkContext(ctx); err != nil {
		return l.wrap("extend", err)
	}
	if l.zero() {
		return l.wrap("extend", ErrNotHeld)
	}
	if p := l.parts; p != nil && p.longest > 0 && d > p.longest {
		return l.wrap("extend", invalid("extension is %v, more than the longest lease that the servers know of, %v", d, p.longest))
	}
	if err := checkExtension(d); err != nil {
		return l.wrap("extend", err)
	}
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done {
		return l.wrap("extend", ErrNotHeld)
	}
	err := because(ctx, l.wrap("extend", l.extend(ctx, d.Truncate(time.Millisecond))))
	if seen := l.seen.Load(); seen != nil {
		seen.extended(err)
	}
	return err
}

func checkExtension(d time.Duration) error {
	if d < minLease || d > maxLease {
		return invalid("extension is %v: choose between %v and %v", d, minLease, maxLease)
	}
	return nil
}

func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if l.parts != nil {
		err := l.parts.all(func(p *Lease) error { return p.extend(ctx, d) })
		if err == nil && clock.Now() >= l.deadline() {
			err = ErrLost // while the parts were extended
		}
		return err
	}
	return l.hold.Extend(ctx, l.pass, d)
}

// Release releases the lock. A second call does nothing and returns nil. Release first
// ends the lease's context, and with it the contexts of leases that were acquired with
// it: release inner leases first. A read lease that a writer acquired survives, see
// [RWMutex]. Release ignores the cancellation of ctx, so that it can be deferred.
//
// A nil error means that the lock was held until Release was called. The error matches
// [ErrLost] if the lease was lost before: the work under the lock may have overlapped
// with that of other owners. It also matches ErrLost if the lease was over when Release
// was called, unless the server confirms that it still kept the lock. If the server
// does not answer within a second or two, the error matches [ErrUnavailable], and
// Release continues in the background until the lock has expired.
//
// Releasing one part of a lease on several locks releases all of them.
func (l *Lease) Release(ctx context.Context) error {
	if l.whole != nil {
		return l.whole.Release(ctx)
	}
	if l.zero() {
		return l.wrap("release", ErrNotHeld)
	}
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return nil
	}
	l.done = true
	cancel, seen := l.cancel, l.seen.Load()
	l.mu.Unlock()
	var began time.Time
	if seen != nil {
		began = time.Now()
	}
	if cancel != nil {
		cancel(&released{l})
	}
	err := l.wrap("release", l.release())
	if seen != nil {
		seen.released(l, began, err)
	}
	if l.exit != nil {
		l.hook(func() { l.exit(l, err) })
	}
	return err
}

// ReleaseAfter is [Lease.Release], but the server keeps the lock from all owners for d
// from now on, even if the client is closed or the process ends. The error matches
// [ErrUnsupported] if the lease is one of a read lock or of permits.
func (l *Lease) ReleaseAfter(ctx context.Context, d time.Duration) error {
	if l.whole != nil {
		return l.whole.ReleaseAfter(ctx, d)
	}
	if d < minLease || d > maxLease {
		return l.wrap("release", invalid("the time is %v: choose between %v and %v", d, minLease, maxLease))
	}
	if p := l.parts; p != nil && p.longest > 0 && d > p.longest {
		return l.wrap("release", invalid("the time is %v, more than the longest lease that the servers know of, %v", d, p.longest))
	}
	if !l.canKeep() {
		return l.wrap("release", fmt.Errorf("%w: the server cannot keep read locks and permits: use Release", ErrUnsupported))
	}
	l.keepFor(d)
	return l.Release(ctx)
}

// canKeep reports whether the server can keep the locks of the lease after its release.
func (l *Lease) canKeep() bool {
	if l.parts != nil {
		return !slices.ContainsFunc(l.parts.leases, func(p *Lease) bool { return !p.canKeep() })
	}
	return l.hold == nil || l.hold.Ref.CanKeep()
}

// keepFor makes the locks stay for d from now on, even if they are released earlier.
func (l *Lease) keepFor(d time.Duration) {
	switch {
	case d == 0:
	case l.parts != nil:
		for _, p := range l.parts.leases {
			p.keepFor(d)
		}
	case l.hold != nil:
		l.hold.KeepUntil(clock.Now() + d)
	}
}

func (l *Lease) release() error {
	if l.parts != nil {
		return l.parts.release()
	}
	return l.hold.Release((*lossHandler)(l), l.renewed)
}

func (l *Lease) wrap(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLost):
		return l.loss()
	}
	return &Error{Op: op, Kind: l.kind, Name: l.Name(), Err: err}
}

// loss returns the error of this lost lease.
func (l *Lease) loss() *LostError {
	if l.parts != nil {
		if lost := l.parts.lost(); lost != nil {
			return lost.loss()
		}
	}
	reason, ok := lossReasons[l.why()]
	if !ok {
		reason = LossExpired // the watchdog drops it at this moment
	}
	lost := &LostError{Name: l.Name(), Owner: l.Owner(), Reason: reason}
	if reason == LossExpired || reason == LossUnreplicated {
		lost.Cause = l.fault()
	}
	return lost
}

// fault returns the error of the last renewal, or nil. A request that timed out must
// not look like the end of the caller's context, so fault hides the context error.
func (l *Lease) fault() error {
	if l.hold == nil {
		return nil
	}
	err := l.hold.Fault()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}

// A lossHandler ends the context of a lease that was lost.
type lossHandler Lease

// Lost ends the context of the lease.
func (k *lossHandler) Lost(watchdog.Reason) {
	l := (*Lease)(k)
	if l.whole != nil {
		l.whole.lostPart()
		return
	}
	l.end()
	l.observeLoss()
}

// end ends the context of a lease that is lost.
func (l *Lease) end() {
	l.mu.Lock()
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(l.loss())
	}
}

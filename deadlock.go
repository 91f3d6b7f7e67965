package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/observe"
)

// A DeadlockMode says what a client does about deadlocks between processes. A deadlock
// is a cycle of calls: each holds a lock and waits for one that the next call holds.
//
// A call takes part if its context carries a lease, see [Lease.Context], and if it has
// waited for a lock for a second. It then stores every second what it holds and what it
// wants, and looks for a cycle. A cycle is reported when all of its calls have seen it,
// which takes about four seconds. Calls that wait for permits, for a [Latch], or for a
// lock of a [Redlock] do not take part.
type DeadlockMode uint8

// The modes.
const (
	// ReportDeadlocks reports a deadlock: to the log, to the observers, and to
	// package inspect.
	ReportDeadlocks DeadlockMode = iota

	// EndDeadlocks also ends a call: of those in the cycle whose client has this
	// mode, the one that has begun to wait last. It fails with [ErrDeadlock].
	EndDeadlocks

	// IgnoreDeadlocks does not look for deadlocks.
	IgnoreDeadlocks
)

// A DeadlockError describes a deadlock. It matches [ErrDeadlock].
type DeadlockError struct {
	// Calls are the calls of the cycle. Each waits for a lock that the next one holds,
	// and the last one for a lock of the first one.
	Calls []DeadlockedCall
}

// A DeadlockedCall is a call in a deadlock.
type DeadlockedCall struct {
	Client string    // the id of its client
	Who    string    // the process of the client in words, such as "api-7f9 (pid 12)"
	Holds  []string  // the names of the locks that it holds and that others in the cycle want
	Wants  []string  // the names of the locks that it waits for
	Since  time.Time // since when it waits, by the clock of its process
}

// Error names the processes and locks of the cycle.
func (e *DeadlockError) Error() string {
	var calls []string
	for _, c := range e.Calls {
		calls = append(calls, fmt.Sprintf("%s holds %s and waits for %s", c.Who, quoted(c.Holds), quoted(c.Wants)))
	}
	return ErrDeadlock.Error() + ": " + strings.Join(calls, "; ")
}

// Is reports whether target is [ErrDeadlock] or [ErrNotAcquired].
func (e *DeadlockError) Is(target error) bool {
	return target == ErrDeadlock || target == ErrNotAcquired
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = fmt.Sprintf("%.80q", n)
	}
	return strings.Join(list, " and ")
}

// newDeadlockError describes a cycle of waits.
func newDeadlockError(waits []script.Wait) *DeadlockError {
	e := new(DeadlockError)
	for i, w := range waits {
		before := waits[(i+len(waits)-1)%len(waits)]
		c := DeadlockedCall{Client: w.Client, Who: w.Who, Since: time.UnixMicro(w.Since)}
		for _, h := range w.Holds {
			if slices.Contains(before.By, h.Owner) {
				c.Holds = append(c.Holds, h.Name)
			}
		}
		for _, l := range w.Wants {
			c.Wants = append(c.Wants, l.Name)
		}
		e.Calls = append(e.Calls, c)
	}
	return e
}

// detect looks for deadlocks of a call that has waited for long, until the function that
// it returns is called. It returns nil if the call cannot be part of one.
func (c *Client) detect(l *Lease, wants []deadlock.Lock, since time.Duration) (stop func()) {
	if c.options.Deadlocks == IgnoreDeadlocks || len(wants) == 0 || len(l.holding()) == 0 {
		return nil
	}
	d := deadlock.New(deadlock.Call{
		Client: c.waits, Since: time.Now().Add(since - clock.Early()), Wants: wants, Holds: l.holding,
		Found: func(found deadlock.Cycle) { c.deadlocked(l, found) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	if !c.calls.start(func() { d.Run(ctx) }) {
		cancel()
		return nil
	}
	return cancel
}

// holding returns the locks that the context of the call holds.
func (l *Lease) holding() []deadlock.Lock {
	var held []deadlock.Lock
	add := func(l *Lease) {
		if l.hold != nil && l.kind != "leased semaphore" && l.kind != "vote" && l.why() == 0 {
			held = append(held, deadlock.Lock{Client: l.client.waits, Kind: l.kind, Name: l.name, Owner: l.Owner()})
		}
	}
	for o := l.outer; o != nil; o = o.outer {
		if o.released() {
			continue
		}
		if o.parts == nil {
			add(o)
			continue
		}
		for _, p := range o.parts.leases {
			add(p)
		}
	}
	return held
}

// deadlocked reports a deadlock of the call that waits for the lease, and ends the call if it is
// the one to end.
func (c *Client) deadlocked(l *Lease, found deadlock.Cycle) {
	err := newDeadlockError(found.Waits)
	if found.New {
		c.options.Logger.Warn("deadlock: "+strings.TrimPrefix(err.Error(), ErrDeadlock.Error()+": "), "name", l.name)
		c.observers.emit(observe.Event{Type: observe.Deadlock, Context: l.parent, Kind: l.kind, Name: l.name, Count: len(found.Waits), Err: err})
	}
	if found.End && l.call.abort != nil {
		l.call.abort(err)
	}
}

// abortable returns a context for the call that waits for the lease, which the detector of
// deadlocks can end, and a function for the error of the call.
func (l *Lease) abortable(ctx context.Context, c *Client) (context.Context, func(error) error) {
	if l.outer == nil || c.options.Deadlocks != EndDeadlocks {
		return ctx, sameError
	}
	waiting, abort := context.WithCancelCause(ctx)
	l.call.abort = abort
	return waiting, func(err error) error {
		abort(nil)
		var dead *DeadlockError
		if err != nil && errors.As(context.Cause(waiting), &dead) {
			return dead
		}
		return err
	}
}

func sameError(err error) error { return err }

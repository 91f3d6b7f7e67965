package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Forever is a Request.Wait without a limit. Only the context ends the wait.
const Forever time.Duration = -1

// A Request says how to acquire.
type Request struct {
	Lease      time.Duration // the fixed lease time; 0: the lease is renewed
	Renewal    time.Duration // the lease time of a lease that is renewed; 0: that of the engine
	Wait       time.Duration // bounds the wait for the lock; 0: it is tried once
	Hasty      bool          // caps retries of an unavailable server at 20 ms, enough to restore a connection
	RenewFirst bool          // renews a fixed lease until the caller sets its renewal
	Ahead      bool          // returns a future grant without sleeping until it takes effect
	Steady     bool          // the lock is meant to be held for long, as by a leader
	Watch      bool          // the request waits for a change, and does not count as waiting
	Under      *Hold         // of another kind on the same lock, which admits this one: a writer may also read; nil: none
	Caller     Caller        // is told that the call waits for long; nil: none
	Report     *Report       // notes how the acquisition went; nil: none

	// Pause, if set, returns the time before the next request, given the number of refusals. The
	// acquisition then polls and does not subscribe to messages.
	Pause func(failures int) time.Duration

	// Declare, if set, creates what is requested, or changes it. It is called before the first
	// request, and with missing set when it does not exist.
	Declare func(ctx context.Context, missing bool) error
}

func (r Request) renewed() bool { return r.Lease == 0 }

// lease returns the lease time to ask for, fixed or renewed.
func (r Request) lease(e *Engine) time.Duration { return cmp.Or(r.Lease, r.Renewal, e.o.Lease) }

// patience returns for how long to retry while the server is unavailable.
func (r Request) patience(e *Engine) time.Duration {
	if r.Hasty {
		return 20 * time.Millisecond
	}
	if r.Wait == 0 {
		return min(e.o.Patience, time.Second)
	}
	return e.o.Patience
}

// Acquire acquires k for user. The user is told if the hold is lost later.
func (e *Engine) Acquire(ctx context.Context, k Kind, r Request, user watchdog.LossHandler) (h *Hold, err error) {
	if err := e.begin(); err != nil {
		return nil, err
	}
	defer e.end()
	k = e.withQueue(k)
	traits := k.Traits()
	var asked sharing
	var out outage
	if r.Wait <= 0 && e.canShare(traits, &r) && asked.join(ctx, e, k.Gate(), &r, user, &out) {
		return asked.joined, nil
	}
	var a acquisition // a composite literal would be built first and copied
	a.e, a.k, a.traits, a.r, a.sharing, a.out = e, k, traits, r, asked, out
	a.turn.stays = r.Wait != 0 && traits.Queue == script.OneAtATime
	if err := a.open(ctx); err != nil {
		return nil, err
	}
	defer a.close()
	if a.turn.stays {
		h, err = e.acquireInTurn(ctx, &a, k, user)
	} else {
		h, err = a.run(k, user)
	}
	return h, hideOwnTimeout(ctx, err)
}

// acquireInTurn acquires a lock with one holder at a time. The turn stays with the hold.
func (e *Engine) acquireInTurn(ctx context.Context, a *acquisition, k Kind, user watchdog.LossHandler) (*Hold, error) {
	g := a.turn.gate
	a.long.since = clock.Early()
	var lease time.Duration // of a hold that this call can use
	if a.r.renewed() {
		lease = a.r.lease(e)
	}
	for arrived := a.long.since; ; arrived = clock.Early() {
		h, has, err := e.awaitTurn(a.waiting, g, a.traits, lease, &a.long)
		switch {
		case h != nil && (err != nil || a.asking.Err() != nil): // the end of the call came together with the turn
			h.abandon()
			return nil, g.noTurn(err, ctx.Err())
		case err != nil:
			if has {
				g.give()
			}
			return nil, g.noTurn(err, ctx.Err())
		case h == nil: // this call has the turn: ask the server
			a.turn.has, a.out = true, g.outage(arrived)
			h, err := a.run(k, user)
			if err == nil {
				a.turn.gate = nil // the hold leaves it
			} else {
				g.give()
			}
			return h, err
		case h.adopt(user): // the turn came with a hold
			a.r.Report.grant(ByHandoff)
			e.counts.Handoffs.Add(1)
			return h, nil
		}
		// The hold was lost while it was passed on, and its turn went to another call.
	}
}

// open prepares an acquisition. If it returns no error, the caller must close the acquisition.
func (a *acquisition) open(ctx context.Context) error {
	a.once, a.long.caller = a.r.Wait == 0, a.r.Caller
	queue := a.traits.Queue
	if a.once && queue == script.InOrder && a.e.hasQueue(a.k.Gate()) {
		return &Busy{Local: true, Why: whyQueue}
	}
	a.waiting, a.asking, a.cancel = contexts(ctx, a.r.Wait)
	if a.turn.stays || !a.once && queue == script.InOrder {
		a.turn.gate = a.e.gate(a.k.Gate())
	}
	a.turn.late = !a.once && queue == script.Together
	return nil
}

// close leaves the gate and ends the contexts.
func (a *acquisition) close() {
	a.long.end()
	if a.turn.gate != nil {
		a.e.leaveGate(a.turn.gate)
	}
	a.cancel()
}

// contexts returns the contexts for the wait and for the requests of a call.
func contexts(ctx context.Context, wait time.Duration) (waiting, asking context.Context, cancel context.CancelFunc) {
	if wait <= 0 {
		return ctx, ctx, func() {}
	}
	asking, stopAsking := context.WithTimeout(ctx, wait+answerTime)
	waiting, stopWaiting := context.WithTimeout(asking, wait)
	return waiting, asking, func() { stopWaiting(); stopAsking() }
}

// Taken is a grant that leaves nothing to hold.
type Taken struct {
	script.Verdict
	Owner string // the owner of the claim
}

// Take waits until k is granted, for a k that leaves nothing to hold.
func (e *Engine) Take(ctx context.Context, k target, r Request) (Taken, error) {
	traits := k.Traits()
	if busy := e.refused(ctx, traits.Lasting, &r); busy != nil {
		return Taken{}, busy
	}
	if err := e.begin(); err != nil {
		return Taken{}, err
	}
	defer e.end()
	a := acquisition{e: e, k: k, traits: traits, r: r}
	if err := a.open(ctx); err != nil {
		return Taken{}, err
	}
	defer a.close()
	v, err := a.take()
	if err != nil {
		return Taken{}, hideOwnTimeout(ctx, err)
	}
	return Taken{v, a.claim.Owner}, nil
}

// hideOwnTimeout removes context.DeadlineExceeded from an error if Request.Wait is the reason.
func hideOwnTimeout(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var busy *Busy
	if errors.As(err, &busy) {
		busy.Err = nil
		return err
	}
	if !errors.Is(err, ErrUnavailable) {
		return &Busy{} // the turn came when the time was over
	}
	code := driver.CodeOf(err)
	last := &driver.Error{Class: driver.ClassOf(err), Code: code, Err: errors.New(cmp.Or(code, "no answer within the wait time"))}
	return fmt.Errorf("%w: %w", ErrUnavailable, last)
}

// A Way says how a lock was granted.
type Way uint32

// The ways in which a lock is granted.
const (
	ByServer  Way = iota // the server has granted it in an answer
	ByRelease            // the release of another client has granted it
	ByHandoff            // a hold of this process was passed on
)

// A Report says how an acquisition went, to observers. A nil Report takes no notes.
type Report struct {
	looks atomic.Int64
	way   atomic.Uint32
}

// Looks returns how many requests for the lock were sent.
func (r *Report) Looks() int { return int(r.looks.Load()) }

// Way returns how the lock was granted.
func (r *Report) Way() Way { return Way(r.way.Load()) }

func (r *Report) look() {
	if r != nil {
		r.looks.Add(1)
	}
}

func (r *Report) grant(w Way) {
	if r != nil {
		r.way.Store(uint32(w))
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Forever is the Request.Wait that only the context ends.
const Forever time.Duration = -1

// answerTime is how long a request that is under way when Request.Wait is over
// may still take: without its answer nobody could say whether the lock is
// held or the server gone.
const answerTime = time.Second

// A Request says how to acquire.
type Request struct {
	Lease time.Duration // fixed; zero: the engine's, renewed
	Wait  time.Duration // zero: try once
	// Pause, if set, is asked for the time before the next look, given how
	// many have failed: the wait then needs no messages.
	Pause func(failures int) time.Duration
	// Hasty does not bear with a server that cannot serve, but for a moment in
	// which a connection can be restored.
	Hasty bool
	// Keep has a fixed lease renewed until somebody sees to it.
	Keep bool
	// Ahead does not wait until a grant counts that lies ahead.
	Ahead bool
	// Under, if set, is a hold of another kind on the same lock that admits this
	// one, as a writer admits himself as a reader.
	Under *Hold
}

func (r Request) renewed() bool { return r.Lease == 0 }

// patience is how long to bear with a server that cannot serve.
func (r Request) patience(e *Engine) time.Duration {
	if r.Hasty {
		return 20 * time.Millisecond
	}
	if r.Wait == 0 {
		return min(e.o.Patience, time.Second)
	}
	return e.o.Patience
}

// Acquire returns a hold of k for user, who is told if it is lost later.
func (e *Engine) Acquire(ctx context.Context, k Kind, r Request, user watchdog.LossHandler) (*Hold, error) {
	if err := e.begin(); err != nil {
		return nil, err
	}
	defer e.end()
	if r.Wait != 0 && k.Traits().Queue == script.OneAtATime {
		return e.acquireInTurn(ctx, k, r, user)
	}
	a, leave, err := e.enter(ctx, k, r)
	if err != nil {
		return nil, err
	}
	defer leave()
	h, err := a.run(k, user)
	if err != nil {
		return nil, overWait(ctx, err)
	}
	return h, nil
}

// acquireInTurn acquires what one at a time can hold, and only the one that has
// the turn asks for. The turn stays with the hold.
func (e *Engine) acquireInTurn(ctx context.Context, k Kind, r Request, user watchdog.LossHandler) (*Hold, error) {
	limited, calls, cancel := r.limit(ctx)
	defer cancel()
	g := e.gate(k.Gate())
	defer e.leave(g)
	for {
		came := clock.Early()
		h, err := e.awaitTurn(limited, g, r.renewed())
		switch {
		case err != nil:
			if h != nil {
				h.abandon()
			} else if !errors.As(err, new(errNoTurn)) {
				g.give()
			}
			if errors.Is(err, ErrClosed) {
				return nil, ErrClosed
			}
			return nil, g.busy(ctx.Err())
		case h == nil:
			a := acquisition{e: e, k: k, traits: k.Traits(), r: r, waiting: limited, asking: calls, g: g, turn: true, keep: true, out: g.outage(came)}
			h, err := a.run(k, user)
			if err != nil {
				g.give()
				return nil, overWait(ctx, err)
			}
			return h, nil
		case calls.Err() != nil: // done as well
			h.abandon()
			return nil, g.busy(ctx.Err())
		case h.adopt(user):
			return h, nil
		}
		// Passed on and lost on the way; the turn went elsewhere with it.
	}
}

// enter returns an acquisition that gives up the turn, if there is one, when it has
// the lock; and a function to call when it is over.
func (e *Engine) enter(ctx context.Context, k target, r Request) (a *acquisition, leave func(), err error) {
	t := k.Traits()
	a = &acquisition{e: e, k: k, traits: t, r: r, once: r.Wait == 0}
	if a.once && t.Queue == script.InOrder && e.crowded(k.Gate()) {
		return nil, nil, &Busy{Local: true, Why: whyQueue}
	}
	a.waiting, a.asking, leave = r.limit(ctx)
	if cancel := leave; !a.once && (t.Queue == script.Together || t.Queue == script.InOrder) {
		a.g = e.gate(k.Gate())
		leave = func() {
			e.leave(a.g)
			cancel()
		}
	}
	return a, leave, nil
}

// limit returns the contexts for the waiting and for the requests of a call.
func (r Request) limit(ctx context.Context) (waiting, asking context.Context, cancel context.CancelFunc) {
	if r.Wait <= 0 {
		return ctx, ctx, func() {}
	}
	asking, stopAsking := context.WithTimeout(ctx, r.Wait+answerTime)
	waiting, stopWaiting := context.WithTimeout(asking, r.Wait)
	return waiting, asking, func() { stopWaiting(); stopAsking() }
}

// Taken is what was granted and leaves nothing to hold.
type Taken struct {
	script.Verdict
	Owner string // the name of the request
}

// Take waits until k is granted, where that leaves nothing to hold: nobody
// renews it, and nobody is told of its end.
func (e *Engine) Take(ctx context.Context, k target, r Request) (Taken, error) {
	if err := e.begin(); err != nil {
		return Taken{}, err
	}
	defer e.end()
	a, leave, err := e.enter(ctx, k, r)
	if err != nil {
		return Taken{}, err
	}
	defer leave()
	v, err := a.take()
	if err != nil {
		return Taken{}, overWait(ctx, err)
	}
	return Taken{v, a.claim.Owner}, nil
}

// overWait takes the mark of our own timers off the error of a wait that was
// only ended by them: the caller's context is not done.
func overWait(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var busy *Busy
	if errors.As(err, &busy) {
		busy.Err = nil
		return err
	}
	if !errors.Is(err, ErrUnavailable) {
		return &Busy{} // the time was over when the turn came
	}
	last := &driver.Error{Class: driver.ClassOf(err), Code: driver.CodeOf(err), Err: errors.New("no answer in the time to wait")}
	if last.Code != "" {
		last.Err = errors.New(last.Code)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, last)
}

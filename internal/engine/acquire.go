package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Forever, as Request.Wait, waits until the context is done.
const Forever time.Duration = -1

// yieldTime is how long a process that has just released lets others go first.
// The message that wakes them wakes it, too, and mostly sooner.
const yieldTime = 3 * time.Millisecond

// A Request says how to acquire.
type Request struct {
	Lease time.Duration // fixed; zero: the engine's, renewed
	Wait  time.Duration // zero: try once
	// Pause, if set, is asked for the time before the next look, given how
	// many have failed: the wait then needs no messages.
	Pause func(failures int) time.Duration
}

func (r Request) renewed() bool { return r.Lease == 0 }

// Acquire returns a hold of k for user, who is told if it is lost later.
func (e *Engine) Acquire(ctx context.Context, k Kind, r Request, user watchdog.Holder) (*Hold, error) {
	if err := e.begin(); err != nil {
		return nil, err
	}
	defer e.end()
	if r.Wait == 0 {
		return e.contend(ctx, nil, k, r, user)
	}
	limited := ctx
	if r.Wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	g := e.gate(k.Key())
	defer e.leave(g)
	for {
		h, err := e.take(limited, g, r.renewed())
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
			return nil, &Busy{Err: ctx.Err()}
		case h == nil:
			h, err := e.contend(limited, g, k, r, user)
			if err != nil {
				g.give()
				return nil, overWait(ctx, err)
			}
			return h, nil
		case h.adopt(user):
			return h, nil
		}
		// Passed on and lost on the way; the turn went elsewhere with it.
	}
}

// overWait takes the mark of our own timer off the error of a wait that was
// only ended by it: the caller's context is not done.
func overWait(ctx context.Context, err error) error {
	var busy *Busy
	if errors.As(err, &busy) && ctx.Err() == nil {
		busy.Err = nil
	}
	return err
}

// contend asks the server until it grants the lock. Without a gate it asks
// once, which means until the server gives any answer.
func (e *Engine) contend(ctx context.Context, g *gate, k Kind, r Request, user watchdog.Holder) (h *Hold, err error) {
	claim := script.Claim{Owner: e.owner(), Count: 1, Lease: r.Lease}
	if r.renewed() {
		claim.Lease = e.o.Lease
	}
	doubt := false
	defer func() {
		if err != nil && doubt {
			e.undo(k, claim.Owner, claim.Lease, true)
		}
	}()
	patience := e.o.Patience
	if g == nil {
		patience = min(patience, time.Second)
	}
	var (
		out      outage
		last     time.Duration // what the holder had left
		failures int
		timer    *time.Timer
	)
	if g != nil && g.yield && r.Pause == nil {
		e.join(g, k)
		if err := e.sleep(ctx, g, &timer, yieldTime); err != nil {
			return nil, e.gaveUp(ctx, err, &out, last)
		}
		g.yield = false
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, e.gaveUp(ctx, err, &out, last)
		}
		if g != nil && g.waiter != nil {
			g.waiter.Forget()
		}
		floor := e.token.Load()
		sent := clock.Early()
		v, err := k.Acquire(ctx, e.d, claim)
		var pause time.Duration
		switch {
		case err == nil && v.Granted():
			token := e.fence(v.Token, floor)
			h := &Hold{
				Charge: watchdog.Charge{
					Holding: script.Holding{Key: k.Key(), Owner: claim.Owner},
					Lease:   claim.Lease,
				},
				e: e, kind: k, doubt: doubt,
				base: token, token: token,
				granted:  clock.Early(),
				standing: r.renewed(),
				count:    1,
				renewers: boolInt(r.renewed()),
				user:     user,
				gate:     g,
			}
			switch err := ctx.Err(); {
			case err != nil: // too late for the caller, who may be gone
				doubt = true
				return nil, &Busy{Err: err}
			case !watchdog.InTime(sent, claim.Lease): // too late for the lease
				e.undo(k, claim.Owner, claim.Lease, doubt)
				claim.Owner, doubt = e.owner(), false
				continue
			}
			e.keep(h, sent)
			return h, nil
		case err == nil:
			out.over()
			failures++
			last = v.TTL
			if g == nil {
				return nil, &Busy{TTL: v.TTL}
			}
			if r.Pause != nil {
				pause = r.Pause(failures)
				break
			}
			if g.waiter == nil && e.join(g, k) {
				continue // the subscription was there: look once more, it may have been freed in between
			}
			pause = e.o.PollBlind
			if g.waiter.Live() {
				pause = e.o.Poll
			}
			if v.TTL >= 0 {
				pause = min(pause, v.TTL+time.Millisecond)
			}
		case driver.ClassOf(err) == driver.Fatal:
			return nil, refused(err)
		default:
			doubt = doubt || driver.ClassOf(err) == driver.Ambiguous
			if out.note(err) > patience {
				return nil, out.error()
			}
			pause = out.pause()
		}
		if err := e.sleep(ctx, g, &timer, pause); err != nil {
			return nil, e.gaveUp(ctx, err, &out, last)
		}
	}
}

// join begins to listen for releases. It reports whether messages arrive
// already; if not, the confirmation will wake the gate's waiter.
func (e *Engine) join(g *gate, k Kind) bool {
	if g.waiter == nil {
		g.waiter = e.hub.Join(k.Channel())
	}
	return g.waiter.Live()
}

// sleep waits for a message, but no longer than d.
func (e *Engine) sleep(ctx context.Context, g *gate, timer **time.Timer, d time.Duration) error {
	if *timer == nil {
		*timer = time.NewTimer(d)
	} else {
		(*timer).Reset(d)
	}
	defer (*timer).Stop()
	var wake <-chan struct{}
	if g != nil && g.waiter != nil {
		wake = g.waiter.Wake()
	}
	select {
	case <-wake:
	case <-(*timer).C:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return ErrClosed
	}
	return nil
}

// gaveUp is the error of a wait that err has ended.
func (e *Engine) gaveUp(ctx context.Context, err error, out *outage, ttl time.Duration) error {
	switch {
	case errors.Is(err, ErrClosed):
		return err
	case out.err != nil:
		return fmt.Errorf("%w (%w)", out.error(), err)
	}
	return &Busy{TTL: ttl, Err: err}
}

// keep takes a granted hold into care.
func (e *Engine) keep(h *Hold, sent time.Duration) {
	h.Holder = h
	if h.gate != nil {
		e.mu.Lock()
		h.gate.refs++
		e.mu.Unlock()
	}
	e.dog.Guard(&h.Charge, sent, h.standing)
}

func (e *Engine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// An outage is a row of failed attempts.
type outage struct {
	err   error // the last one; nil: the server works
	since time.Duration
	n     int
}

// note adds a failure and returns how long the outage has lasted.
func (o *outage) note(err error) time.Duration {
	if o.err == nil {
		o.since = clock.Early()
		o.n = 0
	}
	o.err = err
	o.n++
	return clock.Early() - o.since
}

func (o *outage) over() { o.err = nil }

// pause is how long to wait before the next attempt: 5 ms, doubling up to half
// a second, with jitter.
func (o *outage) pause() time.Duration {
	d := min(5*time.Millisecond<<min(o.n-1, 10), 500*time.Millisecond)
	return d/2 + rand.N(d/2)
}

func (o *outage) error() error { return fmt.Errorf("%w: %w", ErrUnavailable, o.err) }

func refused(err error) error {
	if errors.Is(err, driver.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

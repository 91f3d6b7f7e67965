package engine

import (
	"container/ring"
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A gate is the queue of one process for one name.
type gate struct {
	refs int                  // calls and holds that use it; guarded by gates.mu
	hold atomic.Pointer[Hold] // has the turn; nil if a call has it

	mu     sync.Mutex
	turns  int       // how many calls have the turn; more than one only if many may hold the lock
	queue  ring.Ring // of tickets, with an element that is none before the first
	length int       // of the queue

	verified time.Duration // when the hold was last verified for the calls in the queue

	failed   outage        // the outage that made the last call with the turn give up
	failedAt time.Duration // when it gave up

	sub    subscription // of the call that has the turn
	rivals rivals
	share  share // of the calls that need no turn: share.go
}

// A ticket is a place in the queue.
type ticket struct {
	place  ring.Ring // its value is the ticket
	queued bool
	lease  time.Duration // the call can use a hold that is renewed for this time; 0: none
	turn   chan *Hold    // receives the turn, with a hold or with nil
	timer  *time.Timer   // fires when the hold that has the turn should be verified
}

// gates are the gates of a client.
type gates struct {
	mu      sync.Mutex
	byKey   map[string]*gate
	most    int       // above this number, unused ones are forgotten
	tickets sync.Pool // of *ticket
}

// of returns the gate of a name. It forgets unused gates if there are as many as may be. Then twice
// as many as are left may be, so the cost per new gate is constant. The caller holds gs.mu.
func (gs *gates) of(key string) *gate {
	g := gs.byKey[key]
	if g == nil {
		if len(gs.byKey) >= gs.most {
			maps.DeleteFunc(gs.byKey, func(_ string, g *gate) bool { return g.refs == 0 && g.share.unused() })
			gs.most = max(minGates, 2*len(gs.byKey))
		}
		g = new(gate)
		gs.byKey[key] = g
	}
	return g
}

// gate returns the gate of a name and notes one more use of it.
func (e *Engine) gate(key string) *gate {
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	g := e.gates.of(key)
	g.refs++
	return g
}

// leaveGate notes one use less. After the last use, the gate has no subscription.
func (e *Engine) leaveGate(g *gate) {
	var last subscription
	e.gates.mu.Lock()
	if g.refs--; g.refs == 0 {
		last, g.sub = g.sub, subscription{}
	}
	e.gates.mu.Unlock()
	last.end(false)
}

// awaitTurn waits for the turn. It reports whether the caller has it, and returns the hold that was
// passed on with it, or nil. If the turn comes together with an error, the caller must pass it on.
func (e *Engine) awaitTurn(ctx context.Context, g *gate, traits script.Traits, lease time.Duration, long *longWait) (h *Hold, has bool, err error) {
	g.mu.Lock()
	if g.turns == 0 {
		g.turns = 1
		g.mu.Unlock()
		return nil, true, nil
	}
	if e.o.MaxQueue > 0 && traits.Queued.Joins() && g.calls() >= e.o.MaxQueue {
		g.mu.Unlock()
		return nil, false, ErrQueueFull
	}
	pause := min(e.o.Poll, localWait)
	fresh := e.o.Poll - pause // a hold that was verified within that time is not verified again
	end, ends := ctx.Deadline()
	if ends { // the hold is verified at least once before the call gives up
		left := time.Until(end)
		pause, fresh = min(pause, left/2), min(fresh, left/3)
	}
	t, ok := e.gates.tickets.Get().(*ticket)
	if !ok {
		t = &ticket{turn: make(chan *Hold, 1), timer: time.NewTimer(pause)}
	} else {
		t.timer.Reset(pause)
	}
	defer e.gates.tickets.Put(t)
	defer t.timer.Stop()
	t.lease = lease
	g.push(t)
	g.mu.Unlock()

	for arrived := clock.Early(); err == nil; {
		select {
		case h := <-t.turn:
			return h, true, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-e.Closing():
			err = ErrClosed
		case <-t.timer.C:
			if h := g.blocking(t, ends, fresh); h != nil {
				e.watchdog.Verify(h.Ref.Key)
			}
			if h := g.hold.Load(); h != nil && clock.Early()-arrived >= localWait {
				e.logLocalWait(h)
			}
			long.check()
			t.timer.Reset(pause)
		}
	}
	g.mu.Lock()
	queued := t.queued
	if queued {
		g.remove(t)
	}
	g.mu.Unlock()
	if !queued { // the turn came at the same time
		return <-t.turn, true, err
	}
	return nil, false, err
}

// calls returns how many calls wait, with the one that asks the server. The caller holds g.mu.
func (g *gate) calls() int { return g.length + boolInt(g.hold.Load() == nil) }

// blocking returns the hold that has the turn, if it was not verified for that time and t is the
// first in the queue or has a deadline. Otherwise it returns nil. The calls in the queue do not ask
// the server. So if the lock was deleted there, only a verification of the hold shows it.
func (g *gate) blocking(t *ticket, ends bool, fresh time.Duration) *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	h, now := g.hold.Load(), clock.Early()
	if g.first() != t && !ends || h == nil || now-max(g.verified, h.origin.at) < fresh {
		return nil
	}
	g.verified = now
	return h
}

// hasQueue reports whether a call of this process has the turn for that name.
func (e *Engine) hasQueue(key string) bool {
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	g := e.gates.byKey[key]
	return g != nil && !g.idle()
}

func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns == 0
}

// tryTake takes the turn if it is free.
func (g *gate) tryTake() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns > 0 {
		return false
	}
	g.turns = 1
	return true
}

// fail notes the outage that made the call with the turn give up.
func (g *gate) fail(o outage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed, g.failedAt = o, clock.Early()
}

// outage returns the outage that made the previous call with the turn give up, if this was later. A
// call that has waited since then has waited for the same server, from its own start.
func (g *gate) outage(since time.Duration) outage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failedAt <= since {
		return outage{}
	}
	o := g.failed
	o.since = max(o.since, since) // this call has waited for the server only since then
	return o
}

// give passes the turn, without a hold, to the next in the queue.
func (g *gate) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.first(); t != nil {
		g.remove(t)
		t.turn <- nil
		return
	}
	g.turns--
}

// open gives a turn to every call in the queue, after one has got a lock that many can hold.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for t := g.first(); t != nil; t = g.first() {
		g.remove(t)
		t.turn <- nil
		g.turns++
	}
	g.turns--
}

// pass hands a hold to the next in the queue. It returns false if none wants one with its lease.
func (g *gate) pass(h *Hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.first()
	if t == nil || t.lease != h.Lease {
		return false
	}
	g.remove(t)
	t.turn <- h
	return true
}

// waiting reports whether the next in the queue wants a hold that is renewed for that time.
func (g *gate) waiting(lease time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.first()
	return t != nil && t.lease == lease
}

// first returns the first in the queue, or nil. The caller holds g.mu, as for push and remove.
func (g *gate) first() *ticket {
	t, _ := g.queue.Next().Value.(*ticket)
	return t
}

func (g *gate) push(t *ticket) {
	g.length++
	t.place.Value, t.queued = t, true
	g.queue.Prev().Link(&t.place)
}

func (g *gate) remove(t *ticket) {
	g.length--
	t.queued = false
	t.place.Prev().Unlink(1)
}

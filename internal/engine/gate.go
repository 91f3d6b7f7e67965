package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A gate is the queue of one process before one name.
type gate struct {
	key  string
	refs int // calls and holds that use it; guarded by Engine.mu

	mu    sync.Mutex
	turns int   // given; more than one only where many may hold the lock
	hold  *Hold // that keeps the turn; nil while the server is asked
	head  *ticket
	tail  *ticket

	verified time.Duration // when the hold was verified last for those in the queue

	failed   outage        // that made the last one with the turn give up
	failedAt time.Duration // when

	// For whoever has the turn.
	waiter *wait.Waiter // nil until the lock was found held
	rivals int          // other clients that heard of the last release
	yield  bool         // which has just happened: let them try, too
}

// A ticket is a place in the queue.
type ticket struct {
	next, prev *ticket
	queued     bool
	renewed    bool        // wants a hold that is renewed
	turn       chan *Hold  // receives the turn, with a hold or without
	timer      *time.Timer // when to look whether the hold in front is still held
}

// gate returns the gate of a name and notes one more use of it.
func (e *Engine) gate(key string) *gate {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gates[key]
	if g == nil {
		g = gates.Get().(*gate)
		g.key = key
		if y, ok := e.yields[key]; ok {
			if y.until > clock.Early() {
				g.rivals, g.yield = y.rivals, true
			}
			delete(e.yields, key)
		}
		e.gates[key] = g
	}
	g.refs++
	return g
}

// A yield is a gate that must let others try until then.
type yield struct {
	until  time.Duration
	rivals int
}

// maxYields bounds the names that are remembered without a gate.
const maxYields = 128

// remember keeps for a moment that others listen for a name, so that whoever
// locks and releases it in a loop does not shut them out. The caller holds
// e.mu.
func (e *Engine) remember(key string, rivals int) {
	now := clock.Early()
	if len(e.yields) >= maxYields {
		maps.DeleteFunc(e.yields, func(_ string, y yield) bool { return y.until <= now })
	}
	if len(e.yields) < maxYields {
		e.yields[key] = yield{now + yieldTime, rivals}
	}
}

// Yield notes that this process has given back what that many clients heard of
// who wait for it, so that it lets them try before it asks again.
func (e *Engine) Yield(k target, heard int) {
	rivals := heard - boolInt(e.hub.Listens(k.Channels("")[0]))
	if rivals <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gates[k.Gate()] == nil { // else those who wait there are woken like all others
		e.remember(k.Gate(), rivals)
	}
}

var gates = sync.Pool{New: func() any { return new(gate) }}

// leave notes one use less. A gate that nobody uses is gone.
func (e *Engine) leave(g *gate) {
	e.mu.Lock()
	g.refs--
	last := g.refs == 0
	if last {
		delete(e.gates, g.key)
		if g.yield {
			e.remember(g.key, g.rivals)
		}
	}
	e.mu.Unlock()
	if last {
		if g.waiter != nil {
			g.waiter.Leave()
		}
		*g = gate{}
		gates.Put(g)
	}
}

// awaitTurn waits for the turn. With it may come a hold that was passed on.
func (e *Engine) awaitTurn(ctx context.Context, g *gate, renewed bool) (*Hold, error) {
	g.mu.Lock()
	if g.turns == 0 {
		g.turns = 1
		g.mu.Unlock()
		return nil, nil
	}
	pause := min(e.o.Poll, localWait)
	t, ok := e.tickets.Get().(*ticket)
	if !ok {
		t = &ticket{turn: make(chan *Hold, 1), timer: time.NewTimer(pause)}
	} else {
		t.timer.Reset(pause)
	}
	defer e.tickets.Put(t)
	defer t.timer.Stop()
	t.renewed = renewed
	g.push(t)
	g.mu.Unlock()

	var err error
	for told := false; err == nil; {
		select {
		case h := <-t.turn:
			return h, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-e.closing:
			err = ErrClosed
		case <-t.timer.C:
			if h := g.blocking(t, e.o.Poll-pause); h != nil {
				e.watchdog.Verify(h.Key)
			}
			told = told || e.noteLocalWait(g.holder())
			t.timer.Reset(pause)
		}
	}
	g.mu.Lock()
	queued := t.queued
	if queued {
		g.remove(t)
	}
	g.mu.Unlock()
	if !queued { // the turn came at the same moment: it must go on
		return <-t.turn, err
	}
	return nil, errNoTurn{err}
}

// blocking returns the hold that the first in the queue waits for, if t is the
// first and that hold was not verified for so long. A lock that was deleted at
// the server looks held to this client until its hold is verified, and those who
// queue behind the hold do not ask the server themselves.
func (g *gate) blocking(t *ticket, unverified time.Duration) *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := clock.Early()
	if g.head != t || g.hold == nil || now-max(g.verified, g.hold.granted) < unverified {
		return nil
	}
	g.verified = now
	return g.hold
}

// holder returns the hold that keeps the turn, or nil.
func (g *gate) holder() *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hold
}

// keep notes which hold keeps the turn; nil: none does any more.
func (g *gate) keep(h *Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold = h
}

// crowded reports whether anybody in the process waits for that name.
func (e *Engine) crowded(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gates[key]
	return g != nil && !g.free()
}

// yields reports, once, whether others are to be let try.
func (g *gate) yields() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	yield := g.yield
	g.yield = false
	return yield
}

// free reports whether nobody has the turn.
func (g *gate) free() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns == 0
}

// tryTake takes the turn if nobody has it.
func (g *gate) tryTake() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turns > 0 {
		return false
	}
	g.turns = 1
	return true
}

// errNoTurn is the error of a take that ended without the turn.
type errNoTurn struct{ error }

func (e errNoTurn) Unwrap() error { return e.error }

// fail notes that the one with the turn has given up.
func (g *gate) fail(o outage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed, g.failedAt = o, clock.Early()
}

// outage returns the outage that ended the attempt of the previous turn holder,
// as a caller met it that has waited for the turn since then: both wait for the
// same server, each from its own start.
func (g *gate) outage(since time.Duration) outage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failedAt <= since {
		return outage{}
	}
	o := g.failed
	o.since = max(o.since, since) // this one has waited for the server only since then
	return o
}

// give passes the bare turn to the next in the queue.
func (g *gate) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.head; t != nil {
		g.remove(t)
		t.turn <- nil
		return
	}
	g.turns--
}

// open gives everybody in the queue a turn: where one was let in, so will the
// others be.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for t := g.head; t != nil; t = g.head {
		g.remove(t)
		t.turn <- nil
		g.turns++
	}
	g.turns--
}

// pass hands a hold to the next in the queue if that one can use it.
func (g *gate) pass(h *Hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.head
	if t == nil || !t.renewed {
		return false
	}
	g.remove(t)
	t.turn <- h
	return true
}

// waiting reports whether anybody queues for a renewed hold.
func (g *gate) waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.head != nil && g.head.renewed
}

func (g *gate) push(t *ticket) {
	t.queued = true
	t.prev = g.tail
	if g.tail == nil {
		g.head = t
	} else {
		g.tail.next = t
	}
	g.tail = t
}

func (g *gate) remove(t *ticket) {
	if t.prev == nil {
		g.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		g.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.next, t.prev, t.queued = nil, nil, false
}

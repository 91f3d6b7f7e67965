package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A gate is the queue of one process for one name.
type gate struct {
	key  string
	refs int // calls and holds that use it; guarded by gates.mu

	mu     sync.Mutex
	turns  int   // how many calls have the turn; more than one only if many may hold the lock
	hold   *Hold // has the turn; nil if a call has it
	head   *ticket
	tail   *ticket
	length int // of the queue

	verified time.Duration // when the hold was last verified for the calls in the queue

	failed   outage        // the outage that made the last call with the turn give up
	failedAt time.Duration // when it gave up

	// Used by the call that has the turn.
	sub    subscription
	rivals int           // how many other clients received the message of the last release
	yield  bool          // the release was just now: let the rivals ask first
	heard  time.Duration // when rivals received such a message
}

// A ticket is a place in the queue.
type ticket struct {
	next, prev *ticket
	queued     bool
	lease      time.Duration // the call can use a hold that is renewed for this time; 0: none
	turn       chan *Hold    // receives the turn, with a hold or with nil
	timer      *time.Timer   // fires when the hold that has the turn should be verified
}

// gates are the gates of a client.
type gates struct {
	mu      sync.Mutex
	byKey   map[string]*gate
	most    int                   // above this number, unused ones are forgotten
	yields  map[string]savedYield // by gate: see saveYield
	tickets sync.Pool             // of *ticket
}

// minGates is how many gates are kept at least, because the next call may need them.
const minGates = 1024

// forget deletes unused entries if the map has as many entries as it may have, and sets how
// many it may have next: twice as many as are left, and not less than least. So the cost per
// new entry is constant.
func forget[V any](m map[string]V, most *int, least int, unused func(V) bool) {
	if len(m) >= *most {
		maps.DeleteFunc(m, func(_ string, v V) bool { return unused(v) })
		*most = max(least, 2*len(m))
	}
}

// gate returns the gate of a name and notes one more use of it. It forgets unused gates if
// there are many.
func (e *Engine) gate(key string) *gate {
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	g := e.gates.byKey[key]
	if g == nil {
		forget(e.gates.byKey, &e.gates.most, minGates, func(g *gate) bool { return g.refs == 0 })
		g = gatePool.Get().(*gate)
		g.key = key
		e.gates.byKey[key] = g
	}
	if g.refs == 0 && len(e.gates.yields) > 0 {
		if y, ok := e.gates.yields[key]; ok {
			if y.until > clock.Early() {
				g.rivals, g.yield = y.rivals, true
			}
			delete(e.gates.yields, key)
		}
	}
	g.refs++
	return g
}

// A savedYield is what is kept of a gate that is not used any more: until then, the next call
// for the name lets the rivals ask first.
type savedYield struct {
	until  time.Duration
	rivals int
}

// maxYields bounds the number of saved yields.
const maxYields = 128

// saveYield keeps for yieldTime that other clients listen for a name. So a process that
// locks and releases it in a loop does not starve them. The caller holds e.gates.mu.
func (e *Engine) saveYield(key string, rivals int) {
	now := clock.Early()
	if len(e.gates.yields) >= maxYields {
		maps.DeleteFunc(e.gates.yields, func(_ string, y savedYield) bool { return y.until <= now })
	}
	if len(e.gates.yields) < maxYields {
		e.gates.yields[key] = savedYield{now + yieldTime, rivals}
	}
}

// Yield notes that this process has released k, and that the message reached that many
// clients. They may ask before this process asks again.
func (e *Engine) Yield(k target, heard int) {
	rivals := e.rivals(k, heard)
	if rivals == 0 {
		return
	}
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	if g := e.gates.byKey[k.Gate()]; g == nil || g.refs == 0 { // otherwise the message also wakes the waiters of this process
		e.saveYield(k.Gate(), rivals)
	}
}

// rivals returns how many of the clients that have received the message of a release are others.
// Clients in the queue at the server do not listen to it.
func (e *Engine) rivals(k target, heard int) int {
	if !k.Traits().Queued.Joins() {
		heard -= boolInt(e.hub.Listens(k.Channels("")[0]))
	}
	return max(heard, 0)
}

var gatePool = sync.Pool{New: func() any { return new(gate) }}

// leaveGate notes one use less. After the last use, the gate is removed, unless it is as new.
func (e *Engine) leaveGate(g *gate) {
	e.gates.mu.Lock()
	g.refs--
	last := g.refs == 0 && !g.asNew()
	if last {
		delete(e.gates.byKey, g.key)
		if g.yield {
			e.saveYield(g.key, g.rivals)
		}
	}
	e.gates.mu.Unlock()
	if last {
		g.sub.end(false)
		*g = gate{}
		gatePool.Put(g)
	}
}

// asNew reports whether a gate that is not used can be used again as it is.
func (g *gate) asNew() bool { return *g == (gate{key: g.key}) }

// awaitTurn waits for the turn. It returns the hold that was passed on with the turn, or
// nil. If it returns an error that is not errNoTurn, the turn came at the same time, and
// the caller must pass it on.
func (e *Engine) awaitTurn(ctx context.Context, g *gate, traits script.Traits, lease time.Duration, long *longWait) (*Hold, error) {
	g.mu.Lock()
	if g.turns == 0 {
		g.turns = 1
		g.mu.Unlock()
		return nil, nil
	}
	if e.o.MaxQueue > 0 && traits.Queued.Joins() && g.calls() >= e.o.MaxQueue {
		g.mu.Unlock()
		return nil, errNoTurn{ErrQueueFull}
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

	var err error
	for arrived := clock.Early(); err == nil; {
		select {
		case h := <-t.turn:
			return h, nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-e.life.closing:
			err = ErrClosed
		case <-t.timer.C:
			if h := g.blocking(t, ends, fresh); h != nil {
				e.watchdog.Verify(h.Ref.Key)
			}
			if h := g.holder(); h != nil && clock.Early()-arrived >= localWait {
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
		return <-t.turn, err
	}
	return nil, errNoTurn{err}
}

// calls returns how many calls wait: those in the queue, and the one that has the turn
// and asks the server. The caller holds g.mu.
func (g *gate) calls() int { return g.length + boolInt(g.hold == nil) }

// blocking returns the hold that has the turn, if it was not verified for that time and t is
// the first in the queue or ends. Otherwise it returns nil. The calls in the queue do not ask
// the server. So if the lock was deleted at the server, only a verification of the hold shows
// it.
func (g *gate) blocking(t *ticket, ends bool, fresh time.Duration) *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := clock.Early()
	if g.head != t && !ends || g.hold == nil || now-max(g.verified, g.hold.origin.at) < fresh {
		return nil
	}
	g.verified = now
	return g.hold
}

// holder returns the hold that has the turn, or nil.
func (g *gate) holder() *Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hold
}

// setHold sets which hold has the turn; nil: none.
func (g *gate) setHold(h *Hold) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold = h
}

// hasQueue reports whether a call of this process has the turn for that name.
func (e *Engine) hasQueue(key string) bool {
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	g := e.gates.byKey[key]
	return g != nil && !g.idle()
}

// takeYield reports whether rivals should ask first, and resets that.
func (g *gate) takeYield() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	yield := g.yield
	g.yield = false
	return yield
}

// idle reports whether the turn is free.
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

// errNoTurn is the error of an awaitTurn that ended without the turn.
type errNoTurn struct{ error }

func (e errNoTurn) Unwrap() error { return e.error }

// fail notes the outage that made the call with the turn give up.
func (g *gate) fail(o outage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed, g.failedAt = o, clock.Early()
}

// outage returns the outage that made the previous call with the turn give up, as it
// applies to a call that has waited since then. Both calls wait for the same server, each
// from its own start. It returns the zero outage if that was before.
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
	if t := g.head; t != nil {
		g.remove(t)
		t.turn <- nil
		return
	}
	g.turns--
}

// open gives a turn to every call in the queue. When one call has got a lock that many
// can hold, the others can get it, too.
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

// pass hands a hold to the next in the queue. It returns false if the queue is empty or
// if the next call wants another lease.
func (g *gate) pass(h *Hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.head
	if t == nil || t.lease != h.Lease {
		return false
	}
	g.remove(t)
	t.turn <- h
	return true
}

// Rivals, such as Redisson, do not queue at the server: they compete for each release. So while
// there are some, a grant serves the goroutines of this process for a shorter time, and a section
// that takes longer is followed by a release. Rivals count for a while, because a release that
// grants the lock does not count them.
const (
	rivalSlice = 5           // the time is divided by it
	rivalTime  = time.Second // for which rivals count after a message that they received
)

// sliceTime returns for how long after a grant hand-offs are allowed, at most that time. The
// caller has the turn.
func (g *gate) sliceTime(now, most time.Duration) time.Duration {
	if g.heard > 0 && now-g.heard < rivalTime {
		return most / rivalSlice
	}
	return most
}

// waiting reports whether the next in the queue wants a hold that is renewed for that
// time.
func (g *gate) waiting(lease time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.head != nil && g.head.lease == lease
}

func (g *gate) push(t *ticket) {
	g.length++
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
	g.length--
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

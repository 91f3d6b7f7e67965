package watchdog

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A lane is a row of calls that wait for each other. Leases of any length share
// one, unless they differ in how long they can wait for an answer.
type queueKey struct {
	node   string
	sort   string // of what is renewed; "": pending
	acked  bool   // replicas have to acknowledge it
	urgent bool
	rank   int // of the patience: at most twice as long for one as for another
}

// lane returns the lane in which to renew a charge. The caller holds w.mu.
func (w *Watchdog) queueOf(c *Watched, now time.Duration) queueKey {
	return queueKey{
		node:   w.d.Place(c.Key).Node,
		sort:   c.Sort(),
		acked:  w.acks > 0 && c.renewal > 0,
		urgent: c.verify || c.warning()-now < c.renewal/3,
		rank:   bits.Len64(uint64(w.patience(c, now).Milliseconds())),
	}
}

// patience is how long to wait for the answer to a renewal. One that is answered
// after the deadline that it was to move is useless, and half of the rest is left
// for another try.
func (w *Watchdog) patience(c *Watched, now time.Duration) time.Duration {
	limit := w.every
	if c.renewal > 0 {
		limit = c.renewal / 6
	}
	return max(min(limit, (c.warning()-now)/2), time.Millisecond)
}

// launch sends what is due, one goroutine per lane. Leases that are due soon
// come along, so that those taken in a row are renewed in one call from then on.
// The caller holds w.mu.
func (w *Watchdog) launch(now time.Duration) {
	if len(w.guarded) > 0 && w.guarded[0].at <= now {
		renew := make(map[queueKey][]*Watched)
		for _, c := range w.guarded {
			if c.flying || c.due > now+w.every/8 {
				continue
			}
			l := w.queueOf(c, now)
			if w.flying[l] {
				c.due = now + w.retry() // when it may be free
				continue
			}
			c.flying = true
			renew[l] = append(renew[l], c)
		}
		for _, c := range w.guarded {
			c.schedule()
		}
		heap.Init(&w.guarded)
		for l, cs := range renew {
			w.fly(l, w.renewal(l, cs, now))
		}
	}
	release := make(map[queueKey][]*pendingRelease)
	for len(w.pending) > 0 && w.pending[0].due <= now {
		g := heap.Pop(&w.pending).(*pendingRelease)
		if now >= g.until {
			continue // whatever it was, it is over
		}
		l := queueKey{node: g.node}
		release[l] = append(release[l], g)
	}
	for l, gs := range release {
		if w.flying[l] {
			w.behind[l] = append(w.behind[l], gs...)
			continue
		}
		w.fly(l, func() { w.release(gs) })
	}
}

// fly runs calls in their lane. The caller holds w.mu.
func (w *Watchdog) fly(l queueKey, calls func()) {
	w.flying[l] = true
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		calls()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.flying, l)
		for _, g := range w.behind[l] {
			heap.Push(&w.pending, g)
		}
		delete(w.behind, l)
		w.rouse(0)
	}()
}

// renewal returns what renews the leases of a lane. The caller holds w.mu.
func (w *Watchdog) renewal(l queueKey, cs []*Watched, now time.Duration) func() {
	limit := never
	for _, c := range cs {
		limit = min(limit, w.patience(c, now))
	}
	// One call per slot, and per so many leases.
	var batches [][]*Watched
	open := make(map[int]int)
	var weights []int
	for _, c := range cs {
		slot := w.d.Place(c.Key).Slot
		i, ok := open[slot]
		if !ok || weights[i]+c.Weight() > maxBatch {
			i = len(batches)
			open[slot] = i
			batches = append(batches, nil)
			weights = append(weights, 0)
		}
		batches[i] = append(batches[i], c)
		weights[i] += c.Weight()
	}
	return func() {
		for len(batches) > 0 {
			batches = w.send(batches, l.acked, limit)
		}
	}
}

// send renews the leases of some batches, each by one call. It returns those
// that have to be tried in smaller ones.
func (w *Watchdog) send(batches [][]*Watched, acked bool, limit time.Duration) (smaller [][]*Watched) {
	ctx, cancel := context.WithTimeout(w.life, limit)
	defer cancel()
	calls := make([]driver.Call, len(batches))
	answers := make([]answer, len(batches))
	w.mu.Lock()
	now := clock.Now()
	for i, cs := range batches {
		asked := make([]time.Duration, len(cs))
		hs := make([]script.LockRef, len(cs))
		for j, c := range cs {
			asked[j], hs[j] = c.asks(now), c.LockRef
		}
		calls[i] = script.Renew(asked, hs)
		answers[i] = answer{asked: asked, term: w.d.Place(cs[0].Key).Term}
	}
	w.mu.Unlock()
	sent := clock.Early()
	for i, r := range w.ask(ctx, calls, acked, limit) {
		cs, a := batches[i], answers[i]
		if len(cs) > 1 && divisible(r.Err) && w.life.Err() == nil {
			smaller = slices.AppendSeq(smaller, slices.Chunk(cs, (len(cs)+7)/8))
			continue
		}
		a.err, a.sent = r.Err, sent
		if a.err == nil {
			a.held, a.err = script.Renewed(r.Reply, len(cs))
		}
		if a.err == nil && acked && r.Acked < w.acks {
			a.short = fmt.Errorf("%d of %d replicas have acknowledged it", r.Acked, w.acks)
		}
		w.settle(cs, a)
	}
	return smaller
}

// divisible reports whether a call for several leases may have failed through
// one of their keys: the server has refused it, or serves only calls whose keys
// are all on one side of a slot that is being moved. Then each lease is settled
// by an answer of its own, so that no key costs a lease on another.
func divisible(err error) bool {
	return err != nil && (driver.ClassOf(err) == driver.Fatal || driver.CodeOf(err) == "TRYAGAIN")
}

// ask sends renewals, and waits for as many replicas as have to know of them.
func (w *Watchdog) ask(ctx context.Context, calls []driver.Call, acked bool, limit time.Duration) []driver.Result {
	if !acked {
		return w.d.DoMany(ctx, calls)
	}
	return w.d.DoAcked(ctx, calls, w.acks, min(w.ackTime, limit/2)) // so that the server can say how many
}

// An answer is what came of one renewal.
type answer struct {
	held  []bool
	err   error
	short error // that too few replicas know of it
	sent  time.Duration
	asked []time.Duration // for how long to keep each lease
	term  uint64
}

// settle takes in the answer to one renewal.
func (w *Watchdog) settle(cs []*Watched, a answer) {
	var lost []*Watched
	var whys []Reason
	needed := false // that it is renewed
	failed := cmp.Or(a.err, a.short)
	w.mu.Lock()
	for i, c := range cs {
		again := c.again
		c.flying, c.again = false, false
		c.verify = c.verify || again
		switch {
		case c.index < 0: // released or lost meanwhile
		case a.err != nil || a.short != nil && a.held[i]:
			c.short = a.short != nil || c.short && driver.ClassOf(a.err) == driver.Ambiguous
			c.fault.Store(&failed)
			c.due = clock.Now() + w.pause(c, a.err)
			needed = needed || c.renewal > 0 || c.verify
			w.reschedule(c)
		case a.held[i]:
			c.fault.Store(nil)
			c.short, c.refused = false, 0
			c.Term = a.term
			c.verify = again || c.Term != w.d.Place(c.Key).Term // once more: it was changed meanwhile
			if c.renewal > 0 {
				c.extend(a.sent, a.asked[i])
			}
			c.due = a.sent + w.period(c.renewal)
			if c.verify {
				c.due = 0
			}
			w.reschedule(c)
		default:
			w.drop(c)
			lost, whys = append(lost, c), append(whys, c.denied(a.term, w.d.Place(c.Key).Term))
		}
	}
	warn := needed && w.life.Err() == nil && (w.warned == 0 || a.sent-w.warned >= time.Second) // not for every try
	if warn {
		w.warned = a.sent
	}
	w.mu.Unlock()
	for i, c := range lost {
		c.Handler.Lost(whys[i])
	}
	if warn {
		w.log.Warn("cannot renew leases, will try again", "leases", len(cs), "error", failed)
	}
	for i, c := range lost {
		text := "lease lost: the server says that its owner no longer holds the lock"
		if whys[i] == Failover {
			text = "lease lost: the server was replaced or restarted, and does not know it"
		}
		w.log.Warn(text, "name", c.Called(), "owner", c.Owner)
	}
}

// pause is how long to wait after a renewal without success. The caller holds
// w.mu.
func (w *Watchdog) pause(c *Watched, err error) time.Duration {
	if c.renewal == 0 && !c.verify {
		return w.every // a matter of routine
	}
	if err == nil || driver.ClassOf(err) != driver.Fatal {
		return w.retry()
	}
	// The server refuses until an operator changes something, and each lease
	// costs a call of its own.
	c.refused = min(c.refused+1, 8)
	return min(w.retry()<<c.refused, w.every/4)
}

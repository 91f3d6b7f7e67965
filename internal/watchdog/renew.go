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

// A queueKey names a queue of calls, which are sent one after the other. Leases of different
// lengths share a queue, unless they differ much in how long they can wait for an answer.
type queueKey struct {
	node   string
	sort   string // of the locks that are renewed
	acked  bool   // replicas must acknowledge the renewals
	urgent bool
	rank   int // the patience as a power of two, so that it varies at most by two in a queue
}

// queueOf returns the queue in which to renew a lease. The caller holds w.mu.
func (w *Watchdog) queueOf(c *Watched, now time.Duration) queueKey {
	return queueKey{
		node:   w.d.Place(c.Ref.Key).Node,
		sort:   c.Ref.Sort(),
		acked:  w.replicas.acks > 0 && c.state.renewal > 0,
		urgent: c.state.verify || c.warning()-now < c.state.renewal/3,
		rank:   bits.Len64(uint64(w.patience(c, now).Milliseconds())),
	}
}

// patience returns how long to wait for the answer to a renewal, at most half of the time until the
// warning, so that a second renewal can still be in time.
func (w *Watchdog) patience(c *Watched, now time.Duration) time.Duration {
	limit := w.every
	if c.state.renewal > 0 {
		limit = c.state.renewal / 6
	}
	return max(min(limit, (c.warning()-now)/2), time.Millisecond)
}

// sendDue sends the calls that are due, with one goroutine per queue. Leases that are due soon are
// sent with them, so that they share a call from then on. The caller holds w.mu.
func (w *Watchdog) sendDue(now time.Duration) {
	if len(w.guarded) == 0 || w.guarded[0].state.at > now {
		return
	}
	renew := make(map[queueKey][]*Watched)
	for _, c := range w.guarded {
		if c.state.inFlight || c.state.due > now+w.every/8 {
			continue
		}
		q := w.queueOf(c, now)
		if w.inFlight[q] {
			c.state.due = now + clock.RetryPause(w.period(c.state.renewal)) // the queue may be free then
			continue
		}
		c.state.inFlight = true
		renew[q] = append(renew[q], c)
	}
	for _, c := range w.guarded {
		c.schedule()
	}
	heap.Init(&w.guarded)
	for q, cs := range renew {
		w.renewal(q, cs, now)
	}
}

// renewal renews the leases of a queue in a goroutine. The caller holds w.mu.
func (w *Watchdog) renewal(q queueKey, cs []*Watched, now time.Duration) {
	limit := never
	for _, c := range cs {
		limit = min(limit, w.patience(c, now))
	}
	// One call renews up to maxBatch leases of one slot.
	var batches [][]*Watched
	open := make(map[int]int)
	var weights []int
	for _, c := range cs {
		slot := w.d.Place(c.Ref.Key).Slot
		i, ok := open[slot]
		if !ok || weights[i]+c.Ref.Weight() > maxBatch {
			i = len(batches)
			open[slot] = i
			batches = append(batches, nil)
			weights = append(weights, 0)
		}
		batches[i] = append(batches[i], c)
		weights[i] += c.Ref.Weight()
	}
	w.inFlight[q] = true
	w.wg.Go(func() {
		for len(batches) > 0 {
			batches = w.send(batches, q.acked, limit)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.inFlight, q)
		w.wakeBy(0)
	})
}

// send renews several batches, each by one call, and returns what must be sent again in parts.
func (w *Watchdog) send(batches [][]*Watched, acked bool, limit time.Duration) (smaller [][]*Watched) {
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	calls := make([]driver.Call, len(batches))
	answers := make([]answer, len(batches))
	w.mu.Lock()
	now := clock.Now()
	for i, cs := range batches {
		asked := make([]time.Duration, len(cs))
		hs := make([]script.LockRef, len(cs))
		for j, c := range cs {
			asked[j], hs[j] = c.renewFor(now), c.Ref
		}
		calls[i] = script.Renew(asked, hs)
		place := w.d.Place(cs[0].Ref.Key)
		answers[i] = answer{asked: asked, term: place.Term, node: place.Node}
	}
	w.mu.Unlock()
	sent := clock.Early()
	var results []driver.Result
	if acked {
		within := min(w.replicas.within, limit/2) // the rest is for the reply, which says how many have it
		results = w.d.DoAcked(ctx, calls, w.replicas.acks, within)
	} else {
		results = w.d.DoMany(ctx, calls)
	}
	for i, r := range results {
		cs, a := batches[i], answers[i]
		if len(cs) > 1 && divisible(r.Err) && w.ctx.Err() == nil {
			smaller = slices.AppendSeq(smaller, slices.Chunk(cs, (len(cs)+7)/8))
			continue
		}
		a.err, a.sent = r.Err, sent
		if a.err == nil {
			a.held, a.err = script.Renewed(r.Reply, len(cs))
		}
		if a.err == nil && acked && r.Acked < w.replicas.acks {
			a.unacked = fmt.Errorf("%d of %d replicas acknowledged the renewal", r.Acked, w.replicas.acks)
		}
		w.applyAll(cs, a)
	}
	return smaller
}

// divisible reports whether one key may be the reason why a call for several leases failed: the
// server has refused it, or the slot is being moved and the keys are partly on each side.
func divisible(err error) bool {
	return err != nil && (driver.ClassOf(err) == driver.Fatal || driver.CodeOf(err) == "TRYAGAIN")
}

// An answer is the result of one renewal of several leases.
type answer struct {
	held    []bool
	err     error
	unacked error // set if too few replicas have acknowledged it
	sent    time.Duration
	asked   []time.Duration // how long the server was asked to keep each lease
	term    uint64          // of the server when the renewal was sent
	node    string
}

// An outcome is what an answer means for its leases.
type outcome struct {
	Renewal
	confirmed []*Watched
	lost      []*Watched
	whys      []Reason // of lost
	warn      bool     // a lease ends without the renewal, which has failed
}

// applyAll applies an answer to its leases, and then tells of it without a lock, of losses first.
func (w *Watchdog) applyAll(cs []*Watched, a answer) {
	o := outcome{Renewal: Renewal{Err: cmp.Or(a.err, a.unacked), Node: a.node}}
	w.mu.Lock()
	now := clock.Now()
	for i, c := range cs {
		w.apply(&o, c, &a, i, now)
	}
	w.count(&o, a.sent)
	w.mu.Unlock()
	for i, c := range o.lost {
		c.Handler.Lost(o.whys[i])
	}
	if w.renewed != nil && o.Leases > 0 {
		w.renewed(o.Renewal)
	}
	for _, c := range o.confirmed {
		if k, ok := c.Handler.(ConfirmHandler); ok {
			k.Confirmed()
		}
	}
	w.logOutcome(&o, len(cs))
}

// note adds a lease to a renewal. The caller holds w.mu.
func (w *Watchdog) note(r *Renewal, c *Watched, now time.Duration) {
	if overdue := w.overdue(c, now); r.Leases == 0 || overdue > r.Overdue {
		r.LockRef, r.Overdue = c.Ref, overdue
	}
	r.Late = max(r.Late, now-c.state.confirmed-w.period(c.state.renewal))
	r.Leases++
}

// apply applies an answer to the lease with that number. The caller holds w.mu.
func (w *Watchdog) apply(o *outcome, c *Watched, a *answer, i int, now time.Duration) {
	s := &c.state
	if s.index >= 0 {
		w.note(&o.Renewal, c, now)
	}
	again := s.verifyAgain
	s.inFlight, s.verifyAgain = false, false
	s.verify = s.verify || again
	switch {
	case s.index < 0: // released or lost meanwhile
	case a.err != nil || a.unacked != nil && a.held[i]:
		s.unacked = a.unacked != nil || s.unacked && driver.ClassOf(a.err) == driver.Ambiguous
		fault := o.Err
		c.fault.Store(&fault)
		s.due = clock.Now() + w.pause(c, a.err)
		o.warn = o.warn || s.renewal > 0 || s.verify
		w.reschedule(c)
	case a.held[i]:
		c.fault.Store(nil)
		s.unacked, s.refused = false, 0
		s.confirmed = a.sent
		if c.Term != a.term {
			c.Term = a.term
			o.Verified++
		}
		s.verify = again || c.Term != w.d.Place(c.Ref.Key).Term // the term has changed meanwhile
		if s.renewal > 0 {
			c.extend(a.sent, a.asked[i])
		}
		s.due = a.sent + w.period(s.renewal)
		if s.verify {
			s.due = 0
		}
		w.reschedule(c)
		o.confirmed = append(o.confirmed, c)
	default:
		w.drop(c)
		o.lost, o.whys = append(o.lost, c), append(o.whys, c.denied(a.term, w.d.Place(c.Ref.Key).Term))
	}
}

// count counts the outcome of a renewal, and decides whether it is logged. The caller holds w.mu.
func (w *Watchdog) count(o *outcome, sent time.Duration) {
	if o.Err == nil {
		w.stats.Renewals += uint64(o.Leases)
	} else {
		w.stats.FailedRenewals += uint64(o.Leases)
	}
	if o.warn = o.warn && w.ctx.Err() == nil && (w.warned == 0 || sent-w.warned >= time.Second); o.warn {
		w.warned = sent
	}
}

// logOutcome logs the outcome of a renewal of that many leases.
func (w *Watchdog) logOutcome(o *outcome, leases int) {
	if o.warn {
		w.log.Warn("cannot renew leases, will try again", "leases", leases, "error", o.Err)
	}
	for i, c := range o.lost {
		text := "lease lost: the server says that its owner no longer holds the lock"
		if o.whys[i] == Failover {
			text = "lease lost: the server was replaced or restarted, and does not know the lease"
		}
		w.log.Warn(text, "name", c.Ref.Called(), "owner", c.Ref.Owner)
	}
}

// pause returns how long to wait after a renewal that failed. The caller holds w.mu.
func (w *Watchdog) pause(c *Watched, err error) time.Duration {
	if c.state.renewal == 0 && !c.state.verify {
		return w.every // the lease does not depend on it
	}
	period := w.period(c.state.renewal)
	if err == nil || driver.ClassOf(err) != driver.Fatal {
		left := max(c.warning()-clock.Now(), 0) / 4 // the first lease of a grant by a release is short
		return min(clock.RetryPause(period), max(left, 5*time.Millisecond))
	}
	// The server refuses until an operator changes something, and each lease costs its own call.
	c.state.refused = min(c.state.refused+1, 8)
	return min(clock.RetryPause(period)<<c.state.refused, period/4)
}

package watchdog

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// glance is the renewal of what is only to be verified: since no renewal shortens
// a lease, one for the shortest time changes nothing.
const glance = time.Millisecond

// asks returns for how long to renew a lease. One that others may shorten gets
// back what it has left, although it is not to last any longer.
func (c *Charge) asks(now time.Duration) time.Duration {
	if c.kept() {
		// Many ask for the same then, and the holder is told before it is over.
		return max((c.warning() + c.Tail() - now).Truncate(c.gap()/2), glance)
	}
	return cmp.Or(c.renewal, glance)
}

// A lane is a row of calls that wait for each other. What is urgent, or of
// another lease time, has its own patience, and graves can wait.
type lane struct {
	node    string
	renewal time.Duration // zero: graves
	sort    string        // of what is renewed
	urgent  bool
}

// launch sends what is due, one goroutine per lane. Leases that are due soon
// come along, so that those taken in a row are renewed in one call from then on.
// The caller holds w.mu.
func (w *Watchdog) launch(now time.Duration) {
	if len(w.guarded) > 0 && w.guarded[0].at <= now {
		renew := make(map[lane][]*Charge)
		for _, c := range w.guarded {
			if c.renewal == 0 && !c.verify && !c.kept() || c.flying || c.due > now+w.every/8 {
				continue
			}
			l := lane{w.d.Place(c.Key).Node, c.asks(now), c.Sort(), c.verify || c.warning()-now < c.renewal/3}
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
	bury := make(map[lane][]*grave)
	for len(w.graves) > 0 && w.graves[0].due <= now {
		g := heap.Pop(&w.graves).(*grave)
		if now >= g.until {
			continue // whatever it was, it is over
		}
		l := lane{node: g.node}
		bury[l] = append(bury[l], g)
	}
	for l, gs := range bury {
		if w.flying[l] {
			w.behind[l] = append(w.behind[l], gs...)
			continue
		}
		w.fly(l, func() { w.bury(gs) })
	}
}

// fly runs calls in their lane. The caller holds w.mu.
func (w *Watchdog) fly(l lane, calls func()) {
	w.flying[l] = true
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		calls()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.flying, l)
		for _, g := range w.behind[l] {
			heap.Push(&w.graves, g)
		}
		delete(w.behind, l)
		w.rouse(0)
	}()
}

// renewal returns what renews the leases of a lane. The caller holds w.mu.
func (w *Watchdog) renewal(l lane, cs []*Charge, now time.Duration) func() {
	limit := l.renewal / 6
	if l.renewal == glance {
		limit = w.every
	}
	for _, c := range cs {
		// A renewal that is answered after the deadline it was to move helps
		// nobody, and half of the rest is left for another try.
		limit = min(limit, max((c.warning()-now)/2, time.Millisecond))
	}
	// One call per slot, and per so many leases.
	var flights [][]*Charge
	open := make(map[int]int)
	var weights []int
	for _, c := range cs {
		slot := w.d.Place(c.Key).Slot
		i, ok := open[slot]
		if !ok || weights[i]+c.Weight() > batch {
			i = len(flights)
			open[slot] = i
			flights = append(flights, nil)
			weights = append(weights, 0)
		}
		flights[i] = append(flights[i], c)
		weights[i] += c.Weight()
	}
	return func() { w.renew(flights, l.renewal, limit) }
}

func (w *Watchdog) renew(flights [][]*Charge, renewal, limit time.Duration) {
	ctx, cancel := context.WithTimeout(w.life, limit)
	defer cancel()
	for len(flights) > 0 {
		flights = w.send(ctx, flights, renewal, limit)
	}
}

// send renews the leases of some flights, each by one call. It returns those
// that have to be tried in smaller ones: a slot that is on its way from one node
// to another serves only calls whose keys are all on one side.
func (w *Watchdog) send(ctx context.Context, flights [][]*Charge, renewal, limit time.Duration) (smaller [][]*Charge) {
	calls := make([]driver.Call, len(flights))
	terms := make([]uint64, len(flights))
	for i, cs := range flights {
		hs := make([]script.Holding, len(cs))
		for j, c := range cs {
			hs[j] = c.Holding
		}
		calls[i] = script.Renew(renewal, hs)
		terms[i] = w.d.Place(cs[0].Key).Term
	}
	sent := clock.Early()
	for i, r := range w.ask(ctx, calls, renewal, limit) {
		cs, a := flights[i], answer{err: r.Err, sent: sent, renewal: renewal, term: terms[i]}
		if driver.CodeOf(r.Err) == "TRYAGAIN" && len(cs) > 1 && ctx.Err() == nil {
			for _, c := range cs {
				smaller = append(smaller, []*Charge{c})
			}
			continue
		}
		if r.Err == nil {
			a.held, a.err = script.Renewed(r.Reply, len(cs))
		}
		if a.err == nil && renewal != glance && r.Acked < w.acks {
			a.short = fmt.Errorf("%d of %d replicas have acknowledged it", r.Acked, w.acks)
		}
		w.settle(cs, a)
	}
	return smaller
}

// ask sends renewals, and waits for as many replicas as have to know of them.
func (w *Watchdog) ask(ctx context.Context, calls []driver.Call, renewal, limit time.Duration) []driver.Result {
	if w.acks == 0 || renewal == glance {
		return w.d.DoMany(ctx, calls)
	}
	return w.d.DoAcked(ctx, calls, w.acks, min(w.ackTime, limit/2)) // so that the server can say how many
}

// An answer is what came of one renewal.
type answer struct {
	held    []bool
	err     error
	short   error // that too few replicas know of it
	sent    time.Duration
	renewal time.Duration
	term    uint64
}

// settle takes in the answer to one renewal.
func (w *Watchdog) settle(cs []*Charge, a answer) {
	var lost []*Charge
	var whys []Reason
	needed := false // that it is renewed
	w.mu.Lock()
	for i, c := range cs {
		c.flying = false
		switch {
		case c.index < 0: // released or lost meanwhile
		case a.err != nil || a.short != nil && a.held[i]:
			c.short = a.short != nil || c.short && driver.ClassOf(a.err) == driver.Ambiguous
			c.due = clock.Now() + w.retry()
			if c.kept() && !c.verify { // it lasts anyway, most likely
				c.due = clock.Now() + w.every
			} else {
				needed = true
			}
			w.reschedule(c)
		case a.held[i]:
			c.short, c.verify = false, false
			if c.Term = a.term; c.Term != w.d.Place(c.Key).Term {
				c.verify = true // once more: it was changed meanwhile
			}
			if c.renewal > 0 {
				c.extend(a.sent, a.renewal)
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
	failed := cmp.Or(a.err, a.short)
	warn := needed && w.life.Err() == nil && (w.warned == 0 || a.sent-w.warned >= time.Second) // not for every try
	if warn {
		w.warned = a.sent
	}
	w.mu.Unlock()
	for i, c := range lost {
		c.Holder.Lost(whys[i])
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

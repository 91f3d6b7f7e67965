package watchdog

import (
	"container/heap"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

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
			if c.renewal == 0 || c.flying || c.due > now+w.every/8 {
				continue
			}
			l := lane{w.d.Place(c.Key).Node, c.renewal, c.Sort(), c.warning()-now < c.renewal/3}
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
	calls := make([]driver.Call, len(flights))
	for i, cs := range flights {
		hs := make([]script.Holding, len(cs))
		for j, c := range cs {
			hs[j] = c.Holding
		}
		calls[i] = script.Renew(renewal, hs)
	}
	sent := clock.Early()
	ctx, cancel := context.WithTimeout(w.life, limit)
	results := w.d.DoMany(ctx, calls)
	cancel()
	for i, cs := range flights {
		held, err := []bool(nil), results[i].Err
		if err == nil {
			held, err = script.Renewed(results[i].Reply, len(cs))
		}
		w.settle(cs, held, err, sent, renewal)
	}
}

// settle takes in the answer to one renewal.
func (w *Watchdog) settle(cs []*Charge, held []bool, err error, sent, renewal time.Duration) {
	var lost []*Charge
	w.mu.Lock()
	for i, c := range cs {
		c.flying = false
		switch {
		case c.index < 0: // released or lost meanwhile
		case err != nil:
			c.due = clock.Now() + w.retry()
			w.reschedule(c)
		case held[i]:
			c.extend(sent, renewal)
			c.due = sent + w.period(renewal)
			w.reschedule(c)
		default:
			w.drop(c)
			lost = append(lost, c)
		}
	}
	warn := err != nil && w.life.Err() == nil && (w.warned == 0 || sent-w.warned >= time.Second) // not for every try
	if warn {
		w.warned = sent
	}
	w.mu.Unlock()
	w.tell(lost, NotOwner)
	if warn {
		w.log.Warn("cannot renew leases, will try again", "leases", len(cs), "error", err)
	}
	for _, c := range lost {
		w.log.Warn("lease lost: the server says that its owner no longer holds the lock", "name", c.Called(), "owner", c.Owner)
	}
}

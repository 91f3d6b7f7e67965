// Package watchdog keeps leases alive, says when one is lost, and frees what
// should not be held.
//
// One goroutine per client watches the clock; while calls to a node are under
// way there is one more for that node. So a node that does not answer delays
// neither the others nor the bad news: a holder is told that its lease ends
// before the server can give the lock to anybody else, whatever the network
// does.
//
//	guarded ── renewed in time ──▶ guarded
//	   │ ├──── warning passed, or "not owner" ──▶ lost: the holder is told
//	   │ └──── Drop ──▶ out of care
//	buried ── freed, or expired at the server ──▶ gone
//
// A lease counts from before the request that granted it was sent, and it
// ends a margin before the server's TTL does.
package watchdog

import (
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	// batch is how many leases one call renews.
	batch = 128
	// maxSleep bounds how long the watchdog trusts a timer: timers stand still
	// while the machine sleeps, leases do not.
	maxSleep = time.Second
	// never is later than any lease.
	never = time.Duration(1<<63 - 1)
)

// A Watchdog cares for all leases of one client.
type Watchdog struct {
	d     driver.Driver
	every time.Duration // between renewals
	log   *slog.Logger

	mu      sync.Mutex
	guarded charges
	graves  map[*grave]struct{}
	flying  map[string]bool // nodes with calls under way
	sleeps  time.Duration   // until when run sleeps, if nobody wakes it
	busy    bool            // something was guarded since run looked last
	running bool
	closed  bool

	wake chan struct{}
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup
}

// New returns a watchdog that renews each lease in its care that often.
func New(d driver.Driver, every time.Duration, log *slog.Logger) *Watchdog {
	w := &Watchdog{
		d: d, every: every, log: log,
		graves: make(map[*grave]struct{}),
		flying: make(map[string]bool),
		wake:   make(chan struct{}, 1),
	}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Guard takes a lease into care that was granted to a request sent at that
// moment. A renewed one is kept alive until Drop.
func (w *Watchdog) Guard(c *Charge, sent time.Duration, renewed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.extend(sent, c.Lease)
	c.renewed = renewed
	c.due = sent + w.every
	c.schedule()
	heap.Push(&w.guarded, c)
	w.busy = true
	w.rouse(c.at)
}

// Extend notes that a request sent at that moment was granted that lease time.
// It reports whether the lease was still in care.
func (w *Watchdog) Extend(c *Charge, sent, lease time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.index < 0 {
		return false
	}
	c.extend(sent, lease)
	w.reschedule(c)
	return true
}

// Renew says whether to keep a lease alive from now on.
func (w *Watchdog) Renew(c *Charge, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.index < 0 || c.renewed == on {
		return
	}
	c.renewed = on
	c.due = min(clock.Now()+w.every, c.warning())
	w.reschedule(c)
}

// Drop takes a lease out of care, without a word to its holder. It reports
// whether it was still there: if not, it has been lost.
func (w *Watchdog) Drop(c *Charge) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drop(c)
}

func (w *Watchdog) drop(c *Charge) bool {
	if c.index < 0 {
		return false
	}
	heap.Remove(&w.guarded, c.index)
	c.deadline.Store(0)
	return true
}

// Lose takes a lease out of care and tells its holder why.
func (w *Watchdog) Lose(c *Charge, why Reason) bool {
	if !w.Drop(c) {
		return false
	}
	c.Holder.Lost(why)
	return true
}

// Charges returns the leases in care.
func (w *Watchdog) Charges() []*Charge {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Charge(nil), w.guarded...)
}

func (w *Watchdog) reschedule(c *Charge) {
	c.schedule()
	heap.Fix(&w.guarded, c.index)
	w.rouse(c.at)
}

// rouse makes sure that run looks again by then. The caller holds w.mu.
func (w *Watchdog) rouse(at time.Duration) {
	if w.closed {
		return
	}
	if !w.running {
		w.running = true
		w.wg.Add(1)
		go w.run()
		return
	}
	if at < w.sleeps {
		w.sleeps = at // one wake-up is enough
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// run is the one goroutine that minds the clock. It never waits for a server.
func (w *Watchdog) run() {
	defer w.wg.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.life.Done():
			return
		}
		timer.Reset(w.look())
	}
}

// look does what is due and returns how long to sleep.
func (w *Watchdog) look() time.Duration {
	w.mu.Lock()
	now := clock.Now()
	ended := w.ended(now)
	for node, work := range w.due(now) {
		if w.closed {
			break
		}
		w.flying[node] = true
		w.wg.Add(1)
		go w.serve(node, work)
	}
	next := never
	if len(w.guarded) > 0 {
		next = w.guarded[0].at
	}
	for g := range w.graves {
		if !w.flying[g.node] {
			next = min(next, g.due)
		}
	}
	sleep := never
	w.sleeps = never
	if next != never || w.busy {
		// Where locks come and go all the time, going to sleep for good would
		// cost each of them a wake-up.
		sleep = min(max(next-now, 0), maxSleep)
		w.sleeps = now + sleep
	}
	w.busy = false
	w.mu.Unlock()
	for _, c := range ended {
		if c.renewed {
			w.log.Warn("lease lost: no renewal was confirmed in time", "name", c.Key, "owner", c.Owner)
		} else {
			w.log.Info("lease over before it was released", "name", c.Key, "owner", c.Owner)
		}
		c.Holder.Lost(Expired)
	}
	return sleep
}

// ended takes the leases out of care whose warning has passed.
func (w *Watchdog) ended(now time.Duration) []*Charge {
	var ended, later []*Charge
	for len(w.guarded) > 0 && w.guarded[0].at <= now {
		c := w.guarded[0]
		if c.warning() <= now {
			w.drop(c)
			ended = append(ended, c)
			continue
		}
		heap.Remove(&w.guarded, 0) // due for renewal: out of the way for now
		later = append(later, c)
	}
	for _, c := range later {
		heap.Push(&w.guarded, c)
	}
	return ended
}

// work is what is due at one node.
type work struct {
	renew []*Charge
	bury  []*grave
}

// due collects what to send now, by node. Leases that are due soon come along,
// so that those taken in a row are renewed in one call for evermore.
func (w *Watchdog) due(now time.Duration) map[string]*work {
	var all map[string]*work
	at := func(node string) *work {
		if all == nil {
			all = make(map[string]*work)
		}
		if all[node] == nil {
			all[node] = new(work)
		}
		return all[node]
	}
	if len(w.guarded) > 0 && w.guarded[0].at <= now {
		horizon := now + w.every/8
		for _, c := range w.guarded {
			if !c.renewed || c.flying || c.due > horizon {
				continue
			}
			node := w.d.Place(c.Key).Node
			if w.flying[node] {
				c.due = now + w.retry() // look again when the node may be free
				continue
			}
			c.flying = true
			at(node).renew = append(at(node).renew, c)
		}
		for _, c := range w.guarded {
			c.schedule()
		}
		heap.Init(&w.guarded)
	}
	for g := range w.graves {
		if g.due > now {
			continue
		}
		if !w.flying[g.node] {
			at(g.node).bury = append(at(g.node).bury, g)
		}
	}
	return all
}

// serve sends what is due at one node and deals with the answers.
func (w *Watchdog) serve(node string, todo *work) {
	defer w.wg.Done()
	w.renew(todo.renew)
	w.bury(todo.bury)
	w.mu.Lock()
	delete(w.flying, node)
	w.rouse(0)
	w.mu.Unlock()
}

// A flight is one call that renews leases of one slot.
type flight struct {
	slot  int
	lease time.Duration
	cs    []*Charge
}

// flights packs leases into calls: of one slot, of one lease time, and not too
// many.
func (w *Watchdog) flights(cs []*Charge) []*flight {
	type key struct {
		slot  int
		lease time.Duration
	}
	open := make(map[key]*flight)
	var all []*flight
	for _, c := range cs {
		k := key{w.d.Place(c.Key).Slot, c.Lease}
		f := open[k]
		if f == nil || len(f.cs) == batch {
			f = &flight{slot: k.slot, lease: k.lease}
			open[k] = f
			all = append(all, f)
		}
		f.cs = append(f.cs, c)
	}
	return all
}

func (w *Watchdog) renew(cs []*Charge) {
	if len(cs) == 0 {
		return
	}
	sent := clock.Early()
	limit := never
	for _, c := range cs {
		// A renewal that is answered after the deadline it was to move helps
		// nobody, and half of the rest is left for another try.
		limit = min(limit, c.Lease/6, max((c.warning()-sent)/2, time.Millisecond))
	}
	fs := w.flights(cs)
	calls := make([]driver.Call, len(fs))
	for i, f := range fs {
		hs := make([]script.Holding, len(f.cs))
		for j, c := range f.cs {
			hs[j] = c.Holding
		}
		calls[i] = script.Renew(f.lease, hs)
	}
	ctx, cancel := context.WithTimeout(w.life, limit)
	results := w.d.DoMany(ctx, calls)
	cancel()
	for i, f := range fs {
		held, err := []bool(nil), results[i].Err
		if err == nil {
			held, err = script.Renewed(results[i].Reply, len(f.cs))
		}
		w.settle(f.cs, held, err, sent)
	}
}

// settle takes in the answer to one renewal.
func (w *Watchdog) settle(cs []*Charge, held []bool, err error, sent time.Duration) {
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
			c.extend(sent, c.Lease)
			c.due = sent + w.every
			w.reschedule(c)
		default:
			w.drop(c)
			lost = append(lost, c)
		}
	}
	w.mu.Unlock()
	if err != nil && w.life.Err() == nil {
		w.log.Warn("cannot renew leases, will try again", "leases", len(cs), "error", err)
	}
	for _, c := range lost {
		w.log.Warn("lease lost: the server says that its owner no longer holds the lock", "name", c.Key, "owner", c.Owner)
		c.Holder.Lost(NotOwner)
	}
}

// retry is the pause before something that failed is tried again.
func (w *Watchdog) retry() time.Duration {
	pause := min(max(w.every/20, 5*time.Millisecond), time.Second)
	return pause/2 + rand.N(pause)
}

// Close stops all care at once and waits until nothing runs any more.
func (w *Watchdog) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.end()
	w.wg.Wait()
}

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
)

const (
	// maxBatch is how many leases one call renews.
	maxBatch = 128
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

	acks    int           // replicas that must have a renewal
	ackTime time.Duration // to wait for them
	skew    time.Duration // of the servers' clocks

	mu      sync.Mutex
	guarded watchedHeap
	on      map[string]*Watched // the first charge of each key; see Watched.next
	pending pendingHeap
	flying  map[queueKey]bool              // with calls under way
	behind  map[queueKey][]*pendingRelease // which wait for such a lane
	sleeps  time.Duration                  // until when run sleeps, if nobody wakes it
	busy    bool                           // something was guarded since run looked last
	suspect bool                           // some term has changed since run looked last
	warned  time.Duration                  // when failed renewals were reported last
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
		on:     make(map[string]*Watched),
		flying: make(map[queueKey]bool),
		behind: make(map[queueKey][]*pendingRelease),
		wake:   make(chan struct{}, 1),
	}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// Require has renewals count only when so many replicas have them within that
// time, and takes the skew of the servers' clocks off every lease. It must be
// called before anything is guarded.
func (w *Watchdog) Require(acks int, within, skew time.Duration) {
	w.acks, w.ackTime, w.skew = acks, within, skew
}

// Guard takes a lease into care that was granted to a request sent at that
// moment. With a renewal it is kept alive, for that long each time, until Drop.
// A watchdog that is closed takes nothing any more.
func (w *Watchdog) Guard(c *Watched, sent, renewal time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		c.index = -1
		return false
	}
	c.renewal, c.skew = renewal, w.skew
	c.extend(sent, c.Lease)
	c.due = sent + w.period(renewal)
	if c.Term != w.d.Place(c.Key).Term { // it has changed since the lease was asked for
		c.doubt()
	}
	c.schedule()
	heap.Push(&w.guarded, c)
	w.link(c)
	w.busy = true
	w.rouse(c.at)
	return true
}

// Extend notes that a request sent at that moment was granted that lease time.
// It reports whether the lease was still in care.
func (w *Watchdog) Extend(c *Watched, sent, lease time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.index < 0 {
		return false
	}
	c.extend(sent, lease)
	w.reschedule(c)
	return true
}

// Renew says for how long to renew a lease from now on; zero: it is only
// verified.
func (w *Watchdog) Renew(c *Watched, renewal time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.index < 0 || c.renewal == renewal {
		return
	}
	c.renewal = renewal
	c.due = clock.Now() + w.period(renewal)
	w.reschedule(c)
}

// period is the time between renewals for that long, and between verifications
// of a lease that is not renewed.
func (w *Watchdog) period(renewal time.Duration) time.Duration {
	if renewal > 0 {
		return min(w.every, renewal/3)
	}
	return w.every
}

// Verify has the server asked at once whether it still keeps the leases on a
// key.
func (w *Watchdog) Verify(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := w.on[key]; c != nil; c = c.next {
		c.doubt()
		w.reschedule(c)
	}
}

// Suspect has the leases verified at once whose server may have forgotten them.
// It does not block, as [driver.Driver.Watch] demands.
func (w *Watchdog) Suspect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.guarded) > 0 {
		w.suspect = true
		w.rouse(0)
	}
}

// verifySuspects has those leases verified whose term has changed. The caller
// holds w.mu.
func (w *Watchdog) verifySuspects() {
	if !w.suspect {
		return
	}
	w.suspect = false
	n := 0
	for _, c := range w.guarded {
		if !c.verify && c.Term != w.d.Place(c.Key).Term {
			c.doubt()
			c.schedule()
			n++
		}
	}
	heap.Init(&w.guarded)
	if n > 0 {
		w.log.Info("a server was replaced or restarted, or a slot has moved: verifying leases", "leases", n)
	}
}

// Drop takes a lease out of care, without a word to its holder. It reports
// whether it was still there: if not, it has been lost.
func (w *Watchdog) Drop(c *Watched) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drop(c)
}

func (w *Watchdog) drop(c *Watched) bool {
	if c.index < 0 {
		return false
	}
	heap.Remove(&w.guarded, c.index)
	w.unlink(c)
	c.deadline.Store(0)
	return true
}

// link adds a charge to those on its key. The caller holds w.mu.
func (w *Watchdog) link(c *Watched) {
	c.next = w.on[c.Key]
	if c.next != nil {
		c.next.prev = c
	}
	w.on[c.Key] = c
}

// unlink takes a charge out of those on its key. The caller holds w.mu.
func (w *Watchdog) unlink(c *Watched) {
	if c.next != nil {
		c.next.prev = c.prev
	}
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case c.next != nil:
		w.on[c.Key] = c.next
	default:
		delete(w.on, c.Key)
	}
	c.next, c.prev = nil, nil
}

// Lose takes a lease out of care and tells its holder why.
func (w *Watchdog) Lose(c *Watched, why Reason) bool {
	if !w.Drop(c) {
		return false
	}
	c.Handler.Lost(why)
	return true
}

// Denied returns why a server says that the owner of a lease does not hold it.
func (w *Watchdog) Denied(c *Watched) Reason {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.denied(w.d.Place(c.Key).Term)
}

// On returns the leases in care on a key. Its cost does not depend on the
// leases on other keys.
func (w *Watchdog) On(key string) []*Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	var cs []*Watched
	for c := w.on[key]; c != nil; c = c.next {
		cs = append(cs, c)
	}
	return cs
}

func (w *Watchdog) reschedule(c *Watched) {
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
	if !w.closed {
		w.verifySuspects()
		w.launch(now)
	}
	next := never
	if len(w.guarded) > 0 {
		next = w.guarded[0].at
	}
	if len(w.pending) > 0 {
		next = min(next, w.pending[0].due)
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
		if c.short && c.renewal > 0 {
			c.Handler.Lost(Unacked)
		} else {
			c.Handler.Lost(Expired)
		}
	}
	for _, c := range ended {
		if c.renewal > 0 {
			w.log.Warn("lease lost: no renewal was confirmed in time", "name", c.Called(), "owner", c.Owner)
		} else {
			w.log.Info("lease over before it was released", "name", c.Called(), "owner", c.Owner)
		}
	}
	return sleep
}

// ended takes the leases out of care whose warning has passed.
func (w *Watchdog) ended(now time.Duration) []*Watched {
	var ended, later []*Watched
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

// retry is the pause before something that failed is tried again.
func (w *Watchdog) retry() time.Duration {
	pause := min(max(w.every/20, 5*time.Millisecond), time.Second)
	return pause/2 + rand.N(pause)
}

// Close stops all care at once and waits until nothing runs any more. It returns
// the leases that were in care, which end with it: their holders are not told.
func (w *Watchdog) Close() []*Watched {
	w.mu.Lock()
	w.closed = true
	cs := []*Watched(w.guarded)
	w.guarded = nil
	clear(w.on)
	for _, c := range cs {
		c.index, c.next, c.prev = -1, nil, nil
		c.deadline.Store(0)
	}
	w.mu.Unlock()
	w.end()
	w.wg.Wait()
	return cs
}

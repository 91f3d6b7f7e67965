package watchdog

import (
	"cmp"
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	maxBatch     = 128                      // leases that one call renews
	maxSleep     = time.Second              // of the watchdog: while the machine sleeps, timers do not advance, but leases do
	never        = time.Duration(1<<63 - 1) // later than any lease
	firstRenewal = 5 * time.Millisecond     // of a lease that is short until then: later, a pause of the server could end it
)

// A Watchdog watches all leases of one client.
type Watchdog struct {
	d     driver.Driver
	every time.Duration // between renewals
	log   *slog.Logger

	renewed func(Renewal) // called after each answer; nil: not

	replicas struct {
		acks   int           // how many must have a renewal
		within time.Duration // to wait for them
		skew   time.Duration // how far the clocks of the servers may be apart
	}

	mu       sync.Mutex
	guarded  watchedHeap         // all leases, ordered by when they need attention
	byKey    map[string]*Watched // the first lease of each key; see Watched.next
	inFlight map[queueKey]bool   // queues with a call under way
	wakesAt  time.Duration       // when run wakes up by itself
	active   bool                // a lease was added since the last runDue
	suspect  bool                // a term may have changed since the last runDue
	stats    Stats               // the totals
	warned   time.Duration       // when a failed renewal was last logged
	running  bool
	closed   bool

	wake   chan struct{}
	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a watchdog that renews each lease at this interval, or more often if it is short.
func New(d driver.Driver, every time.Duration, log *slog.Logger) *Watchdog {
	w := &Watchdog{
		d: d, every: every, log: log,
		byKey:    make(map[string]*Watched),
		inFlight: make(map[queueKey]bool),
		wake:     make(chan struct{}, 1),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Require sets how many replicas must acknowledge a renewal within that time, and how far the
// clocks of the servers may be apart, which shortens every lease. It must be called before Guard.
func (w *Watchdog) Require(acks int, within, skew time.Duration) {
	w.replicas.acks, w.replicas.within, w.replicas.skew = acks, within, skew
}

// Observe sets what to call after each answer to a renewal, without a lock. Call it before Guard.
func (w *Watchdog) Observe(renewed func(Renewal)) { w.renewed = renewed }

// A Renewal is the result of one call that renews or verifies leases.
type Renewal struct {
	script.LockRef               // the lease that was closest to its loss
	Overdue        float64       // how close; see overdue
	Late           time.Duration // how much later than planned a lease was confirmed, at most
	Leases         int           // how many leases were to be renewed
	Verified       int           // how many leases were confirmed after a change of the server
	Node           string
	Err            error // why the leases were not renewed; nil: they were, or are lost
}

// Guard starts to watch a lease that was granted to a request sent at that time. If renewal is not
// zero, the lease is renewed for that duration each time, until Drop. Guard also reports whether
// there are other leases on the key. It returns ok false if the watchdog is closed.
func (w *Watchdog) Guard(c *Watched, sent, renewal time.Duration) (ok, others bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		c.state.index = -1
		return false, false
	}
	c.state.renewal, c.state.skew, c.state.confirmed = renewal, w.replicas.skew, sent
	c.extend(sent, cmp.Or(c.First, c.Lease))
	c.state.due = sent + w.period(renewal)
	if c.First > 0 {
		c.state.due = min(c.state.due, clock.Now()+firstRenewal)
	}
	if c.Term != w.d.Place(c.Ref.Key).Term { // the term has changed since the request
		c.verifyNow()
	}
	c.schedule()
	heap.Push(&w.guarded, c)
	w.link(c)
	w.active = true
	w.wakeBy(c.state.at)
	return true, c.state.next != nil
}

// Extend notes that a request sent at that time was granted that lease time. It reports whether the
// lease was still watched.
func (w *Watchdog) Extend(c *Watched, sent, lease time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.state.index < 0 {
		return false
	}
	c.extend(sent, lease)
	c.state.confirmed = max(c.state.confirmed, sent)
	w.reschedule(c)
	return true
}

// Renew sets for how long each renewal of a lease asks from now on; zero: it is only verified.
func (w *Watchdog) Renew(c *Watched, renewal time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.state.index < 0 || c.state.renewal == renewal {
		return
	}
	c.state.renewal = renewal
	c.state.due = clock.Now() + w.period(renewal)
	w.reschedule(c)
}

// period returns the time between two renewals that ask for that duration, or two verifications.
func (w *Watchdog) period(renewal time.Duration) time.Duration {
	if renewal > 0 {
		return min(w.every, renewal/3)
	}
	return w.every
}

// overdue returns how close a lease is to its loss: 0 until its renewal is due, 1 when it is lost,
// and 0.5 when half of the time to renew it is left. The caller holds w.mu.
func (w *Watchdog) overdue(c *Watched, now time.Duration) float64 {
	if c.state.renewal == 0 {
		return 0
	}
	due := c.state.confirmed + w.period(min(c.state.granted, c.state.renewal))
	return min(max(float64(now-due), 0)/float64(max(c.warning()-due, 1)), 1)
}

// Verify asks the server at once, in the background, whether it still keeps the leases on a key.
func (w *Watchdog) Verify(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := w.byKey[key]; c != nil; c = c.state.next {
		c.verifyNow()
		w.reschedule(c)
	}
}

// Suspect verifies, in the background, the leases whose term has changed: their server may have
// lost them. It does not block, as [driver.Driver.Watch] requires.
func (w *Watchdog) Suspect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.guarded) > 0 {
		w.suspect = true
		w.wakeBy(0)
	}
}

// verifySuspects lets leases be verified whose term has changed. The caller holds w.mu.
func (w *Watchdog) verifySuspects() {
	if !w.suspect {
		return
	}
	w.suspect = false
	n := 0
	for _, c := range w.guarded {
		if !c.state.verify && c.Term != w.d.Place(c.Ref.Key).Term {
			c.verifyNow()
			c.schedule()
			n++
		}
	}
	heap.Init(&w.guarded)
	if n > 0 {
		w.log.Info("a server was replaced or restarted, or a slot has moved: verifying leases", "leases", n)
	}
}

// Drop stops watching a lease. Its handler is not called. Drop returns false if it was lost before.
func (w *Watchdog) Drop(c *Watched) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drop(c)
}

// drop is Drop for a caller that holds w.mu.
func (w *Watchdog) drop(c *Watched) bool {
	if c.state.index < 0 {
		return false
	}
	heap.Remove(&w.guarded, c.state.index)
	w.unlink(c)
	c.deadline.Store(0)
	return true
}

// link adds a lease to the list of its key. The caller holds w.mu.
func (w *Watchdog) link(c *Watched) {
	c.state.next = w.byKey[c.Ref.Key]
	if c.state.next != nil {
		c.state.next.state.prev = c
	}
	w.byKey[c.Ref.Key] = c
}

// unlink removes a lease from the list of its key. The caller holds w.mu.
func (w *Watchdog) unlink(c *Watched) {
	if c.state.next != nil {
		c.state.next.state.prev = c.state.prev
	}
	switch {
	case c.state.prev != nil:
		c.state.prev.state.next = c.state.next
	case c.state.next != nil:
		w.byKey[c.Ref.Key] = c.state.next
	default:
		delete(w.byKey, c.Ref.Key)
	}
	c.state.next, c.state.prev = nil, nil
}

// Lose stops watching a lease and tells its handler why, unless it was dropped or lost before.
func (w *Watchdog) Lose(c *Watched, why Reason) bool {
	if !w.Drop(c) {
		return false
	}
	c.Handler.Lost(why)
	return true
}

// Denied returns the reason for a loss when the server says that the owner does not hold the lock:
// Failover if the term has changed, and otherwise NotOwner.
func (w *Watchdog) Denied(c *Watched) Reason {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.denied(w.d.Place(c.Ref.Key).Term)
}

// On returns the watched leases on a key. Its cost does not depend on leases on other keys.
func (w *Watchdog) On(key string) []*Watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	var cs []*Watched
	for c := w.byKey[key]; c != nil; c = c.state.next {
		cs = append(cs, c)
	}
	return cs
}

// Close ends all leases and waits until no goroutine of the watchdog runs. It returns the leases
// that were watched. Their handlers are not called.
func (w *Watchdog) Close() []*Watched {
	w.mu.Lock()
	w.closed = true
	cs := []*Watched(w.guarded)
	w.guarded = nil
	clear(w.byKey)
	for _, c := range cs {
		c.state.index, c.state.next, c.state.prev = -1, nil, nil
		c.deadline.Store(0)
	}
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	return cs
}

// Stats describe a watchdog at one moment.
type Stats struct {
	Renewals       uint64 // leases that were renewed or verified, in total
	FailedRenewals uint64 // leases whose renewal failed, in total

	Oldest  time.Duration // the oldest of the last confirmations of renewed leases; zero: none is renewed
	Overdue float64       // how close a lease is to its loss, at most; see [Watchdog.overdue]
}

// HeldStats describe a lease.
type HeldStats struct {
	Lease     *Watched
	Confirmed time.Duration // when the last request was sent that the server has confirmed
}

// Stats returns the state of the watchdog and of its leases.
func (w *Watchdog) Stats() (Stats, []HeldStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	now := clock.Now()
	held := make([]HeldStats, len(w.guarded))
	for i, c := range w.guarded {
		held[i] = HeldStats{c, c.state.confirmed}
		if c.state.renewal > 0 && (s.Oldest == 0 || c.state.confirmed < s.Oldest) {
			s.Oldest = c.state.confirmed
		}
		s.Overdue = max(s.Overdue, w.overdue(c, now))
	}
	return s, held
}

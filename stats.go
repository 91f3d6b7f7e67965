package holdfast

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/asynclog"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/observe"
)

// showWatchers shows the client to the observers that are watchers.
func (c *Client) showWatchers() {
	for _, o := range c.options.Observers {
		if w, ok := o.(observe.Watcher); ok {
			if stop := w.Watch(c); stop != nil {
				c.unwatch = append(c.unwatch, stop)
			}
		}
	}
}

// Stats returns what the client does and has done. It sends no request.
func (c *Client) Stats() observe.Stats {
	e := c.must().engine
	now, at := clock.Now(), time.Now()
	seen, counts := e.Stats(), e.Counts()
	s := observe.Stats{
		Client: c.ID(), Waiting: seen.Waiting,
		Grants: counts.Grants.Load(), Handoffs: counts.Handoffs.Load(),
		Failures: c.calls.failures.Load(), Losses: counts.Losses.Load(),
		Renewals: seen.Renewals, FailedRenewals: seen.FailedRenewals,
		RenewalOverdue: seen.Overdue, PendingReleases: seen.Pending,
		Subscriptions: seen.Subscriptions, Silent: seen.Subscriptions - seen.Live, Outages: seen.Outages,
		Calls: c.calls.list(at, now),
	}
	if seen.Oldest > 0 {
		s.RenewalAge = now - seen.Oldest
	}
	for _, h := range seen.Holds {
		l := observe.LeaseStats{Owner: h.Owner, Since: at.Add(h.Granted - now), Age: now - h.Confirmed, Left: max(h.Deadline-now, 0)}
		switch user := h.User.(type) {
		case *lossHandler:
			l.Kind, l.Name = user.kind, user.name
		case *weakHandler:
			l.Kind, l.Name = user.kind, user.lost.Name
		}
		s.Leases = append(s.Leases, l)
	}
	slices.SortFunc(s.Leases, func(a, b observe.LeaseStats) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Owner, b.Owner))
	})
	s.DroppedRecords, _ = asynclog.Stats(c.options.Logger)
	if c.observers != nil {
		for _, q := range c.observers.queues {
			s.DroppedEvents += q.Dropped()
		}
	}
	return s
}

// calls are the calls of a client that have waited for long.
type calls struct {
	failures atomic.Uint64

	mu     sync.Mutex
	long   map[*call]struct{}
	wg     sync.WaitGroup // of the detectors
	closed bool
}

// start runs a detector, unless the client is closed.
func (cs *calls) start(detector func()) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.closed {
		cs.wg.Go(detector)
	}
	return !cs.closed
}

// close waits until all detectors have ended.
func (cs *calls) close() {
	cs.mu.Lock()
	cs.closed = true
	cs.mu.Unlock()
	cs.wg.Wait()
}

// A call is a call that has waited for long.
type call struct {
	kind, name string
	since      time.Duration
}

// WaitsLong implements [engine.Caller] for a lease on one lock.
func (k *lossHandler) WaitsLong(since time.Duration) (ended func()) {
	l := (*Lease)(k)
	var wants []deadlock.Lock
	if l.kind != "leased semaphore" {
		wants = []deadlock.Lock{{Client: l.client.waits, Kind: l.kind, Name: l.name}}
	}
	if _, limited := l.parent.Deadline(); len(wants) > 0 && (limited || l.call.bounded) {
		l.client.lookAtHolder(l.name) // the call may fail
	}
	return l.client.watch(l, wants, since)
}

// watch lists a call that waits for long, and looks for deadlocks.
func (c *Client) watch(l *Lease, wants []deadlock.Lock, since time.Duration) (ended func()) {
	remove, stop := c.calls.add(&call{l.kind, l.name, since}), c.detect(l, wants, since)
	return func() {
		remove()
		if stop != nil {
			stop()
		}
	}
}

// A setCaller is the caller of a lease on several locks. Its calls count for one client.
type setCaller struct {
	lease  *Lease
	client *Client
}

// WaitsLong implements [engine.Caller].
func (s *setCaller) WaitsLong(since time.Duration) (ended func()) {
	var wants []deadlock.Lock
	for _, p := range s.lease.parts.leases { // those of a Redlock are not known yet
		if p.hold == nil {
			wants = append(wants, deadlock.Lock{Client: p.client.waits, Kind: p.kind, Name: p.name})
		}
	}
	return s.client.watch(s.lease, wants, since)
}

// A taker is the caller of something that leaves nothing to hold.
type taker named

// WaitsLong implements [engine.Caller].
func (t *taker) WaitsLong(since time.Duration) (ended func()) {
	return t.client.calls.add(&call{t.kind, t.name, since})
}

// add adds a call. It returns a function that removes it.
func (cs *calls) add(c *call) (remove func()) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.long == nil {
		cs.long = make(map[*call]struct{})
	}
	cs.long[c] = struct{}{}
	return func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.long, c)
	}
}

// list returns the calls, the oldest first. The time now is the same as at.
func (cs *calls) list(at time.Time, now time.Duration) []observe.CallStats {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var list []observe.CallStats
	for c := range cs.long {
		list = append(list, observe.CallStats{Kind: c.kind, Name: c.name, Since: at.Add(c.since - now)})
	}
	slices.SortFunc(list, func(a, b observe.CallStats) int { return a.Since.Compare(b.Since) })
	return list
}

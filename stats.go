package holdfast

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/asynclog"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Stats describe a client at one moment: which leases it holds, which of its calls
// wait, and what it has done so far. They are for a quick look, see package debug,
// and for gauges. For everything else, see package observe.
type Stats struct {
	Client string // the id of the client, see [Client.ID]

	Leases  []LeaseStats // the locks and permits that the client holds, the oldest first
	Calls   []CallStats  // the calls that have waited for a second or longer, the oldest first
	Waiting int          // how many calls wait, also those that have just begun to

	// What the client has done since it was opened.
	Grants   uint64 // locks that the server has granted
	Handoffs uint64 // locks that were passed on inside the process
	Failures uint64 // calls that did not get what they wanted
	Losses   uint64 // leases that were lost
	Renewals uint64 // leases that were renewed or verified

	// FailedRenewals is how many renewals have failed. A lease is lost only if its
	// renewals fail until it expires.
	FailedRenewals uint64

	// RenewalAge is the time since the server has confirmed the renewed lease whose
	// confirmation is the oldest. It is normally below [Options.RenewEvery].
	RenewalAge time.Duration

	// RenewalOverdue says how close a lease is to its loss because it is not renewed, at
	// most: 0 until its renewal is due, and 1 when it is lost. Each lease counts with its
	// own timeout.
	RenewalOverdue float64

	PendingReleases int // releases that the server has not confirmed yet

	// Subscriptions is the number of channels that the client listens to, and Silent
	// is how many of them receive no messages at the moment.
	Subscriptions, Silent int

	// Outages is the number of servers that are unavailable at the moment, see
	// [ErrUnavailable]. It is counted only if the client has observers.
	Outages int

	DroppedEvents  uint64 // events that an observer did not receive, because it was too slow
	DroppedRecords uint64 // the same, for log records
}

// A Watcher is an observer that also reads the statistics of its clients, for gauges.
// [New] calls Watch for each of [Options.Observers] that is a Watcher. [Client.Close]
// calls the function that Watch has returned.
type Watcher interface {
	Watch(*Client) (stop func())
}

// showWatchers shows the client to the observers that are watchers.
func (c *Client) showWatchers() {
	for _, o := range c.options.Observers {
		if w, ok := o.(Watcher); ok {
			if stop := w.Watch(c); stop != nil {
				c.unwatch = append(c.unwatch, stop)
			}
		}
	}
}

// LeaseStats describe a held lock, or held permits.
type LeaseStats struct {
	Kind, Name string
	Owner      string
	Since      time.Time     // when it was granted
	Age        time.Duration // the time since the server has confirmed it
	Left       time.Duration // the time until it expires, unless it is renewed
}

// CallStats describe a call that waits.
type CallStats struct {
	Kind, Name string
	Since      time.Time
}

// Stats returns what the client does and has done. It sends no request.
func (c *Client) Stats() Stats {
	e := c.must().engine
	now, at := clock.Now(), time.Now()
	seen, counts := e.Stats(), e.Counts()
	s := Stats{
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
		l := LeaseStats{Owner: h.Owner, Since: at.Add(h.Granted - now), Age: now - h.Confirmed, Left: max(h.Deadline-now, 0)}
		switch user := h.User.(type) {
		case *lossHandler:
			l.Kind, l.Name = user.kind, user.name
		case *weakHandler:
			l.Kind, l.Name = user.kind, user.lost.Name
		}
		s.Leases = append(s.Leases, l)
	}
	slices.SortFunc(s.Leases, func(a, b LeaseStats) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Owner, b.Owner)) })
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

	number atomic.Uint64 // of the last call that was watched for deadlocks

	mu     sync.Mutex
	long   map[*call]struct{}
	waits  map[string]map[string]script.Wait // by owner and id: what the calls with that owner have published
	wg     sync.WaitGroup                    // of the detectors
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
	var wants []want
	if l.kind != "leased semaphore" {
		wants = []want{{l.client, l.kind, l.name}}
	}
	if _, limited := l.parent.Deadline(); len(wants) > 0 && (limited || l.call.bounded) {
		l.client.lookAtHolder(l.name) // the call may fail
	}
	return l.client.watch(l, wants, since)
}

// watch lists a call that waits for long, and looks for deadlocks.
func (c *Client) watch(l *Lease, wants []want, since time.Duration) (ended func()) {
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
	var wants []want
	for _, p := range s.lease.parts.leases { // those of a Redlock are not known yet
		if p.hold == nil {
			wants = append(wants, want{p.client, p.kind, p.name})
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
func (cs *calls) list(at time.Time, now time.Duration) []CallStats {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var list []CallStats
	for c := range cs.long {
		list = append(list, CallStats{c.kind, c.name, at.Add(c.since - now)})
	}
	slices.SortFunc(list, func(a, b CallStats) int { return a.Since.Compare(b.Since) })
	return list
}

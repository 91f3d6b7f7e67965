package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Events are the callbacks for what belongs to no call. They must not block, and may be nil.
type Events struct {
	Renewed      func(watchdog.Renewal)
	Subscription func(error)                // messages do not arrive; nil: they do again
	Outage       func(node string, _ error) // a server is unavailable; nil: it has answered again
	Warned       func(Warning)
}

// outages are the servers that are unavailable now.
type outages struct {
	d      driver.Driver
	report func(node string, err error) // nil: not observed
	n      atomic.Int32                 // how many servers are unavailable
	mu     sync.Mutex
	nodes  map[string]string // by server: a key that it has
}

// failed notes that a request for a key has failed because its server is unavailable.
func (o *outages) failed(key string, err error) {
	if o.report == nil {
		return
	}
	node := o.d.Place(key).Node
	o.mu.Lock()
	_, known := o.nodes[node]
	if !known {
		o.nodes[node] = key
		o.n.Add(1)
	}
	o.mu.Unlock()
	if !known {
		o.report(node, err)
	}
}

// answered notes that a server has answered a request for a key, which may have moved to it.
func (o *outages) answered(key string) {
	if o.n.Load() == 0 {
		return
	}
	node := o.d.Place(key).Node
	var ended []string
	o.mu.Lock()
	for old, k := range o.nodes {
		if old == node || o.d.Place(k).Node == node {
			delete(o.nodes, old)
			o.n.Add(-1)
			ended = append(ended, old)
		}
	}
	o.mu.Unlock()
	for _, old := range ended {
		o.report(old, nil)
	}
}

// A Warning is a sign of a bug in the program, or of a machine that is too slow.
type Warning struct {
	Reason string // see package observe
	User   watchdog.LossHandler
	Name   string
	Owner  string
	Err    error // what has happened
}

func (e *Engine) warn(w Warning, args ...any) {
	e.o.Log.Warn(w.Err.Error(), append([]any{"name", w.Name, "owner", w.Owner}, args...)...)
	if e.o.Events.Warned != nil {
		e.o.Events.Warned(w)
	}
}

var (
	errLeaked = errors.New("a lease is no longer used, and was not released: the lock stays held until the client is closed; release every lease")
	errLong   = errors.New("a lock is held for long")
	errLate   = errors.New("a renewal was confirmed late: the machine, the network or the server is too slow")
	errOwn    = errors.New("waiting for a lock that another lease of this client holds; to re-enter it, use the context of that lease")
)

// Confirmed is called by the watchdog when the server has renewed the hold. It looks for bugs.
func (h *Hold) Confirmed() {
	h.mu.Lock()
	leaked, long := h.users.weaken(h.owner) && !h.warned.leaked, h.e.o.LongHold > 0 && !h.warned.long && clock.Early()-h.origin.at >= h.e.o.LongHold
	h.warned.leaked, h.warned.long = h.warned.leaked || leaked, h.warned.long || long
	user := h.users.first
	h.mu.Unlock()
	w := Warning{User: user, Name: h.Ref.Called(), Owner: h.owner}
	held := clock.Rounded(clock.Early() - h.origin.at)
	if leaked {
		w.Reason, w.Err = "leaked", errLeaked
		h.e.warn(w, "held", held)
	}
	if long {
		w.Reason, w.Err = "long hold", errLong
		h.e.warn(w, "held", held)
	}
}

// Counts are what an engine has done since it was made.
type Counts struct {
	Grants   atomic.Uint64 // by the server
	Handoffs atomic.Uint64
	Losses   atomic.Uint64

	waiting atomic.Int64 // acquisitions that wait for the server
}

// Stats describe an engine at one moment.
type Stats struct {
	watchdog.Stats
	Pending       int // owners that are not settled yet
	Waiting       int // calls that wait
	Subscriptions int // channels
	Live          int // channels whose messages arrive
	Outages       int // servers that are unavailable, if there is a callback for them
	Holds         []HoldStats
}

// HoldStats describe a hold.
type HoldStats struct {
	User      watchdog.LossHandler // nil: it is being passed on or released
	Owner     string
	Granted   time.Duration // when
	Confirmed time.Duration // when the last request was sent that the server has confirmed
	Deadline  time.Duration
}

// Counts returns what the engine has done.
func (e *Engine) Counts() *Counts { return &e.counts }

// Stats returns the state of the engine.
func (e *Engine) Stats() Stats {
	var s Stats
	var held []watchdog.HeldStats
	s.Stats, held = e.watchdog.Stats()
	s.Subscriptions, s.Live = e.hub.Count()
	s.Pending = e.settler.Pending()
	s.Waiting = int(e.counts.waiting.Load())
	s.Outages = int(e.outages.n.Load())
	e.gates.mu.Lock()
	for _, g := range e.gates.byKey {
		g.mu.Lock()
		s.Waiting += g.length
		g.mu.Unlock()
	}
	e.gates.mu.Unlock()
	for _, w := range held {
		h := w.Lease.Handler.(*Hold)
		h.mu.Lock()
		user := h.users.first
		h.mu.Unlock()
		s.Holds = append(s.Holds, HoldStats{user, h.owner, h.origin.at, w.Confirmed, h.Deadline()})
	}
	return s
}

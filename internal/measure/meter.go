package measure

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/observe"
)

// Values are the values of the labels of a figure. A value of "" stands for no label.
type Values struct{ Kind, Outcome, Via, Reason, Name string }

// Value returns the value of a label.
func (v Values) Value(label string) string {
	switch label {
	case "kind":
		return v.Kind
	case "outcome":
		return v.Outcome
	case "via":
		return v.Via
	case "reason":
		return v.Reason
	case "name":
		return v.Name
	}
	return ""
}

// A Backend keeps counters and histograms. It creates a counter or a histogram once for
// each combination of values. There are few combinations.
type Backend interface {
	// Counter returns a function that adds n. The counter exists from now on, with the
	// value zero: otherwise the first event of a kind would not be seen as an increase.
	Counter(Metric, Values) func(ctx context.Context, n int)
	// Histogram returns a function that records a duration.
	Histogram(Metric, Values) func(ctx context.Context, d time.Duration)
}

// Options configure a [Meter].
type Options struct {
	Label     func(kind, name string) string // nil: no labels for names
	MaxLabels int                            // zero: [MaxLabels]
}

// A Meter computes figures. It is an observer of any number of clients, and a
// [observe.Watcher].
type Meter struct {
	backend Backend
	labels  labels

	renewed, notRenewed, verified        func(context.Context, int)
	deadlocks                            func(context.Context, int)
	outages, subscriptionLosses, dropped func(context.Context, int)
	late, outage                         func(context.Context, time.Duration)
	warnings                             map[string]func(context.Context, int) // by reason

	mu     sync.Mutex
	calls  map[Values]*calls
	leases map[Values]*leases
	down   map[server]time.Time // since when servers are unavailable

	watched watched
}

// calls are the figures of calls that have ended alike.
type calls struct {
	count   func(context.Context, int)
	wait    func(context.Context, time.Duration)
	permits func(context.Context, int) // nil: the kind has none
}

// leases are the figures of leases of a kind.
type leases struct {
	hold     func(context.Context, time.Duration)
	released func(context.Context, int) // permits; nil: the kind has none
	losses   map[string]func(context.Context, int)
}

// A server is a server as a client sees it.
type server struct{ client, node string }

// The kinds that have permits.
const (
	rateLimiter     = "rate limiter"
	semaphore       = "semaphore"
	leasedSemaphore = "leased semaphore"
)

// leaseless are the kinds that leave nothing to hold.
var leaseless = map[string]bool{rateLimiter: true, semaphore: true, "latch": true}

// reasons are the reasons for a loss.
var reasons = []holdfast.LossReason{
	holdfast.LossExpired, holdfast.LossNotOwner, holdfast.LossForced,
	holdfast.LossClosed, holdfast.LossFailover, holdfast.LossUnreplicated,
}

// New returns a meter that keeps its figures in b.
func New(b Backend, o Options) *Meter {
	if o.MaxLabels <= 0 {
		o.MaxLabels = MaxLabels
	}
	m := &Meter{
		backend: b,
		labels:  labels{of: o.Label, max: o.MaxLabels, known: make(map[string]struct{})},

		renewed:            b.Counter(Renewals, Values{Outcome: "confirmed"}),
		notRenewed:         b.Counter(Renewals, Values{Outcome: "failed"}),
		verified:           b.Counter(Verifications, Values{}),
		deadlocks:          b.Counter(Deadlocks, Values{}),
		outages:            b.Counter(Outages, Values{}),
		subscriptionLosses: b.Counter(SubscriptionLosses, Values{}),
		dropped:            b.Counter(EventsDropped, Values{}),
		late:               b.Histogram(RenewalLateness, Values{}),
		outage:             b.Histogram(OutageDuration, Values{}),

		warnings: make(map[string]func(context.Context, int)),

		calls:  make(map[Values]*calls),
		leases: make(map[Values]*leases),
		down:   make(map[server]time.Time),
	}
	for _, reason := range []string{observe.WarnLeaked, observe.WarnLong, observe.WarnOwn, observe.WarnLate, observe.WarnBlocked} {
		m.warnings[reason] = b.Counter(Warnings, Values{Reason: reason})
	}
	return m
}

// Observe implements [observe.Observer].
func (m *Meter) Observe(e observe.Event) {
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	switch e.Type {
	case observe.Acquired, observe.Failed:
		c := m.callsLike(e)
		c.count(ctx, 1)
		if e.Via != observe.ViaReentry { // it does not wait
			c.wait(ctx, e.Waited)
		}
		if c.permits != nil {
			c.permits(ctx, e.Permits)
		}
	case observe.Released:
		l := m.leasesLike(e)
		l.ended(ctx, e)
		if l.released != nil && e.Err == nil {
			l.released(ctx, e.Permits)
		}
	case observe.Lost:
		l := m.leasesLike(e)
		l.ended(ctx, e)
		if add := l.losses[e.Reason]; add != nil {
			add(ctx, 1)
		}
	case observe.Renewed:
		if e.Err != nil {
			m.notRenewed(ctx, e.Count)
			break
		}
		m.renewed(ctx, e.Count)
		m.late(ctx, e.Late)
	case observe.Verified:
		m.verified(ctx, e.Count)
	case observe.Deadlock:
		m.deadlocks(ctx, 1)
	case observe.Warned:
		if add := m.warnings[e.Reason]; add != nil {
			add(ctx, 1)
		}
	case observe.SubscriptionLost:
		m.subscriptionLosses(ctx, 1)
	case observe.OutageStarted:
		m.outages(ctx, 1)
		m.mu.Lock()
		m.down[server{e.Client, e.Node}] = e.Time
		m.mu.Unlock()
	case observe.OutageEnded:
		m.mu.Lock()
		since, known := m.down[server{e.Client, e.Node}]
		delete(m.down, server{e.Client, e.Node})
		m.mu.Unlock()
		if known {
			m.outage(ctx, e.Time.Sub(since))
		}
	case observe.Dropped:
		m.dropped(ctx, e.Count)
	}
}

// ended records how long a lease was held, if the event is its end. The time of a lease that
// has entered again is a part of the time of the outer one.
func (l *leases) ended(ctx context.Context, e observe.Event) {
	if l.hold != nil && Ends(e) && e.Via != observe.ViaReentry {
		l.hold(ctx, e.Held)
	}
}

// Ends reports whether an event of type Released or Lost is the end of a lease. It is false
// for the release of a lost lease, whose loss was the end, and for permits without a lease.
func Ends(e observe.Event) bool {
	return e.Type == observe.Lost || e.Type == observe.Released && e.ID != 0 && (e.Err == nil || !errors.Is(e.Err, holdfast.ErrLost))
}

// callsLike returns the figures for a call that has ended.
func (m *Meter) callsLike(e observe.Event) *calls {
	v := Values{Kind: e.Kind, Outcome: e.Outcome(), Via: string(e.Via), Name: m.labels.label(e.Kind, e.Name)}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.calls[v]
	if c == nil {
		c = &calls{count: m.backend.Counter(Acquisitions, v), wait: m.backend.Histogram(WaitDuration, v)}
		switch v.Kind {
		case rateLimiter:
			c.permits = m.backend.Counter(LimiterPermits, v)
		case semaphore, leasedSemaphore:
			c.permits = m.backend.Counter(SemaphorePermits, v)
		}
		m.calls[v] = c
		m.newLeases(Values{Kind: v.Kind, Name: v.Name})
	}
	return c
}

// leasesLike returns the figures for a lease.
func (m *Meter) leasesLike(e observe.Event) *leases {
	v := Values{Kind: e.Kind, Name: m.labels.label(e.Kind, e.Name)}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newLeases(v)
}

// newLeases returns the figures for leases of a kind. They begin with the first call, before
// there is a lease: an increase of a counter is seen only if it was zero before.
func (m *Meter) newLeases(v Values) *leases {
	l := m.leases[v]
	if l != nil {
		return l
	}
	l = new(leases)
	switch v.Kind {
	case rateLimiter:
		l.released = m.backend.Counter(LimiterReturned, v)
	case semaphore, leasedSemaphore:
		l.released = m.backend.Counter(SemaphoreReleased, v)
	}
	if !leaseless[v.Kind] {
		l.hold = m.backend.Histogram(HoldDuration, v)
		l.losses = make(map[string]func(context.Context, int))
		for _, r := range reasons {
			v.Reason = string(r)
			l.losses[v.Reason] = m.backend.Counter(Losses, v)
		}
		v.Reason = ""
	}
	m.leases[v] = l
	return l
}

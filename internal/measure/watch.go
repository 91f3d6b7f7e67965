package measure

import (
	"sync"

	"github.com/holdfast-go/holdfast/observe"
)

// watched are the clients whose statistics are read.
type watched struct {
	mu      sync.Mutex
	clients map[observe.Client]int // how often each is watched
	held    map[Values]struct{}    // what was held at any time
	any     bool                   // a client was watched at any time
}

// Watch implements [observe.Watcher]. A client can be watched several times and counts
// once.
func (m *Meter) Watch(c observe.Client) (stop func()) {
	w, id := &m.watched, c.ID()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clients == nil {
		w.clients, w.held = make(map[observe.Client]int), make(map[Values]struct{})
	}
	w.clients[c]++
	w.any = true
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.clients[c]--
		last := w.clients[c] == 0
		if last {
			delete(w.clients, c)
		}
		w.mu.Unlock()
		if last {
			m.forget(id)
		}
	})
}

// forget forgets the servers that were unavailable for a client.
func (m *Meter) forget(client string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.down {
		if s.client == client {
			delete(m.down, s)
		}
	}
}

// Gauges reports the value of each figure of type [Sum] or [Gauge] over all watched clients.
// What was held before and is not held now is reported as zero. It reports nothing if no
// client was ever watched.
func (m *Meter) Gauges(report func(Metric, Values, float64)) {
	w := &m.watched
	w.mu.Lock()
	clients := make([]observe.Client, 0, len(w.clients))
	for c := range w.clients {
		clients = append(clients, c)
	}
	held := make(map[Values]int, len(w.held))
	for v := range w.held {
		held[v] = 0
	}
	any := w.any
	w.mu.Unlock()
	if !any {
		return
	}
	var sum observe.Stats
	for _, c := range clients {
		s := c.Stats()
		sum.Waiting += s.Waiting
		sum.PendingReleases += s.PendingReleases
		sum.Outages += s.Outages
		sum.Silent += s.Silent
		sum.RenewalOverdue = max(sum.RenewalOverdue, s.RenewalOverdue)
		for _, l := range s.Leases {
			if l.Kind != "" { // it is not being passed on
				held[Values{Kind: l.Kind, Name: m.labels.label(l.Kind, l.Name)}]++
			}
		}
	}
	w.mu.Lock()
	for v := range held {
		w.held[v] = struct{}{}
	}
	w.mu.Unlock()
	for v, n := range held {
		report(Held, v, float64(n))
	}
	report(Waiting, Values{}, float64(sum.Waiting))
	report(PendingReleases, Values{}, float64(sum.PendingReleases))
	report(OutagesActive, Values{}, float64(sum.Outages))
	report(SubscriptionsSilent, Values{}, float64(sum.Silent))
	report(RenewalOverdue, Values{}, sum.RenewalOverdue)
}

package engine

import (
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Events are the callbacks by which an engine reports what belongs to no call. They must
// not block. A nil callback is not called.
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

// answered notes that a server has answered a request for a key. After a failover, the
// key is at another server than before.
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

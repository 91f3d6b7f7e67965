package goredis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// routes holds the last known node of each slot in use. go-redis knows the
// current node, but does not report changes.
type routes [driver.Slots]atomic.Pointer[route]

type route struct {
	key   string // any key in the slot
	n     *node
	since uint64 // the term that began when the slot moved to n, or zero
}

func (d *Driver) slot(key string) int {
	if d.cluster == nil {
		return 0
	}
	return driver.Slot(key)
}

// at returns the node that serves a key, without asking the servers.
func (d *Driver) at(ctx context.Context, key string) (*node, error) {
	if d.cluster == nil {
		return d.one, nil
	}
	r, err := d.route(ctx, key)
	if err != nil {
		return nil, err
	}
	return r.n, nil
}

// route returns the route to a key in a cluster. If the slot has moved, it
// records the new route.
func (d *Driver) route(ctx context.Context, key string) (*route, error) {
	c, err := d.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	r := &route{key: key, n: d.node(c)}
	at := &d.routes[driver.Slot(key)]
	switch old := at.Load(); {
	case old == nil:
		at.Store(r)
	case old.n == r.n:
		return old, nil
	default:
		r.since = d.terms.Add(1)
		at.Store(r)
		d.moved.Store(true)
		d.scanNow()
	}
	return r, nil
}

// Place implements driver.Driver.
func (d *Driver) Place(key string) driver.Place {
	n, since := d.one, uint64(0)
	if d.cluster != nil {
		r, err := d.route(d.life, key)
		if err != nil {
			return driver.Place{Slot: driver.Slot(key), Replicas: -1}
		}
		n, since = r.n, r.since
	}
	return driver.Place{
		Node: n.addr,
		Slot: d.slot(key),
		// All terms share one counter, so the higher number is the later change.
		Term:     max(n.term.Load(), since),
		Replicas: int(n.replicas.Load()),
	}
}

// timeout returns the read timeout of the client.
func (d *Driver) timeout() time.Duration {
	var t time.Duration
	if d.cluster != nil {
		t = d.cluster.Options().ReadTimeout
	} else {
		t = d.single.Options().ReadTimeout
	}
	if t <= 0 {
		return defaultTimeout
	}
	return t
}

// defaultTimeout replaces the timeouts of a client that has none.
const defaultTimeout = 3 * time.Second

// scanSoon requests a scan within a second.
func (d *Driver) scanSoon() { signal(d.scanDue) }

// scanNow requests a scan without delay.
func (d *Driver) scanNow() { signal(d.scanSignal) }

// signal sends to a channel with a buffer of one, unless it is full.
func signal(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

// The minimum and maximum pause between two scans while the driver is in use.
// They also limit the pauses between two connections of a subscriber.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// scan refreshes what is known about the servers, while they are in use.
func (d *Driver) scan() {
	for {
		select {
		case <-d.scanDue:
		case <-d.scanSignal:
		case <-d.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(d.life, d.timeout())
		if d.refresh(ctx) != nil {
			d.scanSoon() // try again
		}
		cancel()
		if d.moved.Swap(false) {
			d.changed()
		}
		if !pause(d.life, minPause) {
			return
		}
		select {
		case <-d.scanSignal:
			d.scanNow()
		case <-time.After(maxPause - minPause):
		case <-d.life.Done():
		}
	}
}

// pause waits for t. It reports false if ctx is done first.
func pause(ctx context.Context, t time.Duration) bool {
	select {
	case <-time.After(t):
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh identifies all masters. It fails if none answers.
func (d *Driver) refresh(ctx context.Context) error {
	return runDetached(ctx, d, same, func() error {
		if d.cluster == nil {
			return d.one.identify(ctx)
		}
		masters, err := d.masters(ctx)
		if err != nil {
			return classify(err)
		}
		for i := range d.routes {
			if r := d.routes[i].Load(); r != nil {
				_, _ = d.at(ctx, r.key) // records moved slots before an unreachable master delays refresh
			}
		}
		errs := make([]error, len(masters))
		var wg sync.WaitGroup
		for i, n := range masters {
			wg.Go(func() { errs[i] = n.identify(ctx) })
		}
		wg.Wait()
		d.nodes.Range(func(c, n any) bool {
			if !slices.Contains(masters, n.(*node)) {
				d.nodes.Delete(c)
			}
			return true
		})
		if slices.Contains(errs, nil) {
			return nil
		}
		return errs[0]
	})
}

// masters returns all masters of a cluster, sorted by address. It makes go-redis
// reload the state of the cluster.
func (d *Driver) masters(ctx context.Context) ([]*node, error) {
	var mu sync.Mutex
	var masters []*node
	err := d.cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, d.node(c))
		return nil
	})
	slices.SortFunc(masters, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	if err == nil && len(masters) == 0 {
		err = driver.Unsent(errors.New("the cluster has no masters"))
	}
	return masters, err
}

// reload makes go-redis reload the state of the cluster, unless it has just done
// so.
func (d *Driver) reload(ctx context.Context) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if time.Since(d.reloaded) > minPause {
		_, _ = d.masters(ctx)
		d.reloaded = time.Now()
	}
}

// Facts implements driver.Driver.
func (d *Driver) Facts(ctx context.Context, nodes ...string) []driver.Facts {
	none := func(err error) []driver.Facts { return []driver.Facts{{Err: err}} }
	return runDetached(ctx, d, none, func() []driver.Facts {
		masters := []*node{d.one}
		if d.cluster != nil {
			var err error
			if masters, err = d.masters(ctx); err != nil {
				return none(d.forCaller(ctx, classify(err)))
			}
		}
		if len(nodes) > 0 {
			masters = slices.DeleteFunc(masters, func(n *node) bool { return !slices.Contains(nodes, n.addr) })
		}
		facts := make([]driver.Facts, len(masters))
		var wg sync.WaitGroup
		for i, n := range masters {
			wg.Go(func() {
				failed := func(err error) driver.Facts { return driver.Facts{Node: n.addr, Err: err} }
				facts[i] = runDetached(ctx, d, failed, func() driver.Facts { return n.facts(ctx) })
			})
		}
		wg.Wait()
		return facts
	})
}

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

// routes are where the slots in use were served last. go-redis knows it at any
// moment, but not that it has changed.
type routes [driver.Slots]atomic.Pointer[route]

type route struct {
	key   string // some key in the slot
	n     *node
	since uint64 // the term that began when the slot moved there, or zero
}

func (d *Driver) slot(key string) int {
	if d.cluster == nil {
		return 0
	}
	return driver.Slot(key)
}

// at returns the node that a key lives on, from memory.
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

// route returns how to get to a key in a cluster, and notes if that is new.
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
		d.ring()
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
		// Terms are numbered together, so the later of two changes counts.
		Term:     max(n.term.Load(), since),
		Replicas: int(n.replicas.Load()),
	}
}

// timeout returns how long the client waits for one answer.
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

// defaultTimeout is how long a client waits that would wait for ever.
const defaultTimeout = 3 * time.Second

// use has the servers looked at within a second.
func (d *Driver) use() { raise(d.used) }

// ring has the servers looked at now.
func (d *Driver) ring() { raise(d.alarm) }

// raise sets a flag: a channel with room for one.
func raise(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}

// Between two looks at the servers there is at least the shortest time, and
// also when nothing happened no more than the longest.
const (
	shortest = 50 * time.Millisecond
	longest  = time.Second
)

// mind looks at the servers again and again, while they are used.
func (d *Driver) mind() {
	for {
		select {
		case <-d.used:
		case <-d.alarm:
		case <-d.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(d.life, d.timeout())
		if d.look(ctx) != nil {
			d.use() // look again
		}
		cancel()
		if d.moved.Swap(false) {
			d.changed()
		}
		if !pause(d.life, shortest) {
			return
		}
		select {
		case <-d.alarm:
			d.ring()
		case <-time.After(longest - shortest):
		case <-d.life.Done():
		}
	}
}

// pause reports whether ctx still lives after some time.
func pause(ctx context.Context, t time.Duration) bool {
	select {
	case <-time.After(t):
		return true
	case <-ctx.Done():
		return false
	}
}

// look asks all masters who they are. It fails if none answers.
func (d *Driver) look(ctx context.Context) error {
	return aside(ctx, d, same, func() error {
		if d.cluster == nil {
			return d.one.ask(ctx)
		}
		masters, err := d.masters(ctx)
		if err != nil {
			return classify(err)
		}
		for i := range d.routes {
			if r := d.routes[i].Load(); r != nil {
				_, _ = d.at(ctx, r.key) // notes what has moved, before a dead master is asked
			}
		}
		errs := make([]error, len(masters))
		var wg sync.WaitGroup
		for i, n := range masters {
			wg.Go(func() { errs[i] = n.ask(ctx) })
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

// masters returns all masters of a cluster, in the order of their addresses. It
// has go-redis find out what they are.
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
		err = driver.Unsent(errors.New("the cluster has no masters now"))
	}
	return masters, err
}

// reload has go-redis find out who the masters are, unless it just did.
func (d *Driver) reload(ctx context.Context) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if time.Since(d.reloaded) > shortest {
		_, _ = d.masters(ctx)
		d.reloaded = time.Now()
	}
}

// Facts implements driver.Driver.
func (d *Driver) Facts(ctx context.Context, nodes ...string) []driver.Facts {
	none := func(err error) []driver.Facts { return []driver.Facts{{Err: err}} }
	return aside(ctx, d, none, func() []driver.Facts {
		masters := []*node{d.one}
		if d.cluster != nil {
			var err error
			if masters, err = d.masters(ctx); err != nil {
				return none(d.whose(ctx, classify(err)))
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
				facts[i] = aside(ctx, d, failed, func() driver.Facts { return n.facts(ctx) })
			})
		}
		wg.Wait()
		return facts
	})
}

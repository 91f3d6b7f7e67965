// Package rueidis is Holdfast's default driver. It runs on the client library
// github.com/redis/rueidis, and it is the only package that knows that library.
//
// A [Driver] routes calls to nodes. All goroutines share one connection per node
// for commands. Subscriptions use a second connection, so that many messages do
// not delay commands. Calls that wait for replicas use a third. A source finds
// out which node serves which key: it asks the sentinels, the cluster, or the
// servers themselves.
package rueidis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Driver is a driver.Driver for one server, or for several servers that belong
// together.
type Driver struct {
	c          Config
	source     source // nil in mode Single
	life       context.Context
	end        context.CancelFunc
	table      atomic.Pointer[table]
	terms      atomic.Uint64
	scanSignal chan struct{} // buffered: a scan is due now
	scans      sync.WaitGroup

	mu       sync.Mutex
	nodes    map[string]*node // all nodes in use, by address
	watchers map[int]func()
	watches  int
}

var _ driver.Driver = (*Driver)(nil)

// A table maps keys to nodes. It is immutable: a change replaces the table.
type table struct {
	masters []*node // sorted by address
	slots   []*node // by slot; nil outside a cluster

	conflict *conflict // why masters is empty; nil if it is not, or if no master was found yet
}

// at returns the node that serves a slot, or nil if it is unknown.
func (t *table) at(slot int) *node {
	if t.slots != nil {
		return t.slots[slot]
	}
	if len(t.masters) == 0 {
		return nil
	}
	return t.masters[0]
}

// Open connects to the servers that c describes. It fails if they do not answer
// or if ctx is done first.
func Open(ctx context.Context, c Config) (*Driver, error) {
	if ctx == nil {
		return nil, errors.New("the context is nil: use context.Background()")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	d := &Driver{
		c:          c,
		scanSignal: make(chan struct{}, 1),
		nodes:      make(map[string]*node),
		watchers:   make(map[int]func()),
	}
	d.life, d.end = context.WithCancel(context.Background())
	d.table.Store(new(table))
	d.source = newSource(d)
	if err := d.begin(ctx); err != nil {
		d.end()
		go d.closeNodes() // a dial may be under way
		if ctx.Err() != nil {
			err = driver.Unsent(ctx.Err())
		}
		return nil, driver.ForCaller(ctx, err)
	}
	if d.source != nil {
		d.scans.Go(d.scan)
	}
	return d, nil
}

// begin finds the servers for the first time.
func (d *Driver) begin(ctx context.Context) error {
	if d.source == nil {
		n := d.node(d.c.Addr)
		d.table.Store(&table{masters: []*node{n}})
		err := n.identify(ctx)
		if !errors.Is(err, errNotDialled) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			return &driver.Error{Class: driver.ClassOf(err), Err: fmt.Errorf("%w. The server answered PING and closed the connection at the next command, "+
				"as Twemproxy does. If it is this proxy, which is not supported, connect to the servers behind it", err)}
		}
		if err != nil {
			return err
		}
		return n.checkRole()
	}
	if err := d.refresh(ctx); err != nil {
		return err
	}
	// Servers that do not answer now are identified when they do.
	_ = poll(ctx, d.table.Load().masters, func(ctx context.Context, n *node) error { return n.ensureIdentified(ctx) },
		func(err error) bool { return err == nil }, shortGrace)
	return nil
}

// node returns the node at an address.
func (d *Driver) node(addr string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[addr]
	if n == nil {
		n = newNode(d.life, d.c, addr, d)
		d.nodes[addr] = n
	}
	return n
}

func (d *Driver) slot(key string) int {
	if d.c.Mode == Cluster {
		return driver.Slot(key)
	}
	return 0
}

func (d *Driver) at(call driver.Call) *node {
	if len(call.Keys) == 0 {
		return d.table.Load().at(0)
	}
	return d.table.Load().at(d.slot(call.Keys[0]))
}

// Do implements driver.Driver.
func (d *Driver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	n := d.at(call)
	if n == nil {
		return driver.Reply{}, d.noServer(ctx)
	}
	r := n.do(ctx, call, false)
	if r.Err != nil {
		d.follow(ctx, n, &r, func(n *node, asking bool) driver.Result { return n.do(ctx, call, asking) })
	}
	return r.Reply, r.Err
}

// DoMany implements driver.Driver.
func (d *Driver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	return d.many(ctx, calls, func(n *node, calls []driver.Call, asking bool) []driver.Result {
		return n.doMany(ctx, calls, asking)
	})
}

// DoAcked implements driver.Driver.
func (d *Driver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	return d.many(ctx, calls, func(n *node, calls []driver.Call, asking bool) []driver.Result {
		return n.doAcked(ctx, calls, replicas, timeout, asking)
	})
}

func (d *Driver) many(ctx context.Context, calls []driver.Call, run func(*node, []driver.Call, bool) []driver.Result) []driver.Result {
	n := d.at(calls[0])
	if n == nil {
		return failed(calls, d.noServer(ctx))
	}
	results := run(n, calls, false)
	for i := range results {
		if results[i].Err != nil {
			call := calls[i]
			d.follow(ctx, n, &results[i], func(n *node, asking bool) driver.Result {
				return run(n, []driver.Call{call}, asking)[0]
			})
		}
	}
	return results
}

// Place implements driver.Driver.
func (d *Driver) Place(key string) driver.Place {
	slot := d.slot(key)
	n := d.table.Load().at(slot)
	if n == nil {
		return driver.Place{Slot: slot, Replicas: -1}
	}
	return driver.Place{Node: n.addr, Slot: slot, Term: n.term.Load(), Replicas: int(n.report.replicas.Load())}
}

// Watch implements driver.Driver.
func (d *Driver) Watch(f func()) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches++
	i := d.watches
	d.watchers[i] = f
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, i)
	}
}

func (d *Driver) nextTerm() uint64 { return d.terms.Add(1) }

func (d *Driver) confirm(ctx context.Context, n *node, same bool) error {
	if d.source == nil {
		return nil
	}
	return d.source.confirm(ctx, n, same)
}

func (d *Driver) changed() {
	d.mu.Lock()
	watchers := slices.Collect(maps.Values(d.watchers))
	d.mu.Unlock()
	for _, f := range watchers {
		f()
	}
}

// Facts implements driver.Driver.
func (d *Driver) Facts(ctx context.Context, nodes ...string) []driver.Facts {
	masters := d.table.Load().masters
	if len(masters) == 0 {
		return []driver.Facts{{Err: d.noServer(ctx)}}
	}
	if len(nodes) > 0 {
		masters = slices.DeleteFunc(slices.Clone(masters), func(n *node) bool { return !slices.Contains(nodes, n.addr) })
	}
	facts := make([]driver.Facts, len(masters))
	var wg sync.WaitGroup
	for i, n := range masters {
		wg.Go(func() {
			facts[i] = n.facts(ctx)
			facts[i].Err = d.forCaller(ctx, facts[i].Err)
			facts[i].SettingsErr = d.forCaller(ctx, facts[i].SettingsErr)
		})
	}
	wg.Wait()
	return facts
}

// Unverified reports whether connections use TLS without verification of the
// server certificate; see [Config.Unverified].
func (d *Driver) Unverified() bool { return d.c.Unverified() }

// Close implements driver.Driver.
func (d *Driver) Close() error {
	d.end()
	d.closeNodes()
	d.scans.Wait()
	return nil
}

func (d *Driver) closeNodes() {
	d.mu.Lock()
	nodes := make([]*node, 0, len(d.nodes))
	for _, n := range d.nodes {
		nodes = append(nodes, n)
	}
	d.mu.Unlock()
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(n.close)
	}
	wg.Wait()
	if d.source != nil {
		d.source.close()
	}
}

// forCaller converts an error for the caller of the driver. All errors pass
// through it. An error that Close has caused becomes ErrClosed.
func (d *Driver) forCaller(ctx context.Context, err error) error {
	if err != nil && d.life.Err() != nil && driver.ClassOf(err) != driver.Fatal {
		return &driver.Error{Class: driver.Fatal, Err: driver.ErrClosed}
	}
	return driver.ForCaller(ctx, err)
}

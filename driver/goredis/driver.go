// Package goredis runs Holdfast on a client of github.com/redis/go-redis/v9
// that the program already has: its connections, credentials, TLS settings and
// hooks are used as they are.
//
//	d, err := goredis.New(ctx, rdb) // a *redis.Client or *redis.ClusterClient
//	client, err := holdfast.New(d, holdfast.Options{})
//
// A program that has no such client is better served by holdfast.Open, whose
// driver sends the commands of all goroutines over one connection.
//
// # What differs from plain go-redis
//
// Scripts are never sent again behind the caller's back, whatever MaxRetries
// says: Holdfast does that itself, since it knows until when. A call returns
// when its context is done, also without ContextTimeoutEnabled, and after twice
// ReadTimeout; the connection it leaves behind is busy until the server answers
// or ReadTimeout has passed.
// A dead subscription is noticed after ReadTimeout and a second, and a cluster
// is looked at once a second while in use and at once when something went
// wrong, whatever ClusterStateReloadInterval says.
//
// Each listener has one more connection per node. In a cluster, calls go to the
// clients of the nodes, so hooks must be there to see them: add them with
// OnNewNode, as redisotel does.
//
// The driver trusts go-redis about the topology: one node's view of a cluster,
// and the first sentinel that answers. The default driver asks several. The node
// of a client for sentinels has no address, only the name that go-redis gives it.
//
// # Design
//
// The driver uses the program's client instead of a second one made from its
// Options. A second client would double the connections and lack the hooks. It
// does not use OnConnect or AddHook to see new connections, because those belong
// to the program and cannot be undone. So after a call has failed, or the pool
// has dropped a connection, the driver identifies the server before the reply
// counts. It does not use WithTimeout for every call, because that loses the
// hooks.
//
// # Versions
//
// The driver needs go-redis 9.22 or later: 9.19 could hang in Close while a
// reply was outstanding.
//
// go-redis 9.22 has a data race of its own while it finds out that a server
// sends no maintenance notifications. To keep the race detector quiet, set
// MaintNotificationsConfig with the mode maintnotifications.ModeDisabled.
package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// Driver is a driver.Driver on somebody else's client.
type Driver struct {
	single     *redis.Client        // nil if it is a cluster
	cluster    *redis.ClusterClient // nil if it is one server, or one behind sentinels
	life       context.Context      // done when the driver is closed
	end        context.CancelFunc
	workerPool workerPool
	used       chan struct{}  // buffered: a look at the servers is due within a second
	alarm      chan struct{}  // buffered: and now
	minding    sync.WaitGroup // the goroutine that looks
	terms      atomic.Uint64

	nodes  sync.Map // by *redis.Client: *node
	one    *node    // the only one, unless it is a cluster
	routes *routes  // nil unless it is a cluster
	moved  atomic.Bool

	reloading sync.Mutex
	reloaded  time.Time

	mu       sync.Mutex
	watchers map[int]func()
	watches  int
}

var _ driver.Driver = (*Driver)(nil)

// An UnsupportedError is that of [New] for a client that cannot carry Holdfast.
type UnsupportedError struct {
	Type string // "*redis.Ring"
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("a client of type %s cannot carry locks: give a *redis.Client or a *redis.ClusterClient", e.Type)
}

// New returns a driver on a client, which must be a *redis.Client, for one
// server or for sentinels, or a *redis.ClusterClient; others, such as a
// *redis.Ring, do not agree on one server per key, and New fails with an
// [UnsupportedError]. It asks the servers who they are, and fails if none
// answers before ctx is done.
//
// Closing the driver, or the holdfast.Client on it, leaves the client open:
// whoever opened it closes it, last.
func New(ctx context.Context, client redis.UniversalClient) (*Driver, error) {
	if ctx == nil {
		return nil, errors.New("the context is nil: use context.Background()")
	}
	d := &Driver{
		workerPool: workerPool{jobs: make(chan func())},
		used:       make(chan struct{}, 1),
		alarm:      make(chan struct{}, 1),
		watchers:   make(map[int]func()),
	}
	switch c := client.(type) {
	case *redis.Client:
		d.single = c
	case *redis.ClusterClient:
		d.cluster = c
	}
	switch {
	case d.single != nil:
		d.one = d.node(d.single)
	case d.cluster != nil:
		d.routes = new(routes)
	default:
		return nil, &UnsupportedError{fmt.Sprintf("%T", client)}
	}
	d.life, d.end = context.WithCancel(context.Background())
	if err := d.look(ctx); err != nil {
		d.end()
		return nil, d.whose(ctx, err)
	}
	d.minding.Go(d.mind)
	return d, nil
}

// Do implements driver.Driver.
func (d *Driver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	r := d.run(ctx, []driver.Call{call}, wait{})[0]
	return r.Reply, r.Err
}

// DoMany implements driver.Driver.
func (d *Driver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	return d.run(ctx, calls, wait{})
}

// DoAcked implements driver.Driver.
func (d *Driver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	return d.run(ctx, calls, wait{true, replicas, timeout})
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

// changed tells the watchers that some place is in a new term.
func (d *Driver) changed() {
	d.mu.Lock()
	watchers := slices.Collect(maps.Values(d.watchers))
	d.mu.Unlock()
	for _, f := range watchers {
		f()
	}
}

// Unverified reports whether the client uses TLS without checking whose
// certificate the servers show.
func (d *Driver) Unverified() bool {
	var t *tls.Config
	switch {
	case d.single != nil:
		t = d.single.Options().TLSConfig
	case d.cluster != nil:
		t = d.cluster.Options().TLSConfig
	}
	return t != nil && t.InsecureSkipVerify && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil
}

// Close implements driver.Driver. It does not close the client.
func (d *Driver) Close() error {
	d.end()
	d.minding.Wait()
	return nil
}

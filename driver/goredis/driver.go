// Package goredis runs Holdfast on an existing client of
// github.com/redis/go-redis/v9. It uses the connections, credentials, TLS
// settings and hooks of that client.
//
//	d, err := goredis.New(ctx, rdb) // a *redis.Client or *redis.ClusterClient
//	client, err := holdfast.New(d, nil)
//
// A program without such a client should use holdfast.Open. The driver of
// holdfast.Open sends the commands of all goroutines over one connection.
//
// # What differs from plain go-redis
//
// MaxRetries does not apply: go-redis never retries a script. Holdfast retries
// itself, since it knows the deadline.
//
// A call returns when its context is done, even without ContextTimeoutEnabled,
// and at the latest after twice ReadTimeout. Its connection stays busy until the
// server answers or ReadTimeout has passed.
//
// A dead subscription is detected after ReadTimeout plus one second.
// Independently of ClusterStateReloadInterval, the driver checks a cluster once a
// second while it is in use, and immediately after an error.
//
// Each listener opens one more connection per node. In a cluster, calls go to
// the clients of the nodes, so hooks must be added there: use OnNewNode, as
// redisotel does.
//
// Credentials that change come from CredentialsProviderContext or
// StreamingCredentialsProvider of the client. A lease survives the change.
//
// go-redis 9.22 has a data race while it detects that a server sends no
// maintenance notifications. To avoid reports of the race detector, set
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

// Driver is a driver.Driver on an existing go-redis client.
type Driver struct {
	single     *redis.Client        // nil in a cluster
	cluster    *redis.ClusterClient // nil with one server, or with sentinels
	life       context.Context      // done when the driver is closed
	end        context.CancelFunc
	workerPool workerPool
	scanDue    chan struct{}  // buffered: a scan is due within a second
	scanSignal chan struct{}  // buffered: a scan is due now
	scans      sync.WaitGroup // the goroutine that scans
	terms      atomic.Uint64

	nodes  sync.Map    // *node by *redis.Client
	one    *node       // the only node; nil in a cluster
	routes *routes     // nil outside a cluster
	moved  atomic.Bool // a slot has moved since the last call of changed

	reloading sync.Mutex
	reloaded  time.Time

	mu       sync.Mutex
	watchers map[int]func()
	watches  int
}

var _ driver.Driver = (*Driver)(nil)

// An UnsupportedError is the error of [New] for a client of another type than it
// supports.
type UnsupportedError struct {
	Type string // the type of the client, such as "*redis.Ring"
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("a client of type %s is not supported: use a *redis.Client or a *redis.ClusterClient", e.Type)
}

// New returns a driver on a client. The client must be a *redis.Client, for one
// server or for sentinels, or a *redis.ClusterClient. For other clients, such as
// a *redis.Ring, New returns an [UnsupportedError], because two of them may use
// different servers for one key. New identifies the servers and fails if none
// answers before ctx is done.
//
// Closing the driver, or the holdfast.Client on it, does not close the client.
// Close the client last.
func New(ctx context.Context, client redis.UniversalClient) (*Driver, error) {
	if ctx == nil {
		return nil, errors.New("the context is nil: use context.Background()")
	}
	d := &Driver{
		workerPool: workerPool{jobs: make(chan func())},
		scanDue:    make(chan struct{}, 1),
		scanSignal: make(chan struct{}, 1),
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
	if err := d.refresh(ctx); err != nil {
		d.end()
		return nil, d.forCaller(ctx, err)
	}
	d.scans.Go(d.scan)
	return d, nil
}

// Do implements driver.Driver.
func (d *Driver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	r := d.run(ctx, []driver.Call{call}, replicaWait{})[0]
	return r.Reply, r.Err
}

// DoMany implements driver.Driver.
func (d *Driver) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	return d.run(ctx, calls, replicaWait{})
}

// DoAcked implements driver.Driver.
func (d *Driver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	return d.run(ctx, calls, replicaWait{true, replicas, timeout})
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

// changed calls the watchers, because a place is in a new term.
func (d *Driver) changed() {
	d.mu.Lock()
	watchers := slices.Collect(maps.Values(d.watchers))
	d.mu.Unlock()
	for _, f := range watchers {
		f()
	}
}

// Unverified reports whether the client uses TLS without verification of the
// server certificate.
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
	d.scans.Wait()
	return nil
}

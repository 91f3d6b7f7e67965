package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// pingGap is the keep-alive interval. rueidis sends a PING after this time
// without traffic, and closes the connection if no answer arrives within
// Config.Timeout.
const pingGap = time.Second

// A node is one server. All goroutines share one connection to it for commands.
// The connection is opened at first use, and again after it has broken.
//
// On each new connection, the node identifies the server before it sends other
// commands. The server may have been replaced by a replica, or it may have been
// restarted and have lost its data. A different identity begins a new term.
type node struct {
	addr   string
	c      Config
	events nodeEvents

	sentinel bool         // the server is a sentinel
	logins   atomic.Int32 // calls of Config.Credentials in progress

	client  atomic.Pointer[rueidis.Client] // nil until the first connection
	opening sync.Mutex
	failed  time.Time // when the last attempt to connect failed; guarded by opening
	failure error
	life    context.Context // done when the node is closed
	end     context.CancelFunc
	gone    context.Context // done when rueidis has closed its connections; those that it has missed are closed then
	drop    context.CancelFunc
	era     atomic.Pointer[era]

	conn         atomic.Pointer[commandConn] // nil until the first dial
	calls        atomic.Int64                // calls in progress
	interrupted  atomic.Bool                 // a call was interrupted; see callContext
	reconnecting atomic.Bool

	term     atomic.Uint64
	replicas atomic.Int64
	sharded  atomic.Bool // the server supports sharded channels

	mu       sync.Mutex
	identity identity
	master   string // the address of its master, if the server is a read-only replica
}

// An identity changes when a server may have lost data.
type identity struct{ run, repl string }

// nodeEvents are the callbacks of a node to its driver.
type nodeEvents interface {
	// nextTerm returns a number that no node has had before.
	nextTerm() uint64
	// changed reports that a node is in a new term.
	changed()
	// scanNow requests a scan, because the node may no longer be a master.
	scanNow()
	// confirm returns nil if the node may be used as a master on its new
	// connection; see source.
	confirm(ctx context.Context, n *node, same bool) error
}

func newNode(ctx context.Context, c Config, addr string, events nodeEvents) *node {
	n := &node{addr: addr, c: c, events: events}
	n.life, n.end = context.WithCancel(ctx)
	n.gone, n.drop = context.WithCancel(context.Background())
	n.newEra()
	n.term.Store(events.nextTerm())
	n.replicas.Store(-1)
	return n
}

// connect opens the first connection. It takes no context, because several
// callers may wait for the connection.
func (n *node) connect() error {
	if n.client.Load() != nil {
		return nil
	}
	came := time.Now()
	n.opening.Lock()
	defer n.opening.Unlock()
	switch {
	case n.client.Load() != nil:
		return nil
	case n.life.Err() != nil:
		return errReplaced
	case n.failed.After(came): // an attempt failed while this call waited
		return n.failure
	}
	c := &n.c
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{n.addr},
		ForceSingleClient: true, // do not detect clusters
		Username:          c.Username,
		Password:          string(c.Password),
		AuthCredentialsFn: n.authFn(),
		SelectDB:          c.DB,
		ClientName:        c.ClientName,
		TLSConfig:         c.TLS,
		Dialer:            net.Dialer{Timeout: c.DialTimeout, KeepAlive: pingGap},
		DialCtxFn:         n.dialer(c.Network),
		ConnWriteTimeout:  c.Timeout,
		AlwaysRESP2:       c.RESP2,
		DisableRetry:      true, // the engine retries, since it knows the deadline
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection: commands keep their order
		// Calls that wait for replicas have their own connections, closed when idle.
		BlockingPoolSize:    256,
		BlockingPoolCleanup: 10 * time.Second,
		// Lock traffic is small and does not need the default of 0.5 MiB per buffer.
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	})
	if err == nil && n.life.Err() != nil {
		err = errReplaced
	}
	if err != nil {
		if client != nil {
			client.Close()
		}
		n.conn.Store(nil)
		n.failed, n.failure = time.Now(), n.classify(err)
		return n.failure
	}
	n.client.Store(&client)
	return nil
}

// authFn returns the function with which rueidis asks for credentials, or nil if
// they never change.
func (n *node) authFn() func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	if n.c.Credentials == nil {
		return nil
	}
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		username, password, err := n.credentials(n.life)
		return rueidis.AuthCredentials{Username: username, Password: string(password)}, err
	}
}

// close ends all calls and connections.
func (n *node) close() {
	n.end()
	n.opening.Lock()
	defer n.opening.Unlock()
	defer n.drop()
	if c := n.client.Load(); c != nil {
		(*c).Close()
	}
}

// identify opens the connection if necessary and asks the server for its
// identity.
func (n *node) identify(ctx context.Context) error {
	return runDetached(ctx, func(err error) error { return err }, func() error {
		if err := n.connect(); err != nil {
			return err
		}
		done := n.newCallContext(context.WithoutCancel(ctx)) // a cancelled call must not break the shared connection
		defer done.release()
		done.identifies = true
		return n.timeoutCause(ctx, n.checkIdentity(done, (*n.client.Load()).Do(done, n.b().Info().Build())))
	})
}

// checkIdentity handles the reply to INFO on a connection. It returns nil if the
// server may be used.
func (n *node) checkIdentity(done *callContext, r rueidis.RedisResult) error {
	text, err := r.ToString()
	if err != nil {
		if m, err := r.ToMessage(); err == nil && m.IsArray() {
			return driver.ProxyError("a proxy that merges the replies of several servers")
		}
		err = n.classify(err)
		if driver.CodeOf(err) != "NOPERM" && !strings.Contains(err.Error(), "unknown command") {
			return err
		}
		// Some servers do not permit INFO. They can be used; only the reported
		// reason for a lost lease is less precise.
	}
	f := driver.NewFacts(text)
	if err := n.checkProxy(done, f); err != nil {
		return err
	}
	if f.Mode() == "sentinel" && n.events != nodeEvents(noEvents{}) {
		return &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is a sentinel: use redis-sentinel://", n.addr)}
	} else if f.Role != "slave" || n.c.Mode == Single || n.c.Mode == Cluster {
		n.mu.Lock()
		same := n.identity == identity{f.RunID, f.ReplID}
		n.mu.Unlock()
		if err := n.events.confirm(done.Context, n, same); err != nil {
			n.events.scanNow()
			return err
		}
		n.learn(f)
		if f.Role == "slave" && n.c.Mode == Single {
			n.redial() // the host name may belong to another server by now
		}
		// Only if the reply certainly came on the current connection.
		if c := n.conn.Load(); c == done.conn || done.dialled {
			c.ready.Store(true)
			c.known.Store(true)
		}
		return nil
	}
	n.events.scanNow()
	return driver.ServerError("READONLY the server is a replica now")
}

// checkProxy returns an error if INFO comes from a proxy.
func (n *node) checkProxy(done *callContext, f driver.Facts) error {
	if err := f.Proxy(); err != nil || f.Role != "" || f.Version == "" || f.Mode() == "sentinel" {
		return err
	}
	// Redis and Valkey show their role. Envoy does not, but HELLO shows its name.
	hello, _ := (*n.client.Load()).Do(done, n.b().Arbitrary("HELLO").Build()).AsMap()
	if name := hello["server"]; name.IsString() {
		if said, _ := name.ToString(); said == "envoy-redis-proxy" {
			return driver.ProxyError("Envoy")
		}
	}
	return nil
}

// learn records what a server reports about itself.
func (n *node) learn(f driver.Facts) {
	n.replicas.Store(int64(f.Replicas))
	var major int
	_, _ = fmt.Sscanf(f.Version, "%d.", &major)
	n.sharded.Store(n.c.Mode == Cluster && major >= 7)
	who := identity{f.RunID, f.ReplID}
	n.mu.Lock()
	renewed := n.identity != identity{} && n.identity != who
	n.identity, n.master = who, f.ReplicaOf()
	n.mu.Unlock()
	if renewed {
		n.term.Store(n.events.nextTerm())
		n.events.changed()
	}
}

// checkRole returns an error if the server is a read-only replica and must not be one.
func (n *node) checkRole() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.c.RejectReplica || n.master == "" {
		return nil
	}
	return &driver.Error{Class: driver.Definite, Code: "READONLY", Err: fmt.Errorf("%s is a read-only replica of %s: "+
		"connect to the master, or give all servers, so that the client finds it: redis://host1,host2, redis-sentinel:// or redis-cluster://", n.addr, n.master)}
}

// reconnect restores the connection and identifies the server, in the
// background. It retries until it succeeds, or fails for good, or the node is
// closed.
func (n *node) reconnect() {
	if n.life.Err() != nil || !n.reconnecting.CompareAndSwap(false, true) {
		return
	}
	n.events.scanNow()
	go func() {
		defer n.reconnecting.Store(false)
		for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			err := n.identify(n.life)
			if err == nil || driver.ClassOf(err) == driver.Fatal {
				return
			}
			select {
			case <-time.After(pause):
			case <-n.life.Done():
				return
			}
		}
	}()
}

func (n *node) b() rueidis.Builder { return (*n.client.Load()).B() }

// ask runs a command other than a script.
func (n *node) ask(ctx context.Context, build func(rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	type answer struct {
		m   rueidis.RedisMessage
		err error
	}
	a := runDetached(ctx, func(err error) answer { return answer{err: err} }, func() answer {
		if err := n.connect(); err != nil {
			return answer{err: err}
		}
		done := n.newCallContext(context.WithoutCancel(ctx))
		defer done.release()
		done.identifies = true // the command changes nothing, so any server may answer
		m, err := (*n.client.Load()).Do(done, build(n.b())).ToMessage()
		if err != nil {
			return answer{err: n.timeoutCause(ctx, n.classify(err))}
		}
		return answer{m, nil}
	})
	return a.m, a.err
}

// errReplaced is the error of calls to a node that is closed.
var errReplaced = driver.Unsent(errors.New("the server was replaced by another one"))

// classify turns an error of rueidis into one of package driver.
func (n *node) classify(err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return n.replied(driver.ServerError(e.Error()))
	}
	var op *net.OpError
	var known *driver.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, rueidis.ErrClosing):
		return driver.Unknown(errors.New("the server was replaced by another one"))
	case errors.As(err, &op) && op.Op == "dial":
		return driver.Unsent(err)
	case errors.Is(err, errNotDialled):
		return driver.Unsent(err)
	}
	return driver.Unknown(err)
}

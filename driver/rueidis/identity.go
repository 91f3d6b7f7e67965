package rueidis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// An identity changes when a server may have lost data.
type identity struct{ run, repl string }

// A report is what a server has said about itself.
type report struct {
	replicas atomic.Int64 // -1 if it was not asked yet
	sharded  atomic.Bool  // it supports sharded channels

	mu       sync.Mutex
	identity identity
	master   string // the address of its master, if it is a read-only replica
}

// ensureIdentified identifies the server, unless it is identified on the current
// connection already.
func (n *node) ensureIdentified(ctx context.Context) error {
	if c := n.conn.Load(); c != nil && c.ready.Load() && c.known.Load() {
		return nil
	}
	return n.identify(ctx)
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
		n.report.mu.Lock()
		same := n.report.identity == identity{f.RunID, f.ReplID}
		n.report.mu.Unlock()
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
	n.report.replicas.Store(int64(f.Replicas))
	var major int
	_, _ = fmt.Sscanf(f.Version, "%d.", &major)
	n.report.sharded.Store(n.c.Mode == Cluster && major >= 7)
	who := identity{f.RunID, f.ReplID}
	n.report.mu.Lock()
	renewed := n.report.identity != identity{} && n.report.identity != who
	n.report.identity, n.report.master = who, f.ReplicaOf()
	n.report.mu.Unlock()
	if renewed {
		n.term.Store(n.events.nextTerm())
		n.events.changed()
	}
}

// checkRole returns an error if the server is a read-only replica and must not be one.
func (n *node) checkRole() error {
	n.report.mu.Lock()
	defer n.report.mu.Unlock()
	if !n.c.RejectReplica || n.report.master == "" {
		return nil
	}
	return &driver.Error{Class: driver.Definite, Code: "READONLY", Err: fmt.Errorf("%s is a read-only replica of %s: "+
		"connect to the master, or give all servers, so that the client finds it: redis://host1,host2, redis-sentinel:// or redis-cluster://", n.addr, n.report.master)}
}

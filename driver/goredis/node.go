package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// A node is one master, as the client reaches it.
//
// The client opens connections as it likes and tells nobody, so what is known
// of the server at the other end may be out of date. It is in doubt when a call
// has failed, or the client has dropped a connection: then the server is asked
// who it is before the next answer counts.
type node struct {
	d      *Driver
	addr   string
	client *redis.Client

	term     atomic.Uint64
	replicas atomic.Int64
	sharded  atomic.Bool   // it knows sharded channels, and they are needed
	failed   atomic.Uint32 // calls, so far
	settled  atomic.Uint64 // what had failed and was dropped when the server was asked last

	asking sync.Mutex
	who    identity
}

// An identity is what changes when a server may have forgotten something.
type identity struct{ run, repl, role string }

func newNode(d *Driver, c *redis.Client) *node {
	n := &node{d: d, addr: c.Options().Addr, client: c}
	if o := c.Options(); o.ReadTimeout <= 0 || o.WriteTimeout <= 0 {
		n.client = c.WithTimeout(defaultTimeout) // on the same connections
	}
	n.term.Store(d.terms.Add(1))
	n.replicas.Store(-1)
	n.failed.Store(1) // it was never asked
	return n
}

// node returns the node that a client of go-redis leads to.
func (d *Driver) node(c *redis.Client) *node {
	if n, ok := d.nodes.Load(c); ok {
		return n.(*node)
	}
	n, _ := d.nodes.LoadOrStore(c, newNode(d, c))
	return n.(*node)
}

// nodeAt returns the node at an address, as servers give it, or nil.
func (d *Driver) nodeAt(addr string) (found *node) {
	d.nodes.Range(func(_, v any) bool {
		if n := v.(*node); n.addr == addr || n.client.NodeAddress() == addr {
			found = n
		}
		return found == nil
	})
	return found
}

// learn takes in what a server says of itself.
func (n *node) learn(f driver.Facts) {
	n.replicas.Store(int64(f.Replicas))
	var major int
	_, _ = fmt.Sscanf(f.Version, "%d.", &major)
	if s := f.Cluster && major >= 7; n.sharded.Swap(s) != s {
		n.d.moved.Store(true) // in a way: listeners have to subscribe again
	}
	who := identity{f.RunID, f.ReplID, f.Role}
	renewed := n.who != identity{} && n.who != who
	n.who = who
	if renewed {
		n.term.Store(n.d.terms.Add(1))
		n.d.changed()
	}
}

// trouble returns a number that grows with every call that fails and every
// connection that the client drops.
func (n *node) trouble() uint64 {
	return uint64(n.failed.Load())<<32 | uint64(n.client.PoolStats().StaleConns)
}

// inDoubt reports whether another server may answer now than was asked last.
func (n *node) inDoubt() bool { return n.trouble() != n.settled.Load() }

// ask asks the server who it is.
func (n *node) ask(ctx context.Context) error {
	n.asking.Lock()
	defer n.asking.Unlock()
	return n.askLocked(ctx)
}

func (n *node) askLocked(ctx context.Context) error {
	before := n.trouble()
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }()
	pipe := conn.Pipeline()
	var sections []*redis.StringCmd
	for _, name := range []string{"server", "replication", "cluster"} { // several at once only since Redis 7
		cmd := redis.NewStringCmd(ctx, "info", name)
		sections = append(sections, cmd)
		_ = pipe.Process(ctx, once{cmd})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		if err = classify(err); driver.CodeOf(err) == "NOPERM" {
			n.settled.Store(before)
			return nil // it tells nobody who it is, which nobody can help
		}
		return err
	}
	var text strings.Builder
	for _, s := range sections {
		text.WriteString(s.Val())
	}
	n.learn(driver.NewFacts(text.String()))
	n.settled.Store(before) // only now: until then, answers wait for it
	return nil
}

// review looks at what became of orders: whether it casts a doubt on the
// server, or was brought about by another server than the last.
func (n *node) review(ctx context.Context, orders []*order) {
	for _, o := range orders {
		if o.result.Err == nil {
			continue
		}
		switch driver.CodeOf(o.result.Err) {
		case "":
			if errors.Is(ctx.Err(), context.Canceled) {
				continue // it was the caller who gave up
			}
			fallthrough
		case "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "LOADING", "UNBLOCKED":
			n.failed.Add(1)
			n.d.ring()
			return
		}
	}
	if !n.inDoubt() {
		return
	}
	n.asking.Lock()
	defer n.asking.Unlock()
	// Unless somebody was faster. A connection of the client may still lead to
	// the server before; the question breaks it, and the next takes another. If
	// none gets an answer, the server stays in doubt.
	for range maxAsk {
		if !n.inDoubt() || ctx.Err() != nil {
			return
		}
		if err := n.askLocked(ctx); err == nil || driver.ClassOf(err) == driver.Definite {
			return
		}
	}
}

// maxAsk bounds how often a server is asked before an answer of it counts.
const maxAsk = 5

// facts asks a server for all that is wanted of it.
func (n *node) facts(ctx context.Context) driver.Facts {
	asked := time.Now()
	now, timeErr := n.client.Time(ctx).Result()
	took := time.Since(asked)
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }()
	pipe := conn.Pipeline()
	info := pipe.Info(ctx)
	settings := make([]*redis.MapStringStringCmd, len(driver.SettingNames))
	for i, name := range driver.SettingNames {
		settings[i] = pipe.ConfigGet(ctx, name) // likewise
	}
	_, _ = pipe.Exec(ctx)
	if err := info.Err(); err != nil {
		return driver.Facts{Node: n.addr, Err: n.d.whose(ctx, classify(err))}
	}
	f := driver.NewFacts(info.Val())
	f.Node, f.Database = n.addr, n.client.Options().DB
	if timeErr == nil {
		f.Clock = now.Sub(asked.Add(took / 2))
	}
	f.Settings = make(map[string]string)
	for i, name := range driver.SettingNames {
		if err := settings[i].Err(); err != nil {
			f.SettingsErr = n.d.whose(ctx, classify(err)) // some servers let nobody see their settings
			break
		}
		if v, ok := settings[i].Val()[name]; ok {
			f.Settings[name] = v
		}
	}
	if f.SettingsErr == nil && len(f.Settings) == 0 {
		f.SettingsErr = driver.ServerError("ERR the server shows none of its settings")
	}
	n.asking.Lock()
	defer n.asking.Unlock()
	n.learn(f)
	return f
}

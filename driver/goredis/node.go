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
// The client opens connections without notice, so another server may answer than
// the one that was identified. A node is unverified after a failed call, and
// after the client has dropped a connection. In this state the server is
// identified again before the result of a call is returned.
type node struct {
	d      *Driver
	addr   string
	client *redis.Client

	term     atomic.Uint64
	replicas atomic.Int64
	sharded  atomic.Bool   // a cluster node that supports sharded channels
	failures atomic.Uint32 // number of failed calls
	verified atomic.Uint64 // troubleCount when the server was last identified

	identifying sync.Mutex
	identity    identity
}

// An identity changes when a server may have lost data.
type identity struct{ run, repl, role string }

func newNode(d *Driver, c *redis.Client) *node {
	n := &node{d: d, addr: c.Options().Addr, client: c}
	if o := c.Options(); o.ReadTimeout <= 0 || o.WriteTimeout <= 0 {
		n.client = c.WithTimeout(defaultTimeout) // uses the same connections
	}
	n.term.Store(d.terms.Add(1))
	n.replicas.Store(-1)
	n.failures.Store(1) // the server is not identified yet
	return n
}

// node returns the node of a go-redis client.
func (d *Driver) node(c *redis.Client) *node {
	if n, ok := d.nodes.Load(c); ok {
		return n.(*node)
	}
	n, _ := d.nodes.LoadOrStore(c, newNode(d, c))
	return n.(*node)
}

// nodeAt returns the node at an address that a server has returned, or nil.
func (d *Driver) nodeAt(addr string) (found *node) {
	d.nodes.Range(func(_, v any) bool {
		if n := v.(*node); n.addr == addr || n.client.NodeAddress() == addr {
			found = n
		}
		return found == nil
	})
	return found
}

// learn records what a server reports about itself.
func (n *node) learn(f driver.Facts) {
	n.replicas.Store(int64(f.Replicas))
	var major int
	_, _ = fmt.Sscanf(f.Version, "%d.", &major)
	if s := f.Cluster && major >= 7; n.sharded.Swap(s) != s {
		n.d.moved.Store(true) // listeners must subscribe again
	}
	who := identity{f.RunID, f.ReplID, f.Role}
	renewed := n.identity != identity{} && n.identity != who
	n.identity = who
	if renewed {
		n.term.Store(n.d.terms.Add(1))
		n.d.changed()
	}
}

// troubleCount returns a number that grows with every failed call and with every
// connection that the client drops.
func (n *node) troubleCount() uint64 {
	return uint64(n.failures.Load())<<32 | uint64(n.client.PoolStats().StaleConns)
}

// unverified reports whether another server may answer than the one that was
// identified last.
func (n *node) unverified() bool { return n.troubleCount() != n.verified.Load() }

// identify asks the server for its identity.
func (n *node) identify(ctx context.Context) error {
	n.identifying.Lock()
	defer n.identifying.Unlock()
	return n.identifyLocked(ctx)
}

func (n *node) identifyLocked(ctx context.Context) error {
	before := n.troubleCount()
	conn := n.client.Conn()
	defer func() { _ = conn.Close() }()
	pipe := conn.Pipeline()
	var sections []*redis.StringCmd
	for _, name := range []string{"server", "replication", "cluster"} { // Redis before 7 accepts one section per INFO
		cmd := redis.NewStringCmd(ctx, "info", name)
		sections = append(sections, cmd)
		_ = pipe.Process(ctx, noRetry{cmd})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		if err = classify(err); driver.CodeOf(err) == "NOPERM" {
			n.verified.Store(before)
			return nil // the user may not run INFO, so the identity stays unknown
		}
		return err
	}
	var text strings.Builder
	for _, s := range sections {
		text.WriteString(s.Val())
	}
	f := driver.NewFacts(text.String())
	if err := f.Proxy(); err != nil {
		return err
	}
	n.learn(f)
	n.verified.Store(before) // after learn, so that no result is returned before the new term
	return nil
}

// verify checks the results of commands. If a failure means that the server may
// have been replaced, verify marks the node as unverified and requests a scan.
// Otherwise, if the node is unverified, verify identifies the server, so that
// the results are not attributed to the wrong term.
func (n *node) verify(ctx context.Context, commands []*command) {
	for _, c := range commands {
		if c.result.Err == nil {
			continue
		}
		switch driver.CodeOf(c.result.Err) {
		case "":
			if errors.Is(ctx.Err(), context.Canceled) {
				continue // a cancelled call says nothing about the server
			}
			fallthrough
		case "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "LOADING", "UNBLOCKED":
			n.failures.Add(1)
			n.d.scanNow()
			return
		}
	}
	if !n.unverified() {
		return
	}
	n.identifying.Lock()
	defer n.identifying.Unlock()
	// Another goroutine may have identified the server by now. A pooled connection
	// may still lead to the old server. The attempt breaks it, and the next attempt
	// uses another one. If all attempts fail, the node stays unverified.
	for range maxIdentify {
		if !n.unverified() || ctx.Err() != nil {
			return
		}
		if err := n.identifyLocked(ctx); err == nil || driver.ClassOf(err) == driver.Definite {
			return
		}
	}
}

// maxIdentify limits the attempts to identify a server in verify.
const maxIdentify = 5

// facts asks a server for its Facts.
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
		settings[i] = pipe.ConfigGet(ctx, name) // Redis before 7 accepts one name per command
	}
	_, _ = pipe.Exec(ctx)
	if err := info.Err(); err != nil {
		return driver.Facts{Node: n.addr, Err: n.d.forCaller(ctx, classify(err))}
	}
	f := driver.NewFacts(info.Val())
	f.Node, f.Database = n.addr, n.client.Options().DB
	if timeErr == nil {
		f.Clock = now.Sub(asked.Add(took / 2))
	}
	f.Settings = make(map[string]string)
	for i, name := range driver.SettingNames {
		if err := settings[i].Err(); err != nil {
			f.SettingsErr = n.d.forCaller(ctx, classify(err)) // some servers do not permit CONFIG GET
			break
		}
		if v, ok := settings[i].Val()[name]; ok {
			f.Settings[name] = v
		}
	}
	if f.SettingsErr == nil && len(f.Settings) == 0 {
		f.SettingsErr = driver.ServerError("ERR the server does not show its settings")
	}
	n.identifying.Lock()
	defer n.identifying.Unlock()
	n.learn(f)
	return f
}

package rueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// sentinels is a source. It asks all sentinels at once for the master, and a
// sentinelView decides which answer counts.
type sentinels struct {
	c    Config
	name string
	life context.Context

	mu    sync.Mutex
	nodes map[string]*sentinelNode // by address: the configured ones and those that other sentinels list
	view  sentinelView
}

// A sentinelNode is a sentinel at an address.
type sentinelNode struct {
	node *node

	mu    sync.Mutex
	conn  *commandConn // the connection on which id and peers were read
	since time.Time    // when they were read
	id    string
	peers []peer
}

// A peer is a sentinel in the list of another sentinel.
type peer struct{ id, addr string }

const (
	// listEvery is how often a sentinel is asked for its peers.
	listEvery = 10 * time.Second
	// maxPeers limits how many listed sentinels are asked.
	maxPeers = 64
)

func newSentinels(d *Driver) *sentinels {
	c := d.c
	c.Mode, c.DB = Single, 0
	c.Username, c.Password, c.TLS = c.SentinelUsername, c.SentinelPassword, c.SentinelTLS
	s := &sentinels{c: c, name: c.MasterName, life: d.life, nodes: make(map[string]*sentinelNode)}
	s.setAddrs(nil, true)
	return s
}

// setAddrs adds sentinels to those that are asked. If all is set, only the
// configured sentinels and those at addrs stay; the others are closed.
func (s *sentinels) setAddrs(addrs []string, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return
	}
	wanted := slices.Concat(s.c.Addrs, addrs)
	for addr, n := range s.nodes {
		if all && !slices.Contains(wanted, addr) {
			delete(s.nodes, addr)
			go n.node.close()
		}
	}
	for _, addr := range wanted {
		if s.nodes[addr] == nil && len(s.nodes) < len(s.c.Addrs)+maxPeers {
			n := newNode(s.life, s.c, addr, noEvents{})
			n.sentinel = true
			s.nodes[addr] = &sentinelNode{node: n}
		}
	}
}

// noEvents ignores the events of a node.
type noEvents struct{}

func (noEvents) confirm(context.Context, *node, bool) error { return nil }

func (noEvents) nextTerm() uint64 { return 0 }
func (noEvents) changed()         {}
func (noEvents) scanNow()         {}

func (s *sentinels) find(ctx context.Context) (layout, error) {
	addr, err := s.master(ctx)
	if err != nil {
		return layout{}, err
	}
	return layout{masters: []string{addr}}, nil
}

// confirm asks the sentinels whether a server is the master. A master that was
// unreachable may still report that role after another server has taken over. If
// no sentinel answers, the server is accepted only if its identity has not
// changed.
func (s *sentinels) confirm(ctx context.Context, n *node, same bool) error {
	addr, err := s.master(ctx)
	switch {
	case err != nil && same && driver.ClassOf(err) != driver.Fatal && !errors.As(err, new(*conflict)):
		return nil
	case err != nil:
		return driver.Unsent(fmt.Errorf("no sentinel reports a master: %w", err))
	case addr != n.addr:
		return driver.Unsent(errors.New("the sentinels report another server as the master"))
	}
	return nil
}

// master asks the sentinels for the address of the master.
func (s *sentinels) master(ctx context.Context) (string, error) {
	s.mu.Lock()
	var watchers []*sentinelNode
	for _, n := range s.nodes {
		watchers = append(watchers, n)
	}
	s.mu.Unlock()
	var answers []sentinelReply
	var errs []error
	for _, a := range poll(ctx, watchers, s.askSentinel, func(a sentinelReply) bool { return a.err == nil }, shortGrace) {
		if a.err != nil {
			errs = append(errs, a.err)
		} else {
			answers = append(answers, a)
		}
	}
	if len(answers) == 0 {
		return "", mostSevere(errs)
	}
	s.mu.Lock()
	v, err := s.view.decide(answers)
	s.mu.Unlock()
	s.setAddrs(v.peers, v.majority)
	return v.master, err
}

// mostSevere returns the most severe error: a permanent one if there is one.
func mostSevere(errs []error) error {
	for _, class := range []driver.Class{driver.Fatal, driver.Ambiguous, driver.Definite} {
		if i := slices.IndexFunc(errs, func(err error) bool { return driver.ClassOf(err) == class }); i >= 0 {
			return errs[i]
		}
	}
	return driver.Unsent(errors.New("no server was asked"))
}

// askSentinel asks a sentinel for the master and, if due, for its peers.
func (s *sentinels) askSentinel(ctx context.Context, n *sentinelNode) sentinelReply {
	t := sentinelReply{from: n.node.addr}
	named, epoch, err := s.describeMaster(ctx, n)
	if err == nil {
		t.addr, err = s.masterAddr(ctx, n)
	}
	if err == nil && t.addr != named {
		// A failover is in progress: the description still has the old address.
		// Read the epoch again, so that it is not older than the new address.
		_, epoch, err = s.describeMaster(ctx, n)
	}
	if err == nil {
		err = n.refreshPeers(ctx, s.name)
	}
	if err != nil {
		return sentinelReply{err: err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t.epoch, t.id, t.peers = epoch, n.id, n.peers
	if n.conn != nil {
		t.remote = n.conn.RemoteAddr().String()
	}
	return t
}

// run runs a SENTINEL command.
func (n *sentinelNode) run(ctx context.Context, words ...string) (rueidis.RedisMessage, error) {
	return n.node.ask(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Arbitrary("SENTINEL").Args(words...).Build()
	})
}

// describeMaster returns the address and the epoch in a sentinel's description
// of the master.
func (s *sentinels) describeMaster(ctx context.Context, n *sentinelNode) (addr string, epoch int, err error) {
	m, err := n.run(ctx, "MASTER", s.name)
	if err != nil {
		if strings.Contains(err.Error(), "unknown command") {
			err = &driver.Error{Class: driver.Fatal, Err: errors.New("the server is not a sentinel")}
		}
		if driver.ClassOf(err) == driver.Fatal {
			err = &driver.Error{Class: driver.Fatal, Code: driver.CodeOf(err), Err: fmt.Errorf("sentinel %s: %w", n.node.addr, err)}
		}
		return "", 0, err
	}
	master, err := m.AsStrMap()
	if err != nil || master["port"] == "" {
		return "", 0, &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is not a sentinel", n.node.addr)}
	}
	epoch, _ = strconv.Atoi(master["config-epoch"])
	return net.JoinHostPort(master["ip"], master["port"]), max(epoch, 0), nil
}

// masterAddr returns the master's address that a sentinel gives to clients.
func (s *sentinels) masterAddr(ctx context.Context, n *sentinelNode) (string, error) {
	m, err := n.run(ctx, "GET-MASTER-ADDR-BY-NAME", s.name)
	if err != nil {
		return "", err
	}
	addr, err := m.AsStrSlice()
	if err != nil || len(addr) != 2 {
		return "", driver.Unknown(fmt.Errorf("sentinel %s does not know the address of the master", n.node.addr))
	}
	return net.JoinHostPort(addr[0], addr[1]), nil
}

// refreshPeers asks a sentinel for its id and its peers, unless both were read
// on this connection less than listEvery ago.
func (n *sentinelNode) refreshPeers(ctx context.Context, master string) error {
	c := n.node.conn.Load()
	n.mu.Lock()
	known := n.conn == c && c != nil && time.Since(n.since) < listEvery
	n.mu.Unlock()
	if known {
		return nil
	}
	// The answer may be an error: Redis before 6.2 has no MYID, and the user may
	// lack permission. In this case sentinels are told apart by their addresses.
	var id string
	m, err := n.run(ctx, "MYID")
	if err == nil {
		id, _ = m.ToString()
	} else if driver.CodeOf(err) == "" {
		return err
	}
	var peers []peer
	var list []rueidis.RedisMessage
	m, err = n.run(ctx, "SENTINELS", master)
	if err == nil {
		list, _ = m.ToArray()
	} else if driver.CodeOf(err) == "" {
		return err
	}
	for _, e := range list[:min(len(list), maxPeers)] {
		if p, err := e.AsStrMap(); err == nil && p["ip"] != "" {
			addr := net.JoinHostPort(p["ip"], p["port"])
			if p["runid"] == "" {
				p["runid"] = addr
			}
			peers = append(peers, peer{p["runid"], addr})
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conn, n.since, n.id, n.peers = c, time.Now(), id, peers
	return nil
}

func (s *sentinels) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.node.close()
	}
}

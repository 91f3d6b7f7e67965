package rueidis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// sentinels are a source: several sentinels are asked at once who the master
// is, and the one that knows of the latest failover is believed. One alone may
// be cut off from the others and live in the past.
type sentinels struct {
	c      Config
	name   string
	life   context.Context
	looked time.Time // when they were asked for each other

	mu    sync.Mutex
	nodes map[string]*node
	epoch int // the latest that was heard of
}

func newSentinels(d *Driver) *sentinels {
	c := d.c
	c.Mode, c.DB = Single, 0
	c.Username, c.Password, c.TLS = c.SentinelUsername, c.SentinelPassword, c.SentinelTLS
	s := &sentinels{c: c, name: c.MasterName, life: d.life, nodes: make(map[string]*node)}
	s.add(c.Addrs)
	return s
}

func (s *sentinels) add(addrs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, addr := range addrs {
		if s.nodes[addr] == nil && s.life.Err() == nil {
			s.nodes[addr] = newNode(s.life, s.c, addr, deaf{})
		}
	}
}

// deaf is for nodes that nobody wants to hear of.
type deaf struct{}

func (deaf) confirm(context.Context, *node, bool) error { return nil }

func (deaf) nextTerm() uint64 { return 0 }
func (deaf) changed()         {}
func (deaf) suspect()         {}

// A said is what one sentinel says of the master.
type said struct {
	by    *node
	addr  string
	epoch int
	err   error
}

func (s *sentinels) find(ctx context.Context) (layout, error) {
	best, err := s.master(ctx)
	if err != nil {
		return layout{}, err
	}
	if time.Since(s.looked) > 10*time.Second {
		s.looked = time.Now()
		s.add(others(ctx, best.by, s.name))
	}
	return layout{masters: []string{best.addr}}, nil
}

// confirm asks whether a server is the master. A master that comes back from the
// dead still takes itself for one, when another has long taken over. Where no
// sentinel answers, none has been replaced either, as far as anybody knows, and
// the server is believed if it has been one without a break.
func (s *sentinels) confirm(ctx context.Context, n *node, same bool) error {
	best, err := s.master(ctx)
	switch {
	case err != nil && same && driver.ClassOf(err) != driver.Fatal:
		return nil
	case err != nil:
		return driver.Unsent(fmt.Errorf("no sentinel says who is the master: %w", err))
	case best.addr != n.addr:
		return driver.Unsent(errors.New("the sentinels call another server the master"))
	}
	return nil
}

// master asks the sentinels for the master.
func (s *sentinels) master(ctx context.Context) (said, error) {
	s.mu.Lock()
	nodes := slices.Collect(maps.Values(s.nodes))
	s.mu.Unlock()
	best, agreed := said{epoch: -1}, 0
	var errs []error
	for _, a := range poll(ctx, nodes, s.ask, func(a said) bool { return a.err == nil }, briefly) {
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
		case a.epoch > best.epoch:
			best, agreed = a, 1
		case a.epoch == best.epoch && a.addr == best.addr:
			agreed++
		}
	}
	if best.epoch < 0 {
		return said{}, worst(errs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Fewer than most of them may have missed a failover that we know of. Most
	// may have been set up anew.
	if best.epoch < s.epoch && agreed <= len(s.nodes)/2 {
		return said{}, driver.Unsent(errors.New("only sentinels answer that have missed the last failover"))
	}
	s.epoch = best.epoch
	return best, nil
}

// worst returns the error that most needs to be known: one that will not go
// away by itself.
func worst(errs []error) error {
	for _, class := range []driver.Class{driver.Fatal, driver.Ambiguous, driver.Definite} {
		if i := slices.IndexFunc(errs, func(err error) bool { return driver.ClassOf(err) == class }); i >= 0 {
			return errs[i]
		}
	}
	return driver.Unsent(errors.New("nobody was asked"))
}

func (s *sentinels) ask(ctx context.Context, n *node) said {
	m, err := n.ask(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Arbitrary("SENTINEL", "MASTER", s.name).Build()
	})
	if err != nil {
		if strings.Contains(err.Error(), "unknown command") {
			err = &driver.Error{Class: driver.Fatal, Err: errors.New("it is not a sentinel")}
		}
		if driver.ClassOf(err) == driver.Fatal {
			err = &driver.Error{Class: driver.Fatal, Code: driver.CodeOf(err), Err: fmt.Errorf("sentinel %s: %w", n.addr, err)}
		}
		return said{err: err}
	}
	master, err := m.AsStrMap()
	if err != nil || master["port"] == "" {
		return said{err: &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is no sentinel", n.addr)}}
	}
	epoch, _ := strconv.Atoi(master["config-epoch"])
	// While a failover is going on, that still names the old one.
	m, err = n.ask(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Arbitrary("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name).Build()
	})
	if err != nil {
		return said{err: err}
	}
	addr, err := m.AsStrSlice()
	if err != nil || len(addr) != 2 {
		return said{err: driver.Unknown(fmt.Errorf("sentinel %s does not know the address of the master", n.addr))}
	}
	return said{by: n, addr: net.JoinHostPort(addr[0], addr[1]), epoch: epoch}
}

// others returns the sentinels that one knows of.
func others(ctx context.Context, n *node, name string) (addrs []string) {
	m, err := n.ask(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Arbitrary("SENTINEL", "SENTINELS", name).Build()
	})
	if err != nil {
		return nil // those that are known will do
	}
	list, _ := m.ToArray()
	for _, e := range list {
		if peer, err := e.AsStrMap(); err == nil && peer["ip"] != "" {
			addrs = append(addrs, net.JoinHostPort(peer["ip"], peer["port"]))
		}
	}
	return addrs
}

func (s *sentinels) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.close()
	}
}

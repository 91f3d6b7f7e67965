package rueidis

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// replicated is a source: of a few servers that are known by their addresses,
// the one is used that says it is the master. Of two, which can be while one
// does not yet know that it was replaced, the one that has replicas. If that does
// not decide it, none is: clients that chose differently would both be granted
// one lock.
type replicated struct{ d *Driver }

// A lead is what a server says of itself.
type lead struct {
	addr     string
	master   bool
	replicas int
	err      error
}

func (s *replicated) find(ctx context.Context, _ *table) (layout, error) {
	var nodes []*node
	for _, addr := range s.d.c.Addrs {
		nodes = append(nodes, s.d.node(addr))
	}
	var masters []lead
	var errs []error
	for _, l := range poll(ctx, nodes, role, func(l lead) bool { return l.master && l.replicas > 0 }) {
		switch {
		case l.err != nil:
			errs = append(errs, l.err)
		case l.master:
			masters = append(masters, l)
		}
	}
	slices.SortFunc(masters, func(a, b lead) int { return b.replicas - a.replicas })
	switch {
	case len(masters) == 0 && len(errs) > 0:
		return layout{}, worst(errs)
	case len(masters) == 0:
		return layout{}, driver.ServerError("READONLY none of the servers is a master")
	case len(masters) > 1 && (masters[1].replicas > 0 || masters[0].replicas == 0):
		return layout{}, &driver.Error{Class: driver.Fatal, Err: fmt.Errorf(
			"%s and %s both call themselves the master: name the servers of one master only, or use sentinels", masters[0].addr, masters[1].addr)}
	}
	return layout{masters: []string{masters[0].addr}, others: s.d.c.Addrs}, nil
}

// countReplicas asks a server how many replicas it has.
func (n *node) countReplicas(ctx context.Context) {
	if l := role(ctx, n); l.master {
		n.replicas.CompareAndSwap(0, int64(l.replicas))
	}
}

// role asks a server what it takes itself for.
func role(ctx context.Context, n *node) lead {
	l := lead{addr: n.addr}
	m, err := n.ask(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Role().Build() })
	if err != nil {
		l.err = err
		return l
	}
	said, _ := m.ToArray()
	if len(said) == 0 {
		return l
	}
	word, _ := said[0].ToString()
	if l.master = word == "master" && len(said) == 3; l.master {
		replicas, _ := said[2].ToArray()
		l.replicas = len(replicas)
	}
	return l
}

func (*replicated) close() {}

// confirm has nothing to ask but the server's own word.
func (*replicated) confirm(context.Context, *node, bool) error { return nil }

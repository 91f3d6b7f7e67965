package rueidis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// replicated is a source. It asks a few servers, which are known by their
// addresses, for their role, and uses the one that is the master. Two masters
// are a conflict, whatever replicas they have: replicas move from one to the
// other, and clients that look at different moments would choose differently.
type replicated struct{ d *Driver }

// hearing is the grace for the other servers once one is known to be a master.
// One that answers later counts as absent in this round.
const hearing = time.Second

// A lead is what a server says of itself.
type lead struct {
	addr     string
	master   bool
	replicas int
	err      error
}

func (s *replicated) find(ctx context.Context) (layout, error) {
	found := layout{others: s.d.c.Addrs}
	grace := hearing
	if end, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(end)/2) // the rest is for the master that is found
	}
	var nodes []*node
	for _, addr := range s.d.c.Addrs {
		nodes = append(nodes, s.d.node(addr))
	}
	var masters []string
	var errs []error
	for _, l := range poll(ctx, nodes, role, func(l lead) bool { return l.master }, grace) {
		switch {
		case l.err != nil:
			errs = append(errs, l.err)
		case l.master:
			masters = append(masters, l.addr)
		}
	}
	slices.Sort(masters)
	switch {
	case len(masters) == 0 && len(errs) > 0:
		return found, worst(errs)
	case len(masters) == 0:
		return found, driver.ServerError("READONLY none of the servers is a master")
	case len(masters) > 1:
		return found, &driver.Error{Class: driver.Fatal, Err: &conflict{fmt.Sprintf(
			"%s and %s both call themselves the master, so none is used: make one a replica of the other (REPLICAOF), "+
				"or name the servers of one master only", masters[0], masters[1])}}
	}
	found.masters = masters
	return found, nil
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

// confirm has nothing to ask but the server's own word. But a server on a new
// connection may have been replaced meanwhile, so all are asked soon.
func (s *replicated) confirm(context.Context, *node, bool) error {
	s.d.suspect()
	return nil
}

package rueidis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// replicated is a source. It asks the configured servers for their roles and
// uses the master. Two masters are a conflict, however many replicas each has:
// replicas move from one master to another, so clients that ask at different
// times would choose different masters.
type replicated struct{ d *Driver }

// masterGrace is how long find waits for the other servers once one has reported
// that it is a master. A server that answers later is ignored in this round.
const masterGrace = time.Second

// A roleReply is the role that a server reports.
type roleReply struct {
	addr     string
	master   bool
	replicas int
	err      error
}

func (s *replicated) find(ctx context.Context) (layout, error) {
	found := layout{others: s.d.c.Addrs}
	grace := masterGrace
	if end, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(end)/2) // the other half is for identifying the master
	}
	var nodes []*node
	for _, addr := range s.d.c.Addrs {
		nodes = append(nodes, s.d.node(addr))
	}
	var masters []string
	var errs []error
	for _, l := range poll(ctx, nodes, askRole, func(l roleReply) bool { return l.master }, grace) {
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
		return found, mostSevere(errs)
	case len(masters) == 0:
		return found, driver.ServerError("READONLY none of the servers is a master")
	case len(masters) > 1:
		return found, &driver.Error{Class: driver.Fatal, Err: &conflict{fmt.Sprintf(
			"%s and %s both report that they are the master, so neither is used: make one a replica of the other (REPLICAOF), "+
				"or list the servers of one master only", masters[0], masters[1])}}
	}
	found.masters = masters
	return found, nil
}

// countReplicas asks a server how many replicas it has.
func (n *node) countReplicas(ctx context.Context) {
	if l := askRole(ctx, n); l.master {
		n.report.replicas.CompareAndSwap(0, int64(l.replicas))
	}
}

// askRole asks a server for its role.
func askRole(ctx context.Context, n *node) roleReply {
	l := roleReply{addr: n.addr}
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

// confirm always succeeds: only the server itself knows its role. Another server
// may have become the master since the last scan, so confirm requests a scan.
func (s *replicated) confirm(context.Context, *node, bool) error {
	s.d.scanNow()
	return nil
}

package rueidis

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// cluster is a source. As long as nothing changes, one node says so, each time
// another. Else a few are asked at once, and the one is believed that belongs to
// a majority and knows of the latest change: one alone may be cut off from the
// others and live in the past.
type cluster struct {
	d     *Driver
	known []string // all nodes that were heard of, and the addresses that were given
	last  layout
}

func newCluster(d *Driver) *cluster { return &cluster{d: d, known: d.c.Addrs} }

// witnesses is how many nodes are asked at a time.
const witnesses = 3

func (c *cluster) find(ctx context.Context) (layout, error) {
	var nodes []*node
	for _, i := range rand.Perm(len(c.known)) {
		nodes = append(nodes, c.d.node(c.known[i]))
	}
	if len(c.last.slots) > 0 {
		hurried, cancel := context.WithTimeout(ctx, briefly)
		v := look(hurried, nodes[0])
		cancel()
		if v.rank == 1 && slices.Equal(v.slots, c.last.slots) {
			return c.last, nil
		}
	}
	var errs []error
	for some := range slices.Chunk(nodes, witnesses) {
		views := poll(ctx, some, look, func(v view) bool { return v.rank >= 0 }, briefly)
		if best := slices.MaxFunc(views, view.compare); best.rank >= 0 {
			c.remember(best.layout)
			return best.layout, nil
		}
		for _, v := range views {
			errs = append(errs, v.err)
		}
	}
	return layout{}, worst(errs)
}

func (c *cluster) remember(l layout) {
	c.last = l
	c.known = nil
	for _, addr := range slices.Concat(l.masters, l.others, c.d.c.Addrs) {
		if !slices.Contains(c.known, addr) {
			c.known = append(c.known, addr)
		}
	}
}

func (*cluster) close() {}

// confirm has nothing to ask: a node says itself which slots it serves.
func (*cluster) confirm(context.Context, *node, bool) error { return nil }

// A view is how one node sees the cluster.
type view struct {
	layout
	rank  int // -1: not at all, 0: it is cut off from the majority, 1: well
	epoch int // the highest that the node has heard of
	own   int // the one of its own slots, or of its master's
	err   error
}

// compare orders views by how far they are to be believed. A node may have heard
// of the latest epoch before it hears which slots have changed with it. The node
// that has made the change knows: the epoch is its own. So of two masters that
// claim one slot, the later is believed.
func (v view) compare(w view) int {
	return cmp.Or(v.rank-w.rank, v.epoch-w.epoch, v.own-w.own)
}

// look asks a node for its view.
func look(ctx context.Context, n *node) view {
	fail := func(err error) view { return view{rank: -1, err: err} }
	info, err := n.ask(ctx, func(b rueidis.Builder) rueidis.Completed { return b.ClusterInfo().Build() })
	if err != nil {
		if strings.Contains(err.Error(), "cluster support disabled") {
			err = &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is not part of a cluster: use redis://", n.addr)}
		}
		return fail(err)
	}
	text, _ := info.ToString()
	facts := driver.NewFacts(text).Info
	v := view{}
	v.epoch, _ = strconv.Atoi(facts["cluster_current_epoch"])
	v.own, _ = strconv.Atoi(facts["cluster_my_epoch"])
	if facts["cluster_state"] == "ok" {
		v.rank = 1
	}
	m, err := n.ask(ctx, func(b rueidis.Builder) rueidis.Completed { return b.ClusterSlots().Build() })
	if err != nil {
		return fail(err)
	}
	ranges, err := m.ToArray()
	if err != nil {
		return fail(driver.Unknown(err))
	}
	for _, r := range ranges {
		fields, _ := r.ToArray()
		if len(fields) < 3 {
			continue
		}
		first, err1 := fields[0].AsInt64()
		last, err2 := fields[1].AsInt64()
		if err1 != nil || err2 != nil || first < 0 || last >= driver.Slots {
			return fail(driver.Unknown(fmt.Errorf("%s lists slots that do not exist", n.addr)))
		}
		for i, f := range fields[2:] {
			addr, ok := endpoint(f, n.addr)
			switch {
			case !ok:
			case i == 0:
				v.slots = append(v.slots, span{int(first), int(last), addr})
				v.masters = append(v.masters, addr)
			default:
				v.others = append(v.others, addr)
			}
		}
	}
	slices.SortFunc(v.slots, func(a, b span) int { return a.first - b.first })
	if len(v.masters) == 0 {
		return fail(driver.ServerError("CLUSTERDOWN no slot is served"))
	}
	return v
}

// endpoint reads how to reach a node, as one says who is asked at that address.
func endpoint(m rueidis.RedisMessage, from string) (string, bool) {
	fields, _ := m.ToArray()
	if len(fields) < 2 {
		return "", false
	}
	host, _ := fields[0].ToString()
	port, err := fields[1].AsInt64()
	if err != nil || port == 0 {
		return "", false
	}
	return at(net.JoinHostPort(host, strconv.FormatInt(port, 10)), from), true
}

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

// cluster is a source. Each scan asks one random node. If its view is the known
// one, the scan is done. Otherwise several nodes are asked at once, and the best
// view is used: that of a node that belongs to a majority and knows the latest
// change. A single node may be partitioned and have an outdated view.
type cluster struct {
	d     *Driver
	known []string // the nodes of the last layout and the configured addresses
	last  layout
}

func newCluster(d *Driver) *cluster { return &cluster{d: d, known: d.c.Addrs} }

// witnesses is how many nodes are asked at once.
const witnesses = 3

func (c *cluster) find(ctx context.Context) (layout, error) {
	var nodes []*node
	for _, i := range rand.Perm(len(c.known)) {
		nodes = append(nodes, c.d.node(c.known[i]))
	}
	if len(c.last.slots) > 0 {
		hurried, cancel := context.WithTimeout(ctx, shortGrace)
		v := askView(hurried, nodes[0])
		cancel()
		if v.rank == 1 && slices.Equal(v.slots, c.last.slots) {
			return c.last, nil
		}
	}
	var errs []error
	for some := range slices.Chunk(nodes, witnesses) {
		views := poll(ctx, some, askView, func(v clusterView) bool { return v.rank >= 0 }, shortGrace)
		if best := slices.MaxFunc(views, clusterView.compare); best.rank >= 0 {
			c.setLayout(best.layout)
			return best.layout, nil
		}
		for _, v := range views {
			errs = append(errs, v.err)
		}
	}
	return layout{}, mostSevere(errs)
}

func (c *cluster) setLayout(l layout) {
	c.last = l
	c.known = nil
	for _, addr := range slices.Concat(l.masters, l.others, c.d.c.Addrs) {
		if !slices.Contains(c.known, addr) {
			c.known = append(c.known, addr)
		}
	}
}

func (*cluster) close() {}

// confirm always succeeds: a node itself redirects keys that it does not serve.
func (*cluster) confirm(context.Context, *node, bool) error { return nil }

// A clusterView is the state of the cluster as one node reports it.
type clusterView struct {
	layout
	rank  int // -1: no answer, 0: the node is partitioned from the majority, 1: cluster_state is ok
	epoch int // the highest epoch that the node knows
	own   int // the epoch of its own slots, or of its master's
	err   error
}

// compare orders views by reliability. A node may learn the latest epoch before
// it learns which slots changed with it. The node that made the change knows
// both, and the epoch is its own. So if two masters claim one slot, the view
// with the later epoch of its own wins.
func (v clusterView) compare(w clusterView) int {
	return cmp.Or(v.rank-w.rank, v.epoch-w.epoch, v.own-w.own)
}

// askView asks a node for its view.
func askView(ctx context.Context, n *node) clusterView {
	fail := func(err error) clusterView { return clusterView{rank: -1, err: err} }
	info, err := n.ask(ctx, func(b rueidis.Builder) rueidis.Completed { return b.ClusterInfo().Build() })
	if err != nil {
		if strings.Contains(err.Error(), "cluster support disabled") {
			err = &driver.Error{Class: driver.Fatal, Err: fmt.Errorf("%s is not part of a cluster: use redis://", n.addr)}
		}
		return fail(err)
	}
	text, _ := info.ToString()
	facts := driver.NewFacts(text).Info
	v := clusterView{}
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

// endpoint returns the address of a node in a reply of the node at from.
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

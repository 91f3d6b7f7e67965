package rueidis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A source knows which server serves what. It asks witnesses: the servers
// themselves, sentinels, or nodes of a cluster.
type source interface {
	// find asks the witnesses. Its error says that the answer is not known:
	// witnesses that do not answer leave the table as it is. Witnesses that
	// contradict each other are a conflict, and then no server is used.
	find(context.Context) (layout, error)
	// confirm says whether a server that calls itself a master, on a new
	// connection, is to be used as one. The same is so if it is known from
	// before.
	confirm(ctx context.Context, n *node, same bool) error
	close()
}

// A layout is what a source has found: the addresses of the masters, and in a
// cluster which slots each of them serves.
type layout struct {
	masters []string
	slots   []span
	others  []string // that may be asked, too
}

// A span is a run of slots and the address of the node that serves them.
type span struct {
	first, last int
	addr        string
}

// A conflict is the error of a source whose witnesses contradict each other.
// Each of them may be right, and clients that chose differently would both be
// granted one lock. So the table is emptied until the witnesses agree again.
type conflict struct{ text string }

func (c *conflict) Error() string { return c.text }

func newSource(d *Driver) source {
	switch d.c.Mode {
	case Replicated:
		return &replicated{d}
	case Sentinel:
		return newSentinels(d)
	case Cluster:
		return newCluster(d)
	}
	return nil
}

// maxRedirects bounds how often a call follows its key. It takes one step after
// a slot has moved, and more only while the servers disagree.
const maxRedirects = 5

// follow runs a call again where its key lives now, if that is why it failed.
func (d *Driver) follow(ctx context.Context, n *node, r *driver.Result, run func(n *node, asking bool) driver.Result) {
	for range maxRedirects {
		code := driver.CodeOf(r.Err)
		if code != "MOVED" && code != "ASK" || d.c.Mode != Cluster {
			break
		}
		slot, addr, ok := redirect(r.Err, n.addr)
		if !ok || ctx.Err() != nil {
			break
		}
		n = d.node(addr)
		if code == "MOVED" {
			d.moved(slot, n)
		}
		*r = run(n, code == "ASK")
	}
	if code := driver.CodeOf(r.Err); d.c.Mode != Cluster && (code == "MOVED" || code == "ASK") {
		r.Err = &driver.Error{Class: driver.Fatal, Code: code, Err: fmt.Errorf("%s is a node of a cluster, and the key lives on another: use redis-cluster://", n.addr)}
	}
	switch driver.CodeOf(r.Err) {
	case "":
		if r.Err != nil && !errors.Is(ctx.Err(), context.Canceled) { // or it was the caller who gave up
			d.suspect()
		}
	case "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "LOADING", "UNBLOCKED":
		d.suspect()
	}
	r.Err = d.outward(ctx, r.Err)
}

// redirect returns where an error sends to, given whose error it is.
func redirect(err error, from string) (slot int, addr string, ok bool) {
	words := strings.Fields(err.Error()) // MOVED 3999 127.0.0.1:6381
	if len(words) < 3 {
		return 0, "", false
	}
	slot, bad := strconv.Atoi(words[1])
	if bad != nil || slot < 0 || slot >= driver.Slots {
		return 0, "", false
	}
	return slot, at(words[2], from), true
}

// at returns an address without its host as one on the host of whoever gave it.
func at(addr, from string) string {
	i := strings.LastIndexByte(addr, ':') // the servers put no brackets around addresses of IPv6
	host, port := strings.Trim(addr[:max(i, 0)], "[]"), addr[i+1:]
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port)
}

// moved notes that a slot has a new master.
func (d *Driver) moved(slot int, n *node) {
	d.mu.Lock()
	old := d.table.Load()
	if old.slots == nil || old.slots[slot] == n {
		d.mu.Unlock()
		return
	}
	t := &table{masters: old.masters, slots: slices.Clone(old.slots)}
	t.slots[slot] = n
	if !slices.Contains(t.masters, n) {
		n.term.Store(d.nextTerm())
		t.masters = append(slices.Clone(t.masters), n)
		slices.SortFunc(t.masters, byAddr)
	}
	d.table.Store(t)
	d.mu.Unlock()
	d.changed()
	d.suspect() // others will have moved with it
}

// poll asks several nodes at once. It returns what they say: all of them, or,
// once one has said something good, those that answer within the grace.
func poll[N, T any](ctx context.Context, nodes []N, ask func(context.Context, N) T, good func(T) bool, grace time.Duration) []T {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan T, len(nodes))
	for _, n := range nodes {
		go func() { answers <- ask(ctx, n) }()
	}
	var said []T
	var enough <-chan time.Time
	for range nodes {
		select {
		case a := <-answers:
			said = append(said, a)
			if enough == nil && good(a) {
				enough = time.After(grace)
			}
		case <-enough:
			return said
		}
	}
	return said
}

// briefly is the grace where the answer of one node is enough.
const briefly = 100 * time.Millisecond

func byAddr(a, b *node) int { return cmp.Compare(a.addr, b.addr) }

// nobody is the error of calls whose key no server is known for.
func (d *Driver) nobody(ctx context.Context) error {
	d.suspect()
	if t := d.table.Load(); t.why != nil {
		return d.outward(ctx, driver.Unsent(t.why))
	}
	return d.outward(ctx, &driver.Error{Class: driver.Definite, Code: "CLUSTERDOWN", Err: errors.New("no server is known for the key now")})
}

// suspect has the source asked soon.
func (d *Driver) suspect() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// shortest is the least time between two looks at who serves what.
const shortest = 50 * time.Millisecond

// scan keeps the table up to date: every now and then, and soon after something
// did not work.
func (d *Driver) scan() {
	for {
		select {
		case <-d.kick:
		case <-time.After(d.c.ScanInterval/2 + rand.N(d.c.ScanInterval/2)):
		case <-d.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(d.life, d.c.Timeout)
		_ = d.refresh(ctx) // the table is as good as any, until the next time
		cancel()
		select {
		case <-time.After(shortest):
		case <-d.life.Done():
			return
		}
	}
}

// refresh asks the source which server serves what. If that is not known, the
// table stays. If the witnesses contradict each other, it is emptied.
func (d *Driver) refresh(ctx context.Context) error {
	found, err := d.source.find(ctx)
	if err != nil {
		if c := (*conflict)(nil); errors.As(err, &c) {
			d.doubt(c, found)
		}
		return err
	}
	if d.c.Mode != Cluster {
		// Whoever is called the master is believed only if it says so, too.
		n := d.node(found.masters[0])
		if err := n.greetOnce(ctx); err != nil {
			if now := d.table.Load().at(0); now != nil && now != n { // which is not the master any more
				d.use(new(table), found)
			}
			return err
		}
	}
	t := new(table)
	for _, addr := range found.masters {
		t.masters = append(t.masters, d.node(addr))
	}
	slices.SortFunc(t.masters, byAddr)
	t.masters = slices.Compact(t.masters)
	if d.c.Mode == Cluster {
		t.slots = make([]*node, driver.Slots)
		for _, s := range found.slots {
			n := d.node(s.addr)
			for i := s.first; i <= s.last; i++ {
				t.slots[i] = n
			}
		}
	}
	for _, n := range t.masters {
		if n.replicas.Load() == 0 { // it may have got some
			n.countReplicas(ctx)
		}
	}
	old := d.table.Load()
	if slices.Equal(old.masters, t.masters) && slices.Equal(old.slots, t.slots) {
		return nil
	}
	for _, n := range t.masters {
		if !slices.Contains(old.masters, n) {
			n.term.Store(d.nextTerm()) // it may have been one before, and have missed something
		}
	}
	d.use(t, found)
	return nil
}

// doubt empties the table because of a conflict. The leases of all keys are
// verified when it is filled again, in a new term.
func (d *Driver) doubt(c *conflict, found layout) {
	if old := d.table.Load(); old.why == nil || old.why.text != c.text {
		d.use(&table{why: c}, found)
	}
}

// use replaces the table.
func (d *Driver) use(t *table, found layout) {
	d.table.Store(t)
	d.retire(t, found)
	d.changed()
}

// retire closes the nodes that nobody needs any more. Whoever waits for an
// answer of one is told at once that there will be none.
func (d *Driver) retire(t *table, found layout) {
	var gone []*node
	d.mu.Lock()
	for addr, n := range d.nodes {
		if !slices.Contains(t.masters, n) && !slices.Contains(found.others, addr) {
			delete(d.nodes, addr)
			gone = append(gone, n)
		}
	}
	d.mu.Unlock()
	for _, n := range gone {
		go n.close()
	}
}

// greetOnce asks a server who it is, unless it has said so on the present
// connection.
func (n *node) greetOnce(ctx context.Context) error {
	if l := n.link.Load(); l != nil && l.ready.Load() && l.known.Load() {
		return nil
	}
	return n.greet(ctx)
}

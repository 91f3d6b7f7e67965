package rueidis

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A source finds out which server serves which keys. It asks witnesses: the
// servers themselves, sentinels, or cluster nodes.
type source interface {
	// find asks the witnesses. It returns an error if the layout is unknown. If
	// witnesses do not answer, the table stays as it is. If they contradict each
	// other, the error is a conflict, and no server is used.
	find(context.Context) (layout, error)
	// confirm returns nil if a server that reports to be a master, on a new
	// connection, may be used as one. The parameter same says whether the server
	// has the identity that the node had before.
	confirm(ctx context.Context, n *node, same bool) error
	close()
}

// A layout is the result of a source: the addresses of the masters and, in a
// cluster, the slots that each of them serves.
type layout struct {
	masters []string
	slots   []span
	others  []string // addresses of other nodes to keep: they may be asked again
}

// A span is a range of slots and the address of the node that serves them.
type span struct {
	first, last int
	addr        string
}

// A conflict is the error of a source whose witnesses contradict each other.
// Each of them may be right. If clients chose differently, two of them could
// both acquire one lock. So the table is empty until the witnesses agree again.
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

// scanNow requests a scan without delay.
func (d *Driver) scanNow() {
	select {
	case d.scanSignal <- struct{}{}:
	default:
	}
}

// minScanGap is the minimum time between two scans.
const minScanGap = 50 * time.Millisecond

// scan keeps the table up to date. It refreshes the table periodically, and when
// scanNow is called.
func (d *Driver) scan() {
	for {
		select {
		case <-d.scanSignal:
		case <-time.After(d.c.ScanInterval/2 + rand.N(d.c.ScanInterval/2)):
		case <-d.life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(d.life, d.c.Timeout)
		_ = d.refresh(ctx) // on an error, the next scan tries again
		cancel()
		select {
		case <-time.After(minScanGap):
		case <-d.life.Done():
			return
		}
	}
}

// refresh asks the source for the layout and updates the table. If the layout is
// unknown, the table stays. If the witnesses contradict each other, the table is
// emptied.
func (d *Driver) refresh(ctx context.Context) error {
	found, err := d.source.find(ctx)
	if err != nil {
		if c := (*conflict)(nil); errors.As(err, &c) {
			d.clearTable(c, found)
		}
		return err
	}
	if d.c.Mode != Cluster {
		// The server itself must confirm that it is the master.
		n := d.node(found.masters[0])
		if err := n.ensureIdentified(ctx); err != nil {
			if now := d.table.Load().at(0); now != nil && now != n { // the current one is no longer the master
				d.setTable(new(table), found)
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
		if n.report.replicas.Load() == 0 { // a replica may have joined
			n.countReplicas(ctx)
		}
	}
	old := d.table.Load()
	if slices.Equal(old.masters, t.masters) && slices.Equal(old.slots, t.slots) {
		return nil
	}
	for _, n := range t.masters {
		if !slices.Contains(old.masters, n) {
			n.term.Store(d.nextTerm()) // it may have been a master before and have missed writes since
		}
	}
	d.setTable(t, found)
	return nil
}

// clearTable empties the table because of a conflict. When the table is filled
// again, a new term begins, and the leases of all keys are verified.
func (d *Driver) clearTable(c *conflict, found layout) {
	if old := d.table.Load(); old.conflict == nil || old.conflict.text != c.text {
		d.setTable(&table{conflict: c}, found)
	}
}

// setTable replaces the table.
func (d *Driver) setTable(t *table, found layout) {
	d.table.Store(t)
	d.closeUnused(t, found)
	d.changed()
}

// closeUnused closes the nodes that are neither masters nor listed in found.
// Calls that wait for an answer of such a node fail at once.
func (d *Driver) closeUnused(t *table, found layout) {
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

// poll asks several nodes at once and returns their answers. After the first
// good answer, it waits for the others only for the grace period.
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

// shortGrace is the grace period if the answer of one node is enough.
const shortGrace = 100 * time.Millisecond

func byAddr(a, b *node) int { return cmp.Compare(a.addr, b.addr) }

package redistest

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Cluster is a Redis Cluster whose slots are spread evenly over its masters. Its
// node timeout is 15 s, so that a busy machine does not cause a failover that
// the test does not want. [Cluster.AwaitFailover] sets it to one second. A
// failover then takes about 2.5 s.
type Cluster struct {
	*topology
	nodes  []*Server
	shards [][]*Server // each master with its replicas, the first master first
	ids    map[*Server]string
	met    time.Time // when CLUSTER MEET was last sent

	timeout string // the node timeout in milliseconds
}

// StartCluster starts three masters with one replica each and waits until all
// nodes agree on the slots.
func StartCluster(tb testing.TB, opts ...Option) *Cluster {
	tb.Helper()
	c := &Cluster{
		topology: newTopology(tb, append([]Option{WithMasters(3), WithReplicas(1)}, opts...)),
		ids:      make(map[*Server]string),
	}
	var specs []spec
	for range c.masters * (1 + c.replicas) {
		specs = append(specs, c.member(
			"--cluster-enabled", "yes",
			"--cluster-node-timeout", "15000",
			"--cluster-config-file", "../nodes.conf", // outside the data directory
			"--enable-debug-command", "yes", // see AtomicMigration
		))
	}
	c.nodes = c.start(specs)
	timeout := c.nodes[0].Strings(tb, "CONFIG", "GET", "cluster-node-timeout")[1]
	c.setNodeTimeout(formingTimeout)
	c.meetAll()
	c.assign()
	awaitThat(tb, "all nodes agree on the cluster", func() bool {
		c.meetAgain()
		return c.formed()
	})
	c.setNodeTimeout(timeout)
	c.timeout = timeout
	return c
}

// formingTimeout is the node timeout, in milliseconds, while the cluster is
// formed. With less, a node that does not run for a second would forget the
// nodes that it was to meet, or be replaced. With more, nodes exchange messages
// less often.
const formingTimeout = "3000"

// setNodeTimeout sets the node timeout, in milliseconds, of the running nodes.
// A node that is restarted has the timeout that it was started with.
func (c *Cluster) setNodeTimeout(timeout string, except ...*Server) {
	c.tb.Helper()
	for _, s := range running(c.nodes) {
		if !slices.Contains(except, s) {
			s.Do(c.tb, "CONFIG", "SET", "cluster-node-timeout", timeout)
		}
	}
}

// Watchful sets the node timeout to one second. Call it after the node that is
// to be detected as failed has stopped answering.
func (c *Cluster) Watchful() {
	c.tb.Helper()
	c.setNodeTimeout("1000")
}

// Patient ends [Cluster.Watchful]. A node that was marked as failed, and that no
// other node has replaced, must answer again before the call: nodes clear the
// mark only after twice the node timeout.
func (c *Cluster) Patient() {
	c.tb.Helper()
	c.setNodeTimeout(c.timeout)
}

// meetAll makes the nodes meet. It sends CLUSTER MEET for each pair, because
// gossip is slow.
func (c *Cluster) meetAll() {
	c.tb.Helper()
	for i, s := range c.nodes {
		c.ids[s] = s.Do(c.tb, "CLUSTER", "MYID").(string)
		s.Do(c.tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		for _, other := range c.nodes[:i] {
			c.meet(s, other)
		}
	}
	c.met = time.Now()
}

// meetAgain repeats CLUSTER MEET for nodes that do not know each other. A node
// that gets no answer in time forgets the other one.
func (c *Cluster) meetAgain() {
	c.tb.Helper()
	if time.Since(c.met) < time.Second {
		return
	}
	c.met = time.Now()
	for _, s := range c.nodes {
		view := c.view(s)
		for _, other := range c.nodes {
			if _, known := view[c.ids[other]]; !known && other != s {
				c.meet(s, other)
			}
		}
	}
}

func (c *Cluster) meet(s, other *Server) {
	c.tb.Helper()
	s.Do(c.tb, "CLUSTER", "MEET", other.front, strconv.Itoa(other.port))
}

// assign assigns the slots to the first nodes, and a master to each other node.
func (c *Cluster) assign() {
	c.tb.Helper()
	for i, master := range c.nodes[:c.masters] {
		first, last := i*slotCount/c.masters, (i+1)*slotCount/c.masters-1
		add := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is new in 7.0
		for slot := first; slot <= last; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		master.Do(c.tb, add...)
		c.shards = append(c.shards, []*Server{master})
	}
	for i, replica := range c.nodes[c.masters:] {
		shard := &c.shards[i%c.masters]
		*shard = append(*shard, replica)
		awaitThat(c.tb, "a replica knows its master", func() bool {
			c.meetAgain()
			_, err := replica.Try("CLUSTER", "REPLICATE", c.ids[(*shard)[0]])
			return err == nil
		})
	}
}

// formed reports whether every node serves and sees the slots and masters as
// they were assigned.
func (c *Cluster) formed() bool {
	for _, shard := range c.shards {
		if shard[0].attached(shard) != len(shard)-1 {
			return false
		}
	}
	for _, s := range c.nodes {
		view := c.view(s)
		if len(view) != len(c.nodes) || s.info("CLUSTER", "INFO")["cluster_state"] != "ok" || !c.heardAll(s) {
			return false
		}
		for _, shard := range c.shards {
			for i, member := range shard {
				n := view[c.ids[member]]
				if n.suspect() || !n.linked || (i > 0) != (n.master == c.ids[shard[0]]) || (i == 0) != (len(n.slots) == 1) {
					return false
				}
			}
		}
	}
	return true
}

// URL returns the addresses of all nodes for clients.
func (c *Cluster) URL() string { return c.nodes[0].url("redis-cluster", "", nil, c.nodes...) }

// Nodes returns all nodes, the initial masters first.
func (c *Cluster) Nodes() []*Server { return c.nodes }

// Masters returns the running nodes that have slots.
func (c *Cluster) Masters() []*Server {
	var masters []*Server
	for _, s := range running(c.nodes) {
		if n := c.self(s); n.isMaster() && len(n.slots) > 0 {
			masters = append(masters, s)
		}
	}
	return masters
}

// MasterOf returns the running node that has the slot of the key. If several
// nodes claim it, MasterOf returns the one that was elected last. It waits until
// there is one.
func (c *Cluster) MasterOf(key string) *Server {
	c.tb.Helper()
	return c.MasterOfSlot(SlotOf(key))
}

// MasterOfSlot is [Cluster.MasterOf] for a slot.
func (c *Cluster) MasterOfSlot(slot int) *Server {
	c.tb.Helper()
	var master *Server
	awaitThat(c.tb, "a master of the slot", func() bool {
		epoch := -1
		for _, s := range running(c.nodes) {
			if n := c.self(s); n.isMaster() && n.has(slot) && n.epoch > epoch {
				master, epoch = s, n.epoch
			}
		}
		return master != nil
	})
	return master
}

// ReplicasOf returns the running nodes that follow a master.
func (c *Cluster) ReplicasOf(master *Server) []*Server {
	var replicas []*Server
	for _, s := range running(c.nodes) {
		if c.self(s).master == c.ids[master] {
			replicas = append(replicas, s)
		}
	}
	return replicas
}

// AwaitReplicas waits until n replicas follow the master and have its data, so
// that they can replace it.
func (c *Cluster) AwaitReplicas(master *Server, n int) time.Duration {
	c.tb.Helper()
	return awaitReplicas(c.tb, n, c.shardOf(master), func() *Server { return master })
}

// Failover promotes a replica. It waits until all running nodes know the new
// master, and until the old master, if it runs, follows it. The mode is empty,
// "FORCE" or "TAKEOVER", as in CLUSTER FAILOVER. If the master crashes within
// five seconds of two failovers, there may be two masters: Redis counts votes of
// the previous election.
func (c *Cluster) Failover(replica *Server, mode ...string) {
	c.tb.Helper()
	shard := c.shardOf(replica)
	var last time.Time
	awaitThat(c.tb, "the failover", func() bool {
		if c.leads(shard, replica) {
			return true
		}
		// The command is repeated, because a failover that does not finish in time
		// is dropped silently, and one that two nodes disagree on is undone.
		if time.Since(last) > 2*time.Second && replica.role() != "master" {
			last = time.Now()
			_, _ = replica.Try(append([]string{"CLUSTER", "FAILOVER"}, mode...)...)
		}
		return false
	})
	awaitThat(c.tb, "the others follow", func() bool {
		for _, s := range running(others(shard, replica)) {
			if n := c.self(s); n.isMaster() || len(n.slots) > 0 {
				return false
			}
		}
		return true
	})
	c.AwaitReplicas(replica, len(running(shard))-1)
}

// AwaitFailover waits until another node has replaced the master from, which
// does not answer the others, and all running nodes know it. It returns the new
// master and the time that this took. The node timeout is one second meanwhile.
// It stays at one second on the old master, so that the old master stops serving
// while it is partitioned.
func (c *Cluster) AwaitFailover(from *Server) (*Server, time.Duration) {
	c.tb.Helper()
	begin := time.Now()
	c.Watchful()
	defer c.setNodeTimeout(c.timeout, from)
	shard := c.shardOf(from)
	var master *Server
	awaitThat(c.tb, "another master", func() bool {
		for _, s := range running(others(shard, from)) {
			if n := c.self(s); n.isMaster() && len(n.slots) > 0 {
				master = s
			}
		}
		return master != nil
	})
	c.awaitLeader(shard, master)
	return master, time.Since(begin)
}

// awaitLeader waits until all nodes know the new master.
func (c *Cluster) awaitLeader(shard []*Server, master *Server) {
	c.tb.Helper()
	awaitThat(c.tb, "all nodes know the new master", func() bool { return c.leads(shard, master) })
}

// leads reports whether all running nodes outside the shard see master as the
// one of its members that has slots, and serve.
func (c *Cluster) leads(shard []*Server, master *Server) bool {
	for _, s := range append(running(c.outside(shard)), master) {
		view := c.view(s)
		for _, member := range shard {
			if (len(view[c.ids[member]].slots) > 0) != (member == master) {
				return false
			}
		}
		if s.info("CLUSTER", "INFO")["cluster_state"] != "ok" {
			return false
		}
	}
	return true
}

// shardOf returns the node, its master and its replicas.
func (c *Cluster) shardOf(s *Server) []*Server {
	c.tb.Helper()
	for _, shard := range c.shards {
		if slices.Contains(shard, s) {
			return shard
		}
	}
	c.tb.Fatalf("redistest: %s is not a node of the cluster", s.Addr())
	return nil
}

func (c *Cluster) outside(shard []*Server) []*Server {
	var rest []*Server
	for _, s := range c.nodes {
		if !slices.Contains(shard, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

package redistest

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Cluster is a Redis Cluster whose slots are spread evenly over its masters. Its
// nodes wait 15 s for a silent node: a busy machine must not replace a master
// that the test has not touched. [Cluster.AwaitFailover] has them wait for a
// second only, so that a failover takes about two and a half.
type Cluster struct {
	*topology
	nodes  []*Server
	shards [][]*Server // the nodes by whom they replace, first masters first
	ids    map[*Server]string
	met    time.Time // when the nodes were last told of each other

	timeout string // for how long a node may be silent, in milliseconds
}

// StartCluster starts three masters with a replica each and waits until all
// nodes agree on who has which slot.
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
			"--cluster-config-file", "../nodes.conf", // not among the data
		))
	}
	c.nodes = c.start(specs)
	timeout := c.nodes[0].Strings(tb, "CONFIG", "GET", "cluster-node-timeout")[1]
	c.tolerate(forming)
	c.introduce()
	c.assign()
	awaitThat(tb, "all nodes agree on the cluster", func() bool {
		c.remind()
		return c.formed()
	})
	c.tolerate(timeout)
	c.timeout = timeout
	return c
}

// forming is how long a node may be silent, in milliseconds, while the cluster
// is made: one that was kept from working for a second would forget whom it was
// to meet, or be replaced before anybody has asked for it. More makes nodes tell
// each other less often.
const forming = "3000"

// tolerate lets nodes be silent for so many milliseconds. It applies to the
// nodes that run. One that is restarted has what it was started with.
func (c *Cluster) tolerate(timeout string, except ...*Server) {
	c.tb.Helper()
	for _, s := range running(c.nodes) {
		if !slices.Contains(except, s) {
			s.Do(c.tb, "CONFIG", "SET", "cluster-node-timeout", timeout)
		}
	}
}

// Watchful has the nodes take one for dead that does not answer for a second. A
// test calls it when the node that they shall miss is silent already.
func (c *Cluster) Watchful() {
	c.tb.Helper()
	c.tolerate("1000")
}

// Patient ends [Cluster.Watchful]. A node that was taken for dead, and that no
// other has replaced, must be back before: nodes wait for twice the time that
// they tolerate until they believe that it is.
func (c *Cluster) Patient() {
	c.tb.Helper()
	c.tolerate(c.timeout)
}

// introduce lets the nodes know each other. Each pair is named rather than left
// to gossip, which takes its time.
func (c *Cluster) introduce() {
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

// remind lets nodes that do not know each other meet again. A node that gets no
// answer in time forgets whom it was to meet.
func (c *Cluster) remind() {
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

// assign gives the first nodes the slots and the others their masters.
func (c *Cluster) assign() {
	c.tb.Helper()
	for i, master := range c.nodes[:c.masters] {
		first, last := i*slotCount/c.masters, (i+1)*slotCount/c.masters-1
		master.Do(c.tb, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		c.shards = append(c.shards, []*Server{master})
	}
	for i, replica := range c.nodes[c.masters:] {
		shard := &c.shards[i%c.masters]
		*shard = append(*shard, replica)
		awaitThat(c.tb, "a replica knows its master", func() bool {
			c.remind()
			_, err := replica.Try("CLUSTER", "REPLICATE", c.ids[(*shard)[0]])
			return err == nil
		})
	}
}

// formed reports whether every node serves and sees everything as it was
// assigned.
func (c *Cluster) formed() bool {
	for _, shard := range c.shards {
		if shard[0].attached(shard) != len(shard)-1 {
			return false
		}
	}
	for _, s := range c.nodes {
		view := c.view(s)
		if len(view) != len(c.nodes) || s.info("CLUSTER", "INFO")["cluster_state"] != "ok" {
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

// Nodes returns all nodes, those that began as masters first.
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
// believe that they do, it is the one that was elected last. It waits until
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
// that they can take its place.
func (c *Cluster) AwaitReplicas(master *Server, n int) time.Duration {
	c.tb.Helper()
	return awaitReplicas(c.tb, n, c.shardOf(master), func() *Server { return master })
}

// Failover has a replica take the place of its master, and waits until all
// nodes that run know it as such and its master, if it runs, follows it. The
// mode is none, "FORCE" or "TAKEOVER", as in CLUSTER FAILOVER. A crash of the
// master within five seconds of two of them may end in two masters: Redis counts
// votes of the election before.
func (c *Cluster) Failover(replica *Server, mode ...string) {
	c.tb.Helper()
	shard := c.shardOf(replica)
	var last time.Time
	awaitThat(c.tb, "the failover", func() bool {
		if c.leads(shard, replica) {
			return true
		}
		// Sent again, because an order that cannot be carried out in time is
		// dropped without a word, and one that two nodes disagree on is undone.
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

// AwaitFailover waits until another node has taken the place of the master
// from, which does not answer the others, and all nodes that run know it. It
// returns the new master and the time that took. The nodes are watchful until
// then. The old master stays so: cut off, it is to stop serving.
func (c *Cluster) AwaitFailover(from *Server) (*Server, time.Duration) {
	c.tb.Helper()
	begin := time.Now()
	c.Watchful()
	defer c.tolerate(c.timeout, from)
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

// awaitLeader waits until master leads.
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

// shardOf returns the node and those that replace it or that it replaces.
func (c *Cluster) shardOf(s *Server) []*Server {
	c.tb.Helper()
	for _, shard := range c.shards {
		if slices.Contains(shard, s) {
			return shard
		}
	}
	c.tb.Fatalf("redistest: %s is no node of the cluster", s.Addr())
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

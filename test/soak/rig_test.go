package soak_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// workers is the number of worker processes.
const workers = 4

// A rig is a deployment of servers, and what can go wrong with it.
type rig struct {
	round    string // prefix of the names in use
	replicas int    // that must have each lock
	nodes    []*redistest.Server
	masters  func() []*redistest.Server
	master   func(name string) *redistest.Server
	url      func(worker int) string
	faults   []fault
	steady   func() // waits until all replicas follow
}

// A fault is something that can go wrong. The function do returns when it is over.
type fault struct {
	name   string
	weight int
	worker bool // it concerns one worker
	do     func(tb testing.TB, r *rand.Rand, worker int)
}

// topologies are the deployments by name.
var topologies = map[string]func(testing.TB) *rig{"single": oneServer, "sentinel": sentinels, "cluster": cluster}

// between returns a random time.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// during does something for a random time.
func during(from, to time.Duration, begin, end func()) func(testing.TB, *rand.Rand, int) {
	return func(_ testing.TB, r *rand.Rand, _ int) {
		<-redistest.Outage(between(r, from, to), begin, end)
	}
}

// oneServer is one server that writes all to its disk, with a proxy for each worker.
func oneServer(tb testing.TB) *rig {
	s := redistest.StartWith(tb, redistest.Args("--appendonly", "yes", "--enable-debug-command", "yes"))
	var proxies []*redistest.Proxy
	for range workers {
		proxies = append(proxies, redistest.NewProxy(tb, s.Addr()))
	}
	g := &rig{
		nodes:   []*redistest.Server{s},
		masters: func() []*redistest.Server { return []*redistest.Server{s} },
		master:  func(string) *redistest.Server { return s },
		url:     func(worker int) string { return proxies[worker].URL() },
		steady:  func() {},
	}
	link := func(name string, from, to time.Duration, begin, end func(*redistest.Proxy)) {
		g.faults = append(g.faults, fault{name, 2, true, func(_ testing.TB, r *rand.Rand, worker int) {
			<-redistest.Outage(between(r, from, to), func() { begin(proxies[worker]) }, func() { end(proxies[worker]) })
		}})
	}
	const ms = time.Millisecond
	nothing := func(*redistest.Proxy) {}
	link("link frozen", 100*ms, 7000*ms, (*redistest.Proxy).Freeze, (*redistest.Proxy).Thaw)
	link("replies frozen", 100*ms, 5000*ms, (*redistest.Proxy).FreezeReplies, (*redistest.Proxy).Thaw)
	link("link cut", ms, 2*ms, (*redistest.Proxy).Cut, nothing)
	link("connections refused", 100*ms, 5000*ms, func(p *redistest.Proxy) { p.Refuse(true); p.Cut() }, func(p *redistest.Proxy) { p.Refuse(false) })
	link("link slow", 500*ms, 4000*ms, func(p *redistest.Proxy) { p.Delay(150 * ms) }, func(p *redistest.Proxy) { p.Delay(0) })
	link("messages lost", 500*ms, 4000*ms, func(p *redistest.Proxy) { p.DropMessages(true) }, func(p *redistest.Proxy) { p.DropMessages(false) })
	g.faults = append(g.faults,
		fault{"server stopped", 2, false, during(100*ms, 6000*ms, s.Pause, s.Resume)},
		fault{"server killed", 2, false, func(testing.TB, *rand.Rand, int) { s.RestartWithData() }},
		fault{"server busy", 1, false, func(tb testing.TB, r *rand.Rand, _ int) {
			s.Do(tb, "DEBUG", "SLEEP", fmt.Sprintf("%.1f", between(r, 100*ms, 2000*ms).Seconds()))
		}},
	)
	g.addCommon()
	return g
}

// addCommon adds the faults of all topologies.
func (g *rig) addCommon() {
	all := func(weight int, name string, args ...string) {
		g.faults = append(g.faults, fault{name, weight, false, func(testing.TB, *rand.Rand, int) {
			for _, s := range g.masters() {
				_, _ = s.Try(args...)
			}
		}})
	}
	all(2, "scripts flushed", "SCRIPT", "FLUSH")
	all(2, "subscriptions killed", "CLIENT", "KILL", "TYPE", "pubsub")
	all(1, "connections killed", "CLIENT", "KILL", "TYPE", "normal")
	for _, mode := range []string{"ALL", "WRITE"} {
		g.faults = append(g.faults, fault{"clients paused", 1, false, func(_ testing.TB, r *rand.Rand, _ int) {
			d := between(r, 100*time.Millisecond, 2*time.Second)
			<-redistest.Outage(d, func() {
				for _, s := range g.masters() {
					_, _ = s.Try("CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds()), mode)
				}
			}, nil)
		}})
	}
}

// addNetwork adds the faults of the network between clients and servers.
func (g *rig) addNetwork(n *redistest.Network, failovers bool) {
	longest := 6 * time.Second
	if failovers {
		longest = 800 * time.Millisecond // of what Sentinels do not see
	}
	cut := func(name string, longest time.Duration, begin func(*redistest.Server)) {
		g.faults = append(g.faults, fault{name, 3, false, func(_ testing.TB, r *rand.Rand, _ int) {
			masters := g.masters()
			s := masters[r.IntN(len(masters))]
			<-redistest.Outage(between(r, 50*time.Millisecond, longest), func() { begin(s) }, n.Heal)
		}})
	}
	clients := redistest.Side{redistest.Clients}
	cut("link frozen", 7*time.Second, func(s *redistest.Server) { n.Partition(clients, redistest.Side{s}) })
	cut("replies frozen", 5*time.Second, func(s *redistest.Server) { n.Silence(s, redistest.Clients) })
	cut("connections refused", 5*time.Second, func(s *redistest.Server) { n.Refuse(clients, redistest.Side{s}) })
	g.faults = append(g.faults, fault{"server stopped", 3, false, func(_ testing.TB, r *rand.Rand, _ int) {
		masters := g.masters()
		s := masters[r.IntN(len(masters))]
		<-redistest.Outage(between(r, 50*time.Millisecond, longest), s.Pause, s.Resume)
	}})
}

// sentinels is a master with a replica, and three Sentinels.
func sentinels(tb testing.TB) *rig {
	s := redistest.StartSentinels(tb, redistest.WithReplicas(1), redistest.WithPartitions())
	g := &rig{
		replicas: 1,
		nodes:    s.Nodes(),
		masters:  func() []*redistest.Server { return []*redistest.Server{s.Master()} },
		master:   func(string) *redistest.Server { return s.Master() },
		url:      func(int) string { return s.URL() },
		steady:   func() { s.AwaitReplicas(1) },
	}
	g.addCommon()
	g.addNetwork(s.Network, true)
	g.faults = append(g.faults,
		fault{"failover", 3, false, func(testing.TB, *rand.Rand, int) { s.Failover() }},
		fault{"master killed", 3, false, func(testing.TB, *rand.Rand, int) {
			old := s.Master()
			old.Kill()
			s.AwaitMaster(old)
			old.Restart()
			s.AwaitReplicas(1)
		}},
	)
	return g
}

// cluster is a cluster of three masters with a replica each.
func cluster(tb testing.TB) *rig {
	c := redistest.StartCluster(tb, redistest.WithPartitions())
	g := &rig{
		replicas: 1,
		nodes:    c.Nodes(),
		masters:  c.Masters,
		master:   c.MasterOf,
		url:      func(int) string { return c.URL() },
	}
	g.steady = func() {
		for _, m := range c.Masters() {
			c.AwaitReplicas(m, 1)
		}
	}
	g.addCommon()
	g.addNetwork(c.Network, false)
	g.faults = append(g.faults,
		fault{"failover", 3, false, func(tb testing.TB, r *rand.Rand, _ int) {
			masters := c.Masters()
			master := masters[r.IntN(len(masters))]
			c.Failover(c.ReplicasOf(master)[0])
		}},
		fault{"master killed", 2, false, func(tb testing.TB, r *rand.Rand, _ int) {
			masters := c.Masters()
			old := masters[r.IntN(len(masters))]
			old.Kill()
			master, _ := c.AwaitFailover(old)
			old.Restart()
			c.AwaitReplicas(master, 1)
		}},
	)
	for _, move := range c.Migrations() {
		g.faults = append(g.faults, fault{"slot moved", 3, false, func(tb testing.TB, r *rand.Rand, _ int) {
			names := lockNames(g.round)
			slot := redistest.SlotOf(names[r.IntN(len(names))])
			from, masters := c.MasterOfSlot(slot), c.Masters()
			to := masters[r.IntN(len(masters))]
			for to == from {
				to = masters[r.IntN(len(masters))]
			}
			move(slot, to)
			c.AwaitReplicas(to, 1)
		}})
	}
	return g
}

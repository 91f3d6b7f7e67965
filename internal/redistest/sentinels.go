package redistest

import (
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// masterName is what the Sentinels call the master.
const masterName = "holdfast"

// downAfter is how long a server may be silent, in milliseconds. Half a second
// is less than a busy machine needs for a ping now and then.
const downAfter = "1000"

// impatience makes a Sentinel ask and tell more often than every few seconds,
// in milliseconds. Pings must be much more frequent than downAfter, or a master
// is taken for dead right after its promotion, but five of them must last
// longer than a second, or no replica is known well enough to be promoted. One
// that was kept from working for two seconds does nothing for a while, which is
// long enough to ask everybody again.
var impatience = []string{"SENTINEL", "DEBUG", "ping-period", "400", "info-period", "500", "publish-period", "500", "tilt-period", "3000"}

// Sentinels is a master with replicas, and three Sentinels that watch it. Two
// of them must agree that the master is gone, which takes them a second, and a
// failover about two and a half.
type Sentinels struct {
	*topology
	nodes     []*Server
	sentinels []*Server
}

// StartSentinels starts a master, two replicas and three Sentinels, and waits
// until they all know each other.
func StartSentinels(tb testing.TB, opts ...Option) *Sentinels {
	tb.Helper()
	s := &Sentinels{topology: newTopology(tb, append([]Option{WithReplicas(2)}, opts...))}
	s.nodes = s.startReplicas(s.replicas)
	s.sentinels = s.start([]spec{s.watcher(s.nodes[0]), s.watcher(s.nodes[0]), s.watcher(s.nodes[0])})
	s.AwaitReplicas(s.replicas)
	awaitThat(tb, "all Sentinels know each other and the replicas", s.complete)
	if !s.patient {
		for _, w := range s.sentinels {
			w.Do(tb, "SENTINEL", "SET", masterName, "down-after-milliseconds", downAfter)
		}
	}
	return s
}

// Redeploy kills some of the Sentinels, by their index, starts new ones in
// their places, at new addresses, and waits until all that run know each other.
// The new ones know nothing of earlier failovers but what the rest tells them.
func (s *Sentinels) Redeploy(which ...int) {
	s.tb.Helper()
	master := s.Master()
	var specs []spec
	for _, i := range which {
		s.sentinels[i].Kill()
		specs = append(specs, s.watcher(master))
	}
	for i, w := range s.start(specs) {
		s.sentinels[which[i]] = w
	}
	awaitThat(s.tb, "all Sentinels know each other", s.acquainted)
	for _, i := range which {
		s.sentinels[i].Do(s.tb, "SENTINEL", "SET", masterName, "down-after-milliseconds", downAfter)
	}
	awaitThat(s.tb, "the Sentinels know the replicas", func() bool { return s.see(s.sentinels) })
}

// acquainted reports whether every Sentinel lists all others.
func (s *Sentinels) acquainted() bool {
	for _, w := range s.sentinels {
		reply, _ := w.Try("SENTINEL", "SENTINELS", masterName)
		list, _ := reply.([]any)
		listed := make(map[string]bool)
		for _, e := range list {
			peer := pairs(e, nil)
			listed[net.JoinHostPort(peer["ip"], peer["port"])] = true
		}
		for _, other := range s.sentinels {
			if other != w && !listed[other.Addr()] {
				return false
			}
		}
	}
	return true
}

// watcher returns the spec of a Sentinel.
func (s *Sentinels) watcher(master *Server) spec {
	host, front := s.settle()
	sp := spec{host: host, front: front, tls: s.files, sentinel: true, greeting: impatience}
	set := func(words ...string) { sp.args = append(append(sp.args, "--sentinel"), words...) }
	if front != host {
		set("announce-ip", front)
	}
	set("monitor", masterName, master.front, strconv.Itoa(master.port), "2")
	set("down-after-milliseconds", masterName, patience) // until all know each other
	set("failover-timeout", masterName, "3000")
	set("parallel-syncs", masterName, "2")
	if s.password != "" {
		set("auth-pass", masterName, s.password)
	}
	if s.sentinelPass == "" {
		return sp
	}
	set("sentinel-pass", s.sentinelPass)
	sp.keeper = url.UserPassword(s.sentinelUser, s.sentinelPass)
	if s.sentinelUser == "" {
		sp.args = append(sp.args, "--requirepass", s.sentinelPass)
		return sp
	}
	set("sentinel-user", s.sentinelUser)
	sp.args = append(sp.args, "--user", s.sentinelUser, "on", ">"+s.sentinelPass, "~*", "&*", "+@all", "--user", "default", "off")
	return sp
}

// complete reports whether every Sentinel knows of all others and nothing is
// going on, and has seen every replica that runs as one. A Sentinel that has
// not would take the next master for a replica gone astray.
func (s *Sentinels) complete() bool {
	for _, w := range running(s.sentinels) {
		master := pairs(w.Try("SENTINEL", "MASTER", masterName))
		known, _ := strconv.Atoi(master["num-other-sentinels"]) // also those that Redeploy has killed
		if known < len(s.sentinels)-1 {
			return false
		}
	}
	return s.see(running(s.sentinels))
}

// see reports whether Sentinels know the master and all replicas that run, and
// nothing is going on.
func (s *Sentinels) see(watchers []*Server) bool {
	for _, w := range watchers {
		if pairs(w.Try("SENTINEL", "MASTER", masterName))["flags"] != "master" {
			return false
		}
		reply, _ := w.Try("SENTINEL", "REPLICAS", masterName)
		replicas, _ := reply.([]any)
		well := 0
		for _, r := range replicas {
			view := pairs(r, nil)
			if view["flags"] == "slave" && view["role-reported"] == "slave" && view["master-link-status"] == "ok" {
				well++
			}
		}
		if well < len(running(s.nodes))-1 {
			return false
		}
	}
	return true
}

// URL returns the address of the Sentinels for clients.
func (s *Sentinels) URL() string {
	query := url.Values{"master_name": {masterName}}
	if s.sentinelPass != "" {
		query.Set("sentinel_password", s.sentinelPass)
	}
	if s.sentinelUser != "" {
		query.Set("sentinel_username", s.sentinelUser)
	}
	return s.nodes[0].url("redis-sentinel", "/0", query, s.sentinels...)
}

// MasterName returns what the Sentinels call the master.
func (s *Sentinels) MasterName() string { return masterName }

// Nodes returns the servers that hold data, the one that began as master first.
func (s *Sentinels) Nodes() []*Server { return s.nodes }

// Sentinels returns the processes that watch.
func (s *Sentinels) Sentinels() []*Server { return s.sentinels }

// Addrs returns the hosts and ports of the Sentinels.
func (s *Sentinels) Addrs() []string {
	var addrs []string
	for _, w := range s.sentinels {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// Master returns the server that most of the running Sentinels call the master
// and that says so itself. It waits until there is one.
func (s *Sentinels) Master() *Server {
	s.tb.Helper()
	master, _ := s.AwaitMaster(nil)
	return master
}

// Replicas returns the servers that hold data and are not the master.
func (s *Sentinels) Replicas() []*Server {
	s.tb.Helper()
	return others(s.nodes, s.Master())
}

// AwaitMaster waits until [Sentinels.Master] is another server than old, and returns it with the time that took.
func (s *Sentinels) AwaitMaster(old *Server) (*Server, time.Duration) {
	s.tb.Helper()
	var master *Server
	took := awaitThat(s.tb, "another master", func() bool {
		master = s.agreed()
		return master != nil && master != old
	})
	return master, took
}

// agreed returns the master that most of the running Sentinels name, or nil.
// One that is cut off does not know what the others have decided.
func (s *Sentinels) agreed() *Server {
	watchers := running(s.sentinels)
	votes := make(map[*Server]int)
	for _, w := range watchers {
		votes[s.named(w)]++
	}
	for master, n := range votes {
		if 2*n > len(watchers) && master != nil && master.role() == "master" {
			return master
		}
	}
	return nil
}

// named returns the server that a Sentinel calls the master, or nil.
func (s *Sentinels) named(w *Server) *Server {
	reply, _ := w.Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	words, _ := toStrings(reply)
	if len(words) != 2 {
		return nil
	}
	return byAddr(s.nodes, net.JoinHostPort(words[0], words[1]))
}

// AwaitReplicas waits until n replicas follow the master and have its data.
func (s *Sentinels) AwaitReplicas(n int) time.Duration {
	s.tb.Helper()
	return awaitReplicas(s.tb, n, s.nodes, s.agreed)
}

// Failover has the Sentinels promote a replica while the master is well, and
// waits until the new master serves and all others that run follow it.
func (s *Sentinels) Failover() *Server {
	s.tb.Helper()
	old := s.Master()
	leader := running(s.sentinels)[0]
	var master *Server
	var last time.Time // when a failover was begun
	awaitThat(s.tb, "the failover", func() bool {
		// Refused while a failover is going on, or no replica is fit. Once begun it
		// is not asked for again before it was given up: right after its end that
		// would be the next one.
		if time.Since(last) > 4*time.Second && s.named(leader) == old {
			if _, err := leader.Try("SENTINEL", "FAILOVER", masterName); err == nil {
				last = time.Now()
			}
		}
		master = s.agreed()
		return master != nil && master != old
	})
	s.AwaitReplicas(len(running(s.nodes)) - 1)
	awaitThat(s.tb, "the end of the failover", s.complete)
	return master
}

// pairs turns a reply of names and values into a map.
func pairs(reply any, _ error) map[string]string {
	words, _ := toStrings(reply)
	m := make(map[string]string)
	for i := 0; i+1 < len(words); i += 2 {
		m[words[i]] = words[i+1]
	}
	return m
}

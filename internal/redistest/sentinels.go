package redistest

import (
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// masterName is the name of the master at the Sentinels.
const masterName = "holdfast"

// downAfter returns how long a server may not answer, in milliseconds, before it
// counts as failed. On a busy machine a ping may take half a second. Without
// [sentinelTimings], Sentinels send a ping per second.
func downAfter() string {
	if sinceSeven() {
		return "1000"
	}
	return "3000"
}

// sentinelTimings are intervals of a Sentinel in milliseconds, shorter than the
// defaults of some seconds. The ping interval must be much shorter than
// downAfter, or a master counts as failed right after its promotion. Five ping
// intervals must be longer than a second, or no replica qualifies for promotion.
// A Sentinel that did not run for two seconds pauses for a while, long enough to
// ask all servers again. Servers before 7.0 cannot change these intervals: a
// failover takes up to 20 s longer there.
var sentinelTimings = []string{"SENTINEL", "DEBUG", "ping-period", "400", "info-period", "500", "publish-period", "500", "tilt-period", "3000"}

// Sentinels is a master with replicas, and three Sentinels that monitor it. Two
// of them must agree that the master has failed, which takes a second. A
// failover takes about 2.5 s.
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
	s.sentinels = s.start([]spec{s.sentinelSpec(s.nodes[0]), s.sentinelSpec(s.nodes[0]), s.sentinelSpec(s.nodes[0])})
	s.AwaitReplicas(s.replicas)
	awaitThat(tb, "all Sentinels know each other and the replicas", s.complete)
	if !s.patient {
		for _, w := range s.sentinels {
			w.Do(tb, "SENTINEL", "SET", masterName, "down-after-milliseconds", downAfter())
		}
	}
	return s
}

// Redeploy kills some of the Sentinels, by their index, and starts new ones at
// new addresses in their place. It waits until all running ones know each other.
// The new ones learn of earlier failovers only from the remaining ones.
func (s *Sentinels) Redeploy(which ...int) {
	s.tb.Helper()
	master := s.Master()
	var specs []spec
	for _, i := range which {
		s.sentinels[i].Kill()
		specs = append(specs, s.sentinelSpec(master))
	}
	for i, w := range s.start(specs) {
		s.sentinels[which[i]] = w
	}
	awaitThat(s.tb, "all Sentinels know each other", s.allListed)
	for _, i := range which {
		s.sentinels[i].Do(s.tb, "SENTINEL", "SET", masterName, "down-after-milliseconds", downAfter())
	}
	awaitThat(s.tb, "the Sentinels know the replicas", func() bool { return s.see(s.sentinels) })
}

// allListed reports whether every Sentinel lists all others.
func (s *Sentinels) allListed() bool {
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

// sentinelSpec returns the spec of a Sentinel.
func (s *Sentinels) sentinelSpec(master *Server) spec {
	host, front := s.newAddress()
	sp := spec{host: host, front: front, tls: s.files, sentinel: true}
	if sinceSeven() {
		sp.initCommand = sentinelTimings
	}
	set := func(words ...string) { sp.args = append(append(sp.args, "--sentinel"), words...) }
	if front != host {
		set("announce-ip", front)
	}
	set("monitor", masterName, master.front, strconv.Itoa(master.port), "2")
	set("down-after-milliseconds", masterName, silenceLimit) // until all know each other
	set("failover-timeout", masterName, "3000")
	set("parallel-syncs", masterName, "2")
	if s.password != "" {
		set("auth-pass", masterName, s.password)
	}
	if s.sentinelPass == "" {
		return sp
	}
	set("sentinel-pass", s.sentinelPass)
	sp.testLogin = url.UserPassword(s.sentinelUser, s.sentinelPass)
	if s.sentinelUser == "" {
		sp.args = append(sp.args, "--requirepass", s.sentinelPass)
		return sp
	}
	set("sentinel-user", s.sentinelUser)
	sp.args = append(sp.args, "--user", s.sentinelUser, "on", ">"+s.sentinelPass, "~*", "&*", "+@all", "--user", "default", "off")
	return sp
}

// complete reports whether every Sentinel knows all others and all running
// replicas, and no failover is in progress. A Sentinel that does not know a
// replica would later take it, as a master, for a misconfigured replica.
func (s *Sentinels) complete() bool {
	for _, w := range running(s.sentinels) {
		master := pairs(w.Try("SENTINEL", "MASTER", masterName))
		known, _ := strconv.Atoi(master["num-other-sentinels"]) // includes those that Redeploy has killed
		if known < len(s.sentinels)-1 {
			return false
		}
	}
	return s.see(running(s.sentinels))
}

// see reports whether Sentinels know the master and all running replicas, and no
// failover is in progress.
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

// MasterName returns the name of the master at the Sentinels.
func (s *Sentinels) MasterName() string { return masterName }

// Nodes returns the data servers, the initial master first.
func (s *Sentinels) Nodes() []*Server { return s.nodes }

// Sentinels returns the Sentinel processes.
func (s *Sentinels) Sentinels() []*Server { return s.sentinels }

// Addrs returns the hosts and ports of the Sentinels.
func (s *Sentinels) Addrs() []string {
	var addrs []string
	for _, w := range s.sentinels {
		addrs = append(addrs, w.Addr())
	}
	return addrs
}

// Master returns the server that most of the running Sentinels report as the
// master and that has this role. It waits until there is one.
func (s *Sentinels) Master() *Server {
	s.tb.Helper()
	master, _ := s.AwaitMaster(nil)
	return master
}

// Replicas returns the data servers other than the master.
func (s *Sentinels) Replicas() []*Server {
	s.tb.Helper()
	return others(s.nodes, s.Master())
}

// AwaitMaster waits until [Sentinels.Master] is another server than old. It
// returns that server and the time that this took.
func (s *Sentinels) AwaitMaster(old *Server) (*Server, time.Duration) {
	s.tb.Helper()
	var master *Server
	took := awaitThat(s.tb, "another master", func() bool {
		master = s.agreed()
		return master != nil && master != old
	})
	return master, took
}

// agreed returns the master that most of the running Sentinels report, or nil. A
// partitioned Sentinel does not know what the others have decided.
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

// named returns the server that a Sentinel reports as the master, or nil.
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

// Failover makes the Sentinels promote a replica although the master works. It
// waits until the new master serves and all other running servers follow it.
func (s *Sentinels) Failover() *Server {
	s.tb.Helper()
	old := s.Master()
	leader := running(s.sentinels)[0]
	var master *Server
	var last time.Time // when a failover was begun
	awaitThat(s.tb, "the failover", func() bool {
		// The command is refused while a failover is in progress, and while no
		// replica qualifies. Once a failover has begun, the command is not repeated
		// until that failover has certainly been abandoned. Otherwise it could start
		// a second failover right after the first.
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

// pairs converts a reply of names and values to a map.
func pairs(reply any, _ error) map[string]string {
	words, _ := toStrings(reply)
	m := make(map[string]string)
	for i := 0; i+1 < len(words); i += 2 {
		m[words[i]] = words[i+1]
	}
	return m
}

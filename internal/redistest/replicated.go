package redistest

import (
	"strconv"
	"testing"
	"time"
)

// Replicated is a master with replicas, without Sentinels.
type Replicated struct {
	*topology
	nodes []*Server
}

// StartReplicated starts a master and the given number of replicas, and waits
// until they have its data.
func StartReplicated(tb testing.TB, replicas int, opts ...Option) *Replicated {
	tb.Helper()
	r := &Replicated{topology: newTopology(tb, opts)}
	r.nodes = r.startReplicas(replicas)
	r.AwaitReplicas(replicas)
	return r
}

// startReplicas starts a master and replicas of it.
func (t *topology) startReplicas(n int) []*Server {
	t.tb.Helper()
	master := t.start([]spec{t.member()})
	var specs []spec
	for range n {
		specs = append(specs, t.member("--replicaof", master[0].front, strconv.Itoa(master[0].port)))
	}
	return append(master, t.start(specs)...)
}

// Nodes returns all servers, the initial master first.
func (r *Replicated) Nodes() []*Server { return r.nodes }

// Master returns the server that is the master now. The test fails if there is
// none.
func (r *Replicated) Master() *Server {
	r.tb.Helper()
	master := r.master()
	if master == nil {
		r.tb.Fatal("redistest: none of the servers is a master")
	}
	return master
}

// master returns the first server that reports to be a master, or nil.
func (r *Replicated) master() *Server {
	for _, s := range r.nodes {
		if s.role() == "master" {
			return s
		}
	}
	return nil
}

// Replicas returns the servers that are not the master.
func (r *Replicated) Replicas() []*Server {
	r.tb.Helper()
	return others(r.nodes, r.Master())
}

// AwaitReplicas waits until n replicas follow the master and have its data.
func (r *Replicated) AwaitReplicas(n int) time.Duration {
	r.tb.Helper()
	return awaitReplicas(r.tb, n, r.nodes, r.master)
}

// URL returns the address of the master.
func (r *Replicated) URL() string {
	r.tb.Helper()
	return r.Master().URL()
}

// others returns all but one of the servers.
func others(servers []*Server, one *Server) []*Server {
	var rest []*Server
	for _, s := range servers {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

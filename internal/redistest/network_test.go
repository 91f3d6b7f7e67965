package redistest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

type side = redistest.Side

func TestNetworkLeavesNothing(t *testing.T) {
	redistest.CheckGoroutines(t)
	r := redistest.StartReplicated(t, 1, redistest.WithPartitions())
	dial(t, r.Master().Addr()).call("PONG", "PING")
	r.Isolate(r.Master())
	dial(t, r.Master().Addr()).send("PING")
}

func TestPartitionOfReplica(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 2, redistest.WithPartitions())
	master, a, b := r.Nodes()[0], r.Nodes()[1], r.Nodes()[2]
	r.Partition(side{master}, side{a})
	master.Do(t, "SET", "k", "v")
	wantAcks(t, master, 1)
	if got := b.Do(t, "GET", "k"); got != "v" {
		t.Errorf("the replica that is not cut has %v", got)
	}
	if got := a.Do(t, "GET", "k"); got != nil {
		t.Errorf("the replica that is cut has %v", got)
	}
	r.Heal()
	wantAcks(t, master, 2)

	// The way back only: the replica has the write and the master does not know.
	r.Silence(a, master)
	master.Do(t, "SET", "k", "w")
	wantAcks(t, master, 1)
	eventually(t, "the write arrives", func() bool { return a.Do(t, "GET", "k") == "w" })
	r.Heal()

	r.Refuse(side{master}, side{a})
	eventually(t, "the replica has lost its master", func() bool {
		return strings.Contains(a.Do(t, "INFO", "replication").(string), "master_link_status:down")
	})
	r.Heal()
	r.AwaitReplicas(2)
}

// wantAcks checks how many replicas acknowledge the last write.
func wantAcks(t *testing.T, master *redistest.Server, want int) {
	t.Helper()
	eventually(t, "replicas acknowledge", func() bool { return master.Int(t, "WAIT", strconv.Itoa(want), "5000") >= int64(want) })
	if n := master.Int(t, "WAIT", strconv.Itoa(want+1), "300"); n != int64(want) {
		t.Errorf("%d replicas have acknowledged, want %d", n, want)
	}
}

func TestPartitionOfClients(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1, redistest.WithPartitions())
	master := r.Master()
	before := dial(t, master.Addr())
	before.call("OK", "SET", "k", "v")

	r.Partition(side{redistest.Clients}, side{master})
	before.send("INCR", "before")
	after := dial(t, master.Addr())
	after.send("INCR", "after")
	before.wantSilence()
	after.wantSilence()
	master.Do(t, "SET", "k", "w")
	wantAcks(t, master, 1)
	if n := master.Int(t, "EXISTS", "before"); n != 0 {
		t.Error("a command passed the partition")
	}
	r.Heal()
	before.want(int64(1))
	after.wantEnd()
	if n := master.Int(t, "EXISTS", "after"); n != 0 {
		t.Error("a command arrived from a connection that was never made")
	}

	r.Refuse(side{redistest.Clients}, side{master})
	before.wantEnd()
	wantRefused(t, master.Addr())
	dial(t, r.Replicas()[0].Addr()).call("PONG", "PING")
	r.Heal()
	dial(t, master.Addr()).call("PONG", "PING")
}

// A master that the Sentinels do not see goes on serving clients that do.
func TestPartitionOfSentinelMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.WithPartitions())
	old := s.Master()
	client := dial(t, old.Addr())
	s.Partition(side{old}, s.Others(old))
	master, took := s.AwaitMaster(old)
	t.Logf("replaced after %v", took)
	client.call("OK", "SET", "k", "old")
	dial(t, master.Addr()).call("OK", "SET", "k", "new")
	s.AwaitReplicas(1)
	s.Heal()
	t.Logf("the old master follows after %v", s.AwaitReplicas(2))
	if got := old.Do(t, "GET", "k"); got != "new" {
		t.Errorf("the old master has %v", got)
	}
}

// Sentinels that do not see each other agree on nothing.
func TestPartitionOfSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.WithPartitions())
	old, w := s.Master(), s.Sentinels()
	s.Partition(side{w[0]}, side{w[1], w[2]})
	s.Partition(side{w[1]}, side{w[2]})
	old.Kill()
	eventually(t, "each Sentinel alone misses the master", func() bool {
		return !slices.ContainsFunc(w, func(w *redistest.Server) bool {
			view := w.Strings(t, "SENTINEL", "MASTER", s.MasterName())
			return !strings.Contains(view[slices.Index(view, "flags")+1], "s_down")
		})
	})
	for _, replica := range s.Nodes()[1:] {
		if got := replica.Do(t, "ROLE").([]any)[0]; got != "slave" {
			t.Errorf("a Sentinel alone made a replica %v", got)
		}
	}
	s.Heal()
	s.AwaitMaster(old)
}

func TestPartitionOfClusterMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithPartitions())
	old := c.MasterOf("k")
	client := dial(t, old.Addr())
	client.call("OK", "SET", "k", "v")
	client.call(int64(1), "WAIT", "1", "15000") // or it may be lost with the master
	c.Partition(side{old}, c.Others(old))
	master, took := c.AwaitFailover(old)
	t.Logf("replaced after %v", took)
	if c.MasterOf("k") != master {
		t.Error("the master that was elected last does not win")
	}
	eventually(t, "the old master notices that it is alone", func() bool {
		_, err := old.Try("GET", "k")
		return err != nil && err.Error() == "CLUSTERDOWN The cluster is down"
	})
	client.call("CLUSTERDOWN The cluster is down", "GET", "k")
	dial(t, master.Addr()).call("v", "GET", "k")
	c.Heal()
	c.AwaitReplicas(master, 1)

	c.Isolate(master)
	client = dial(t, master.Addr())
	client.send("PING")
	if again, _ := c.AwaitFailover(master); again != old {
		t.Error("the first master is not back")
	}
	client.wantSilence()
}

package redistest_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestSlotOf(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--cluster-enabled", "yes")
	for _, k := range []string{"", "a", "foo", "123456789", "{user}x", "x{user}y", "{}x", "{", "}{", "a{b}{c}", "a}b{c", "\x00\xff", "ключ"} {
		if want := s.Int(t, "CLUSTER", "KEYSLOT", k); int64(redistest.SlotOf(k)) != want {
			t.Errorf("slot of %q is %d, want %d", k, redistest.SlotOf(k), want)
		}
	}
}

func TestClusterReplacesKilledMaster(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	c := redistest.StartCluster(t)
	t.Logf("ready after %v", time.Since(begin))
	if len(c.Masters()) != 3 || len(c.Nodes()) != 6 {
		t.Fatalf("%d masters of %d nodes", len(c.Masters()), len(c.Nodes()))
	}
	old := c.MasterOf("k")
	replica := c.ReplicasOf(old)[0]
	old.Do(t, "SET", "k", "v")
	if _, err := others(c.Masters(), old)[0].Try("GET", "k"); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		t.Errorf("another master: %v, want MOVED", err)
	}
	old.Do(t, "WAIT", "1", "5000")
	old.Kill()
	master, took := c.AwaitFailover(old)
	t.Logf("replaced after %v", took)
	if master != replica || c.MasterOf("k") != replica {
		t.Error("the replica has not taken over")
	}
	if got := master.Do(t, "GET", "k"); got != "v" {
		t.Errorf("the new master has %v", got)
	}
	old.Restart()
	t.Logf("the old master follows after %v", c.AwaitReplicas(master, 1))
	if got := c.ReplicasOf(master); !slices.Equal(got, []*redistest.Server{old}) {
		t.Errorf("replicas %v, want the old master", got)
	}

	begin = time.Now()
	c.Failover(old)
	t.Logf("planned failover took %v", time.Since(begin))
	if c.MasterOf("k") != old {
		t.Error("the planned failover did not change the master")
	}
	if got := old.Do(t, "GET", "k"); got != "v" {
		t.Errorf("after the planned failover: %v", got)
	}
}

func others(servers []*redistest.Server, one *redistest.Server) []*redistest.Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *redistest.Server) bool { return s == one })
}

func TestClusterMigration(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithPassword("secret"))
	from := c.MasterOf("{k}")
	to := others(c.Masters(), from)[0]
	slot := redistest.SlotOf("{k}")
	from.Do(t, "MSET", "{k}1", "a", "{k}2", "b", "{k}3", "c")

	c.BeginMigration(slot, to).Cancel()
	m := c.BeginMigration(slot, to)
	m.Move("{k}1")
	if _, err := from.Try("GET", "{k}1"); err == nil || !strings.HasPrefix(err.Error(), "ASK ") || !strings.HasSuffix(err.Error(), to.Addr()) {
		t.Errorf("a key that has moved: %v, want ASK", err)
	}
	if got := from.Do(t, "GET", "{k}2"); got != "b" {
		t.Errorf("a key that has not moved: %v", got)
	}
	_, err := from.Try("MGET", "{k}1", "{k}2")
	if err != nil && strings.HasPrefix(err.Error(), "ASK ") { // before 7.0, only the other node knows that it lacks keys
		to.Do(t, "ASKING")
		_, err = to.Try("MGET", "{k}1", "{k}2")
	}
	if err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN ") {
		t.Errorf("keys here and there: %v, want TRYAGAIN", err)
	}
	if n := m.MoveSome(1); n != 1 {
		t.Errorf("%d keys moved, want 1", n)
	}
	m.Finish()
	if c.MasterOf("{k}") != to {
		t.Error("the slot has not moved")
	}
	if got := to.Strings(t, "MGET", "{k}1", "{k}2", "{k}3"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("keys %q", got)
	}
	if _, err := from.Try("GET", "{k}1"); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		t.Errorf("the old node: %v, want MOVED", err)
	}
	c.Migrate(slot, from)
	if got := from.Do(t, "GET", "{k}3"); got != "c" {
		t.Errorf("moved back: %v", got)
	}
}

func TestClusterAtomicMigration(t *testing.T) {
	t.Parallel()
	redistest.NeedAtomicMigration(t)
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithPassword("secret"))
	from := c.MasterOf("{k}")
	to := others(c.Masters(), from)[0]
	slot := redistest.SlotOf("{k}")
	from.Do(t, "MSET", "{k}1", "a", "{k}2", "b")
	begin := func() *redistest.AtomicMigration {
		m := c.BeginAtomicMigration(slot, to)
		from.Do(t, "APPEND", "{k}1", "+")
		if _, err := to.Try("GET", "{k}1"); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
			t.Errorf("the new node before the end: %v, want MOVED", err)
		}
		return m
	}
	begin().Cancel()
	begin().Fail()
	m := begin()
	m.BlockWrites()
	client := dial(t, from.Addr())
	client.call("OK", "AUTH", "secret")
	client.send("APPEND", "{k}2", "+")
	if _, value, err := client.read(300 * time.Millisecond); err == nil {
		t.Errorf("a write at the end of the migration: %v", value)
	}
	m.Finish()
	if _, value, err := client.read(replyTimeout); err != nil || !strings.HasPrefix(fmt.Sprint(value), "MOVED ") {
		t.Errorf("a blocked write: %v, %v, want MOVED", value, err)
	}
	if got := to.Strings(t, "MGET", "{k}1", "{k}2"); !slices.Equal(got, []string{"a+++", "b"}) {
		t.Errorf("keys %q", got)
	}
	if c.MasterOf("{k}") != to {
		t.Error("the slot has not moved")
	}
}

// A node that comes back is who it was, with its data or without.
func TestClusterIdentity(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithUser("app", "p", "~app:*", "+@all"),
		redistest.Args("--appendonly", "yes", "--cluster-require-full-coverage", "no"))
	if !strings.HasPrefix(c.URL(), "redis-cluster://app:p@127.") || strings.Count(c.URL(), ",") != 2 {
		t.Error(c.URL())
	}
	for _, s := range c.Nodes() {
		client := dial(t, s.Addr())
		client.call("OK", "AUTH", "app", "p")
		client.send("GET", "k")
		if _, value, err := client.read(replyTimeout); err != nil || !strings.HasPrefix(value.(error).Error(), "NOPERM") {
			t.Errorf("a key that the user may not read: %v, %v", value, err)
		}
	}
	s := c.MasterOf("k")
	s.Do(t, "SET", "k", "v")
	id := s.Do(t, "CLUSTER", "MYID")
	s.RestartWithData()
	if got := s.Do(t, "CLUSTER", "MYID"); got != id {
		t.Errorf("id %v, want %v", got, id)
	}
	if c.MasterOf("k") != s {
		t.Error("the slots are gone")
	}
	eventually(t, "it serves its data", func() bool {
		got, _ := s.Try("GET", "k")
		return got == "v"
	})

	s.Restart()
	if got := s.Do(t, "CLUSTER", "MYID"); got != id {
		t.Errorf("without data: id %v, want %v", got, id)
	}
	eventually(t, "it serves no data", func() bool {
		got, err := s.Try("GET", "k")
		return got == nil && err == nil
	})

	// Without full coverage the others go on without it.
	other := others(c.Masters(), s)[0]
	key := "a"
	for c.MasterOf(key) != other {
		key += "a"
	}
	s.Kill()
	c.Watchful()
	eventually(t, "the dead node is noticed", func() bool {
		return strings.Contains(other.Do(t, "CLUSTER", "NODES").(string), " master,fail ")
	})
	eventually(t, "the others go on", func() bool { // the third may be missed for a moment, too
		_, err := other.Try("SET", key, "v")
		return err == nil
	})
}

// A replica can be promoted over the head of a master that does not answer.
func TestClusterTakeover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	for _, mode := range []string{"FORCE", "TAKEOVER"} {
		old := c.MasterOf("k")
		replica := c.ReplicasOf(old)[0]
		old.Pause()
		c.Failover(replica, mode)
		if c.MasterOf("k") != replica {
			t.Errorf("%s: the replica is not the master", mode)
		}
		old.Resume()
		c.AwaitReplicas(replica, 1)
	}
}

// Valkey 8.1 does not start with a file in which a replica and its master have different
// shards. It writes one itself if it is killed during a failover.
func TestRestartWithOtherShard(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	replica := c.Nodes()[3]
	replica.Kill()
	text, err := os.ReadFile(replica.NodesFile())
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`,shard-id=\w{8}(.* myself)`).ReplaceAll(text, []byte(",shard-id=00000000$1"))
	if bytes.Equal(changed, text) {
		t.Skip("this server writes no shards")
	}
	if err := os.WriteFile(replica.NodesFile(), changed, 0o600); err != nil {
		t.Fatal(err)
	}
	replica.Restart()
	c.AwaitReplicas(c.Nodes()[0], 1)
}

package redistest_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestReplicated(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 2)
	master := r.Master()
	if master != r.Nodes()[0] || len(r.Replicas()) != 2 {
		t.Fatal("the first server is not the master of two")
	}
	master.Do(t, "SET", "k", "v")
	if n := master.Int(t, "WAIT", "2", "5000"); n != 2 {
		t.Errorf("%d replicas have the key, want 2", n)
	}
	replica := r.Replicas()[0]
	replica.Restart()
	r.AwaitReplicas(2)
	if got := replica.Do(t, "GET", "k"); got != "v" {
		t.Errorf("a restarted replica has %v", got)
	}
}

func TestSentinelsReplaceKilledMaster(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := redistest.StartSentinels(t)
	t.Logf("ready after %v", time.Since(begin))
	old := s.Master()
	old.Do(t, "SET", "k", "v")
	old.Do(t, "WAIT", "2", "5000")
	old.Kill()
	master, took := s.AwaitMaster(old)
	t.Logf("replaced after %v", took)
	if got := master.Do(t, "GET", "k"); got != "v" {
		t.Errorf("the new master has %v", got)
	}
	t.Logf("one replica after %v", s.AwaitReplicas(1))
	old.Restart()
	t.Logf("old master follows after %v", s.AwaitReplicas(2))
	if s.Master() != master {
		t.Error("another one is master")
	}
	watcher := s.Sentinels()[0]
	watcher.Restart()
	watcher.Kill()
	if s.Master() != master {
		t.Error("another one is master for two Sentinels")
	}
}

func TestSentinelsReplacePausedMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.WithPassword("secret"), redistest.WithSentinelPassword("watcher", "hush"))
	for _, node := range s.Nodes() {
		dial(t, node.Addr()).call("NOAUTH Authentication required.", "PING")
	}
	dial(t, s.Addrs()[0]).call("OK", "AUTH", "watcher", "hush")
	old := s.Master()
	old.Pause()
	_, took := s.AwaitMaster(old)
	t.Logf("replaced after %v", took)
	old.Resume()
	t.Logf("old master follows after %v", s.AwaitReplicas(2))
}

func TestSentinelsPlannedFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.WithUser("app", "p"), redistest.WithSentinelPassword("", "hush"))
	for range 2 {
		old := s.Master()
		begin := time.Now()
		if s.Failover() == old {
			t.Error("nothing changed")
		}
		t.Logf("failover took %v", time.Since(begin))
	}
	u, err := url.Parse(s.URL())
	if err != nil || u.Scheme != "redis-sentinel" || u.User.String() != "app:p" || u.Host != strings.Join(s.Addrs(), ",") {
		t.Errorf("URL %v, %v", u, err)
	}
	if q := u.Query(); q.Get("master_name") != s.MasterName() || q.Get("sentinel_password") != "hush" || q.Has("sentinel_username") {
		t.Errorf("query %v", q)
	}
	dial(t, s.Addrs()[0]).call("NOAUTH Authentication required.", "PING")
	for _, node := range s.Nodes() {
		dial(t, node.Addr()).call("OK", "AUTH", "app", "p")
	}
}

package interop_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A planned failover while both sides hold locks and wait for locks. The locks are renewed
// and handed over on the new master. Then all clients take turns again.
func TestSentinelFleet(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	config := interop.Sentinel(s.MasterName(), s.Addrs()...).With("lockWatchdogTimeout", fleetLease.Milliseconds())
	golang := open(t, s.URL(), holdfast.Options{WatchdogTimeout: fleetLease})
	java := map[string]*redisson{"current": join(t, peer(t, interop.Current), config), "era": join(t, peer(t, interop.Era), config)}

	turns := func(t *testing.T) {
		for _, k := range []string{"mutex", "fair", "write"} {
			n := name(t)
			parties := count(newGo(golang, kindOf(k), n))
			for id, r := range java {
				parties = append(parties, count(newJava(t, r, kindOf(k), n, n+id))...)
			}
			t.Log(k, takeTurns(t, n, parties, func(parties []*counted) { awaitVisits(parties, 5, 50) }))
		}
	}
	turns(t)
	var all []*handover
	for id, r := range java {
		all = append(all, handovers(t, id, "sentinel", r, golang)...)
	}
	beginAll(t, s.Nodes(), all)
	old := s.Master()
	old.Do(t, "SET", name(t), "all before is older")
	if n := old.Int(t, "WAIT", "2", "15000"); n != 2 { // otherwise the data may be lost with the master
		t.Fatalf("%d replicas have the held locks, want 2", n)
	}
	s.Failover()
	master := s.Master()
	locktest.Eventually(t, time.Minute, "all subscribe to the new master", func() bool {
		heard := listening(t, master)
		for _, h := range all {
			if !heard[h.name] {
				return false
			}
		}
		return true
	})
	locktest.Eventually(t, 2*fleetLease, "all are renewed there", func() bool {
		for _, h := range all {
			if h.looks && master.Int(t, "PTTL", h.name) < fleetLease.Milliseconds()/2 {
				return false
			}
		}
		return true
	})
	pass(t, all)
	for _, h := range all {
		if took, ok := h.took(t, fleetLease); !ok || took > told {
			t.Errorf("%v: after %v (%v)", h, took, ok)
		}
	}
	turns(t)
}

// Clients that wait for replicas and clients that do not can hand locks to each other. A
// lock that no replica has is not granted.
func TestReplicatedFleet(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 2)
	master, replicas := s.Master().Addr(), addrs(s.Replicas())
	url := "redis://" + strings.Join(append([]string{master}, replicas...), ",")
	// clients returns clients of all replication modes with a wait time.
	clients := func(t *testing.T, patience time.Duration) (java map[string]*redisson, golang map[string]*holdfast.Client) {
		with := func(c interop.Config, check bool) interop.Config {
			return c.With("checkLockSyncedSlaves", check).With("slavesSyncTimeout", patience.Milliseconds())
		}
		java = map[string]*redisson{
			"checking":            join(t, peer(t, interop.Current), with(interop.MasterReplicas(master, replicas...), true)),
			"not checking":        join(t, peer(t, interop.Current), with(interop.MasterReplicas(master, replicas...), false)),
			"replicated checking": join(t, peer(t, interop.Current), with(interop.Replicated(append(replicas, master)...), true)),
			"era":                 join(t, peer(t, interop.Era), interop.MasterReplicas(master, replicas...)),
		}
		golang = make(map[string]*holdfast.Client)
		for _, r := range []holdfast.Replication{{Mode: holdfast.Acked}, {Mode: holdfast.Async}, {Mode: holdfast.Strict, Replicas: 2}} {
			r.Timeout = patience
			golang[r.Mode.String()] = open(t, url, holdfast.Options{Replication: r})
		}
		return java, golang
	}
	t.Run("handed over", func(t *testing.T) {
		java, golang := clients(t, 2500*time.Millisecond) // longer than a busy machine stalls, shorter than Redisson's timeout
		var all []*handover
		for j, r := range java {
			for g, c := range golang {
				all = append(all, handovers(t, j, g, r, c)...)
			}
		}
		beginAll(t, s.Nodes(), all)
		pass(t, all)
		for _, h := range all {
			if took, ok := h.took(t, 15*time.Second); !ok || took > told {
				t.Errorf("%v: after %v (%v)", h, took, ok)
			}
		}
	})
	t.Run("no replica answers", func(t *testing.T) {
		java, golang := clients(t, time.Second)
		for _, r := range s.Replicas() {
			r.Pause()
			defer r.Resume()
		}
		refuses := map[string]bool{"checking": true, "replicated checking": true, "acked": true, "strict": true}
		judge := func(who, name string, err error) {
			if (err != nil) != refuses[who] {
				t.Errorf("%s: %v", who, err)
			}
			// A refused lock is released in the background.
			left := func() bool { return s.Master().Int(t, "EXISTS", name) == 1 }
			if !redistest.Poll(10*time.Second, func() bool { return left() == (err == nil) }) {
				t.Errorf("%s: left at the server: %v, after: %v", who, left(), err)
			}
		}
		var wg sync.WaitGroup
		for who, r := range java {
			wg.Go(func() {
				n := name(t)
				judge(who, n, r.get(t, "getLock", n).Do(n, "lock").Err())
			})
		}
		for who, c := range golang {
			wg.Go(func() {
				n := name(t)
				_, err := c.Mutex(n).TryLock(context.Background())
				if refuses[who] && !errors.Is(err, holdfast.ErrNotReplicated) {
					t.Errorf("%s: %v", who, err)
				}
				judge(who, n, err)
			})
		}
		wg.Wait()
	})
}

package topology_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master that only its clients and one of its replicas still see goes on
// serving when another was promoted in its place. In the modes Async and Acked,
// a lock then has two holders, and only a resource that checks tokens keeps them
// apart. In mode Strict the second client does not get the lock.
func TestStaleMaster(t *testing.T) {
	t.Parallel()
	inSentinels(t, sentinelModes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		chosen, other := s.Replicas()[0], s.Replicas()[1]
		f.never(other)
		// These do not look around as long as the server answers that they know.
		stale := s.URL() + "&scan_interval=1m"
		crowds := f.crowds(2)
		var before *holder
		clients := make([]*holdfast.Client, len(f)) // at the old master, before there is another
		for i, w := range f {
			if w.strictly() { // its lease is to end
				clients[i] = w.openAt(stale)
				before = w.keep(clients[i], "held")
				continue
			}
			clients[i] = w.openAt(stale, long)
		}
		crowds.await(10)
		s.Partition(side{old, other}, append(s.Sentinels(), chosen))
		holders := make([]*holder, len(f))
		for i, w := range f {
			if w.strictly() {
				holders[i] = before
				w.notReplicated(clients[i].Mutex("new"))
				continue
			}
			holders[i] = w.keep(clients[i], "held")
		}
		f.watchful() // not before: all locks must be taken at the old master
		master, took := s.AwaitMaster(old)
		f.patient() // one failover is enough
		f[0].Logf("the failover took %v", took)
		var waits *rival
		for i, w := range f {
			h, fresh := holders[i], w.open()
			if w.strictly() {
				waits = w.rival(fresh, "held")
				h.lost(lease+slack, holdfast.LossUnreplicated)
				h.inTime()
				w.notReplicated(w.open().Mutex("new"))
				continue
			}
			r := w.rival(fresh, "held")
			r.await(time.Now().Add(slack))
			if !h.Valid() || !r.lease.Valid() {
				w.errorf("the hole is closed: say so in the docs")
			}
			w.fenced(h, r)
			r.release()
		}
		if waits.in() {
			waits.w.errorf("a strict lock was granted without all replicas")
		}
		s.Heal()
		s.AwaitReplicas(2)
		for _, h := range holders {
			if !h.w.strictly() {
				h.lost(20*time.Second+slack, holdfast.LossFailover, holdfast.LossExpired)
			}
		}
		waits.await(time.Now().Add(time.Second))
		waits.after(before)
		waits.release()
		crowds.await(10)
		crowds.endAfterFailover()
		empty(f[0], master)
	}, redistest.WithPartitions())
}

// fenced has two holders of one lock write to a resource that checks tokens. The
// one whose token is stale is refused.
func (w *world) fenced(stale *holder, r *rival) {
	w.Helper()
	resource := redistest.Shared(w)
	name := w.key(w.Name())
	c := w.openAt(resource.URL(), func(o *holdfast.Options) { o.Replication = async })
	write := fence.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")
	put := func(l *holdfast.Lease, value string) error {
		_, err := write.Run(w.Context(), c.Driver(), name, l.Token(), []string{name}, []string{value})
		return err
	}
	if err := put(stale.Lease, "old"); err != nil {
		w.errorf("%v", err)
	}
	if err := put(r.lease, "new"); err != nil {
		w.errorf("%v", err)
	}
	if err := put(stale.Lease, "late"); !errors.Is(err, fence.ErrStale) {
		w.errorf("the resource took a write with a stale token: %v", err)
	}
	if got := resource.Do(w, "GET", name); got != "new" {
		w.errorf("the resource has %v", got)
	}
}

// A master is paused until it is replaced, and then executes the renewals that
// have been waiting for it. In mode Strict they do not count.
func TestPausedMasterResumes(t *testing.T) {
	t.Parallel()
	inSentinels(t, sentinelModes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		const lease = 60 * time.Second // its renewals wait for 10 s
		crowds := f.crowds(2)
		var holders []*holder
		for _, w := range f {
			c := w.openAt(s.URL()+"&scan_interval=1m&timeout=20s", leaseTime(lease))
			holders = append(holders, w.keep(c, "held"))
		}
		crowds.await(10)
		f.watchful()
		lasted := redistest.Outage(2*time.Second, old.Pause, nil)
		paused := time.Now()
		master, took := s.AwaitMaster(old)
		f.patient() // one failover is enough
		f[0].Logf("the failover took %v", took)
		<-lasted
		for _, w := range f { // so that nothing but the old master could prolong it
			master.Do(w, "DEL", w.key("held"))
		}
		old.Resume()
		for _, h := range holders {
			h.lost(15*time.Second, holdfast.LossFailover)
			_, deadline := h.last()
			// What was sent up to the pause may count, and a renewal is sent
			// every half second.
			late := deadline.Sub(paused.Add(lease))
			f[0].Logf("%v: a deadline %v after the pause", h.w.mode.Mode, late+lease)
			if h.w.strictly() && late > 0 {
				h.w.errorf("a renewal counted that was sent %v after the server was paused", late)
			}
		}
		crowds.await(10)
		crowds.endAfterFailover()
	})
}

// A master is cut off from the rest of the cluster, but not from its clients,
// and replaced. For a while there are two.
func TestClusterStaleMaster(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		old := c.Nodes()[0]
		throughFailover(t, f, func() time.Duration {
			c.Partition(side{old}, c.Others(old))
			_, took := c.AwaitFailover(old)
			f.patientBut(old) // one failover is enough
			f[0].eventually(slack, "the old master refuses", func() bool {
				_, err := old.Try("EXISTS", f[0].key("held"))
				return err != nil
			})
			return took
		}, func() *redistest.Server {
			c.Heal()
			return old
		})
	}, redistest.WithPartitions())
}

// A master is paused for longer than a lease, is replaced, and then answers what
// has waited for it.
func TestClusterPausedMasterResumes(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		old := c.Nodes()[0]
		throughFailover(t, f, func() time.Duration {
			lasted := redistest.Outage(lease+time.Second, old.Pause, nil)
			_, took := c.AwaitFailover(old)
			f.patientBut(old) // one failover is enough
			<-lasted
			return took
		}, func() *redistest.Server {
			old.Resume()
			return old
		})
	})
}

// throughFailover has a master replaced, which later comes back as a replica,
// while crowds contend and locks are held. Holders keep what they hold, or are
// told before another client gets it; the crowds go on.
func throughFailover(t *testing.T, f fleet, replace func() time.Duration, back func() *redistest.Server) {
	t.Helper()
	leases := make(map[*world]*holdfast.Lease)
	for _, w := range f {
		leases[w] = w.hold(w.open(), "held")
	}
	crowds := f.crowds(3)
	crowds.await(20)
	replace()
	for _, c := range crowds {
		if !c.w.strictly() { // which waits for a replica
			if took := c.await(1); took > lease+slack {
				c.w.errorf("nothing was granted for %v after the failover", took)
			}
		}
	}
	old := back()
	for i, w := range f {
		next := w.master(w.prefix)
		w.cluster.AwaitReplicas(next, 1)
		if next == old {
			t.Fatal("the old master is back: that is not what is tested here")
		}
		crowds[i].await(20)
		crowds[i].end(w.strictly())
		l := leases[w]
		if l.Valid() {
			w.kept(l)
		} else if _, why := loss(l, slack); why == "" || why == "not lost" {
			w.errorf("the holder was told: %q", why)
		}
	}
}

package topology_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The server is killed and starts again with all that it had written: holds
// survive.
func TestRestartWithData(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		crowds := f.crowds(2)
		holders := f.keep(lasting, "held")
		for range 2 {
			crowds.await(10)
			s.RestartWithData()
		}
		crowds.await(10)
		crowds.end()
		holders.kept()
		empty(f[0], f.master())
	}
	aof := redistest.Args("--appendonly", "yes")
	inSingle(t, test, aof)
	inSentinels(t, sentinelModes, test, aof)
}

// The server is killed and starts again without any data, and stays what it
// was: nothing can keep the lock, but its holder is told as soon as the server
// is back, and tokens go on rising.
func TestRestartWithoutData(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		var holders []*holder
		var rivals []*rival
		for _, w := range f {
			c := w.open(long)
			holders = append(holders, w.keep(c, "held"), w.keep(c, "fixed", holdfast.LeaseTime(time.Minute)))
			rivals = append(rivals, w.rival(w.open(), "held"), w.rival(w.open(), "fixed"))
		}
		for _, r := range rivals {
			r.waits()
		}
		s.Restart()
		back := time.Now()
		if st := f.sentinels(); st != nil {
			st.AwaitReplicas(2) // mode Strict grants nothing before
		}
		grants := time.Now()
		for i, h := range holders {
			told := h.lost(10*time.Second, holdfast.LossFailover)
			if late := told.Sub(back); late > slack {
				h.w.errorf("told %v after the server was back", late)
			}
			rivals[i].await(grants.Add(time.Second))
			rivals[i].rises(h)
			rivals[i].release()
		}
		empty(f[0], s)
	}
	inSingle(t, test)
	inSentinels(t, sentinelModes, test)
}

// The master is killed, and comes back without any data after a replica has
// taken its place: it takes over what that one has.
func TestReplicaKeepsData(t *testing.T) {
	t.Parallel()
	inSentinels(t, sentinelModes, func(f fleet) {
		f.patient()
		old := f.master()
		crowds := f.crowds(2)
		var holders holders
		for _, w := range f {
			holders = append(holders, w.keep(w.open(lasting), "held"))
			holders = append(holders, w.keep(w.open(), "fixed", holdfast.LeaseTime(time.Minute)))
		}
		crowds.await(10)
		s := f.sentinels()
		// Clients hear of it all when the old master is back, which calls itself
		// a master for a moment. But the Sentinels know better.
		f.watchful()
		s.Refuse(side{redistest.Clients}, s.Sentinels())
		old.Kill()
		s.AwaitMaster(old)
		f.patient() // one failover is enough
		old.Restart()
		s.Heal()
		s.AwaitReplicas(2)
		crowds.await(10)
		crowds.endAfterFailover()
		holders.kept() // the replicas had it long before, in all modes
		empty(f[0], f.master())
	}, redistest.WithPartitions())
}

// A master is killed and comes back with what it had written, and stays the
// master: no lease is lost.
func TestClusterRestartWithData(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		master := c.Nodes()[0]
		holders := f.keep(lasting, "a", "b") // nodes serve only two seconds after they were started
		crowds := f.crowds(2)
		for range 2 {
			crowds.await(10)
			master.RestartWithData()
		}
		crowds.await(10)
		crowds.end()
		holders.kept()
		if f.master() != master {
			t.Error("the master was replaced: that is not what is tested here")
		}
	}, patient, redistest.Args("--appendonly", "yes"))
}

// A master comes back empty and stays the master. Exclusion is not promised
// then, but each holder learns why it has lost its lease, long before that would
// have ended, and tokens go on rising.
func TestClusterRestartWithoutData(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		master := c.Nodes()[0]
		leases := make(map[*world]*holdfast.Lease)
		for _, w := range f {
			client := w.open(func(o *holdfast.Options) { o.WatchdogTimeout, o.RenewEvery = 40*time.Second, 20*time.Second })
			leases[w] = w.hold(client, "held")
		}
		master.Kill()
		master.Restart()
		for _, w := range f {
			if at, why := loss(leases[w], 18*time.Second); why != holdfast.LossFailover {
				w.errorf("the holder was told %q at %v", why, at)
			}
			next := w.hold(w.open(), "held")
			if before, after := leases[w].Token(), next.Token(); after <= before {
				w.errorf("token %d after %d", after, before)
			}
			w.kept(next)
		}
		if f.master() != master {
			t.Error("the master was replaced: that is not what is tested here")
		}
	}, patient)
}

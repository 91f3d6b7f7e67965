package topology_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The clock of the replica that takes over is not that of the master: a lease
// ends earlier there, or later. The first is what ClockSkew is for.
func TestClockOfPromoted(t *testing.T) {
	t.Parallel()
	const lease, skew = 12 * time.Second, 3 * time.Second
	for _, test := range []struct {
		name string
		off  time.Duration
	}{{"ahead", skew - 500*time.Millisecond}, {"behind", -skew}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inSentinels(t, []holdfast.Replication{strict(2)}, func(f fleet) {
				f.patient()
				w, s, old := f[0], f.sentinels(), f.master()
				for _, r := range s.Replicas() {
					r.MoveClock(test.off)
				}
				careful := func(o *holdfast.Options) { o.WatchdogTimeout, o.ClockSkew = lease, skew }
				c := w.open(careful)
				start := time.Now()
				h := w.keep(c, "held", holdfast.LeaseTime(lease)) // it is not renewed
				r := w.rival(w.open(careful), "held")
				r.waits()
				f.watchful()
				old.Kill()
				master, _ := s.AwaitMaster(old)
				f.patient() // one failover is enough
				w.follows(c, master)
				old.Restart()
				s.AwaitReplicas(2)
				ready := time.Now() // before that, strict locks are not granted
				f[0].Logf("all is well again after %v", ready.Sub(start))
				h.lost(lease, holdfast.LossExpired)
				h.inTime()
				by := start.Add(lease - test.off)
				if by.Before(ready) {
					by = ready
				}
				r.await(by)
				f[0].Logf("the rival was let in %v after the lease ended", r.at.Sub(start.Add(lease)))
				r.after(h)
				r.release()
			}, redistest.WithClock())
		})
	}
}

// A replica whose clock is ahead takes over. Within ClockSkew, no other client
// gets the lock before the holder has stopped; beyond it the holder is told.
func TestClusterClockOfPromoted(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		const skew = 900 * time.Millisecond
		w := f[2] // strict
		master := c.Nodes()[0]
		replica := c.ReplicasOf(master)[0]
		replica.MoveClock(skew)
		client := w.open(long, func(o *holdfast.Options) { o.ClockSkew = time.Second })
		l := w.hold(client, "fixed", holdfast.LeaseTime(6*time.Second))
		deadline := l.Deadline()
		c.Failover(replica)
		rival := w.open(func(o *holdfast.Options) { o.PollInterval = 10 * time.Millisecond })
		next := w.hold(rival, "fixed")
		if l.Valid() || time.Now().Before(deadline) {
			t.Errorf("a rival has the lock %v before the lease ends", time.Until(deadline))
		}
		w.kept(next)

		// Far ahead: the lease is over at once, and its holder hears of it.
		ahead := c.ReplicasOf(replica)[0]
		far := w.hold(client, "far")
		ahead.MoveClock(time.Minute)
		c.Failover(ahead)
		if _, why := loss(far, 2*slack); why != holdfast.LossFailover && why != holdfast.LossUnreplicated {
			t.Errorf("the holder was told %q", why)
		}
		again := w.hold(rival, "far")
		if again.Token() <= far.Token() {
			t.Errorf("token %d after %d", again.Token(), far.Token())
		}
		w.kept(again)
	}, redistest.WithClock(), patient)
}

// The clocks of two masters differ by 50 ms. A client that locks names on both
// must not carry the clock of one over to the other: the next client would get
// a lower token there, and a guard would refuse the only valid holder.
func TestSkewedMasters(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithClock(), patient)
	ahead, other := tag(0, "ahead"), tag(1, "other")
	c.MasterOf(ahead).MoveClock(50 * time.Millisecond)
	w := &world{T: t, url: c.URL(), cluster: c, prefix: other}
	x, y := w.open(long), w.open(long)
	token := func(client *holdfast.Client, name string) int64 {
		t.Helper()
		l, err := client.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return l.Token()
	}
	for range 20 {
		token(x, ahead)
		first := token(x, other)
		if second := token(y, other); second <= first {
			t.Fatalf("token %d after %d", second, first)
		}
	}
}

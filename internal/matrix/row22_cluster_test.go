package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A replica whose clock is ahead takes over. Within the skew that was agreed on,
// nobody gets in before the holder has stopped; beyond it the holder is told.
func TestRow22ClusterClocks(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		const skew = 900 * time.Millisecond
		w := ws[2] // strict
		master := c.Nodes()[0]
		replica := c.ReplicasOf(master)[0]
		replica.MoveClock(skew)
		client := w.open(long, func(o *holdfast.Options) { o.ClockSkew = time.Second })
		l, err := client.Mutex(w.prefix+"fixed").Lock(t.Context(), holdfast.LeaseTime(6*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		deadline := l.Deadline()
		c.Failover(replica)
		rival := w.open(func(o *holdfast.Options) { o.PollInterval = 10 * time.Millisecond })
		next, err := rival.Mutex(l.Name()).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l.Valid() || time.Now().Before(deadline) {
			t.Errorf("somebody is in %v before the lease of another ends", time.Until(deadline))
		}
		w.kept([]*holdfast.Lease{next})

		// Far ahead: the lease is over at once, and its holder hears of it.
		ahead := c.ReplicasOf(replica)[0]
		far := w.hold(client, "far")[0]
		ahead.MoveClock(time.Minute)
		c.Failover(ahead)
		if _, why := loss(far, 2*soon); why != holdfast.LossFailover && why != holdfast.LossUnreplicated {
			t.Errorf("the holder was told %q", why)
		}
		again := w.hold(rival, "far")
		if again[0].Token() <= far.Token() {
			t.Errorf("token %d after %d", again[0].Token(), far.Token())
		}
		w.kept(again)
	}, redistest.WithClock(), patient)
}

package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master comes back empty and stays the master. Exclusion is not promised
// then, but each holder learns why it has lost its lease, long before that would
// have ended, and tokens go on rising.
func TestRow17ClusterRestartWithoutData(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		leases := make(map[*world]*holdfast.Lease)
		for _, w := range ws {
			client := w.open(func(o *holdfast.Options) { o.WatchdogTimeout, o.RenewEvery = 40*time.Second, 20*time.Second })
			leases[w] = w.hold(client, "held")[0]
		}
		master.Kill()
		master.Restart()
		for _, w := range ws {
			if at, why := loss(leases[w], 18*time.Second); why != holdfast.LossFailover {
				w.errorf("the holder was told %q at %v", why, at)
			}
			next := w.hold(w.open(), "held")
			if before, after := leases[w].Token(), next[0].Token(); after <= before {
				w.errorf("token %d after %d", after, before)
			}
			w.kept(next)
		}
		if w := ws[0]; w.master(w.prefix) != master {
			t.Error("the master was replaced: that is not what is tested here")
		}
	}, patient)
}

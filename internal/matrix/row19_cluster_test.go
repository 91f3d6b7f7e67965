package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master is cut off from the rest of the cluster, but not from its clients,
// and replaced. For a while there are two.
func TestRow19ClusterIsolatedMaster(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		old := c.Nodes()[0]
		throughFailover(t, ws, func() time.Duration {
			c.Partition(redistest.Side{old}, c.Others(old))
			_, took := c.AwaitFailover(old)
			ws[0].eventually(soon, "the old master refuses", func() bool {
				_, err := old.Try("EXISTS", ws[0].prefix+"held")
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
func TestRow20ClusterPausedMaster(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		old := c.Nodes()[0]
		throughFailover(t, ws, func() time.Duration {
			old.Pause()
			begin := time.Now()
			_, took := c.AwaitFailover(old)
			time.Sleep(time.Until(begin.Add(lease + time.Second)))
			return took
		}, func() *redistest.Server {
			old.Resume()
			return old
		})
	})
}

// throughFailover has a master replaced, and later comes back as a replica, while
// crowds contend and somebody holds. Holders keep what they hold, or are told
// before another is in; the crowd goes on.
func throughFailover(t *testing.T, ws []*world, replace func() time.Duration, back func() *redistest.Server) {
	t.Helper()
	var crowds []*crowd
	leases := make(map[*world][]*holdfast.Lease)
	for _, w := range ws {
		leases[w] = w.hold(w.open(), "held")
		crowds = append(crowds, w.crowd(3, 2))
	}
	for _, c := range crowds {
		c.await(20)
	}
	replace()
	for _, c := range crowds {
		if !c.w.strictly() { // which waits for a replica
			if took := c.await(1); took > lease+soon {
				c.w.errorf("nothing was granted for %v after the failover", took)
			}
		}
	}
	old := back()
	for i, w := range ws {
		next := w.master(w.prefix)
		w.cluster.AwaitReplicas(next, 1)
		if next == old {
			t.Fatal("the old master is back: that is not what is tested here")
		}
		crowds[i].await(20)
		crowds[i].end(w.strictly())
		l := leases[w][0]
		if l.Valid() {
			w.kept(leases[w])
		} else if _, why := loss(l, soon); why == "" || why == "not lost" {
			w.errorf("the holder was told: %q", why)
		}
	}
}

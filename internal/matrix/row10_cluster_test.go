package matrix_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The clients are cut off from a master for longer than a lease: each holder is
// told before the key is gone, and nobody else is in before that.
func TestRow10ClusterPartition(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		cut := c.Nodes()[0]
		leases := make(map[*world]*holdfast.Lease)
		elsewhere := make(map[*world]*holdfast.Lease)
		var crowds []*crowd
		for _, w := range ws {
			client := w.open()
			leases[w] = w.hold(client, "held")[0]
			l, err := client.Mutex(tag(1, w.mode.Mode.String())).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			elsewhere[w] = l
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, c := range crowds {
			c.await(20, 20*time.Second)
		}
		began := time.Now()
		c.Partition(redistest.Side{redistest.Clients}, redistest.Side{cut})
		var wg sync.WaitGroup
		for _, w := range ws {
			l := leases[w]
			wg.Go(func() {
				deadline := l.Deadline() // an answer may just have come
				for d := deadline; !d.IsZero(); d = l.Deadline() {
					deadline = d
					time.Sleep(time.Millisecond)
				}
				at, why := loss(l, soon)
				if why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
					w.errorf("the holder was told: %s", why)
				}
				if at.After(deadline) {
					w.errorf("the holder was told %v after its deadline", at.Sub(deadline))
				}
				if n, _ := cut.Try("EXISTS", l.Name()); n != int64(1) {
					w.errorf("the key was gone before its holder was told")
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Until(began.Add(lease + time.Second)))
		c.Heal()
		for i, w := range ws {
			crowds[i].await(20, 20*time.Second)
			crowds[i].end(true)
			w.kept([]*holdfast.Lease{elsewhere[w]})
			w.kept(w.hold(w.clients[0], "held")) // as free as ever
		}
	}, redistest.WithPartitions())
}

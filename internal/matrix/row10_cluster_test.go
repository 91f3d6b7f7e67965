package matrix_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The clients are cut off from a master for longer than a lease: each holder is
// told before the key is gone, and nobody else is in before that. Leases at other
// masters are renewed all the time, and a lease that is longer than the partition
// survives it.
func TestRow10ClusterPartition(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		cut := c.Nodes()[0]
		leases := make(map[*world]*holdfast.Lease)
		lasting := make(map[*world][]*holdfast.Lease) // at the master that is cut off, and elsewhere
		var elsewhere []*holdfast.Lease
		var crowds []*crowd
		for _, w := range ws {
			leases[w] = w.hold(w.open(), "held")[0]
			// A lease that must survive is longer than any standstill of the machine.
			// That it is renewed is looked at, and not concluded from its survival.
			client := w.open(long)
			lasting[w] = w.hold(client, "lasting")
			l, err := client.Mutex(tag(1, w.mode.Mode.String())).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lasting[w], elsewhere = append(lasting[w], l), append(elsewhere, l)
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, c := range crowds {
			c.await(20)
		}
		began := time.Now()
		c.Partition(redistest.Side{redistest.Clients}, redistest.Side{cut})
		var wg sync.WaitGroup
		for _, w := range ws {
			l := leases[w]
			wg.Go(func() {
				var counted, deadline, gone time.Time // the last moment it counted on its lease, and when that and the key end
				for now := time.Now(); l.Valid(); now = time.Now() {
					counted = now
					if d := l.Deadline(); !d.IsZero() { // an answer may just have come
						deadline = d
					}
					if end := now.Add(time.Duration(cut.Int(t, "PTTL", l.Name())) * time.Millisecond); end.After(gone) {
						gone = end
					}
					time.Sleep(time.Millisecond)
				}
				_, why := loss(l, soon)
				if why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
					w.errorf("the holder was told: %s", why)
				}
				if counted.After(deadline) {
					w.errorf("the holder counted on the lease %v after its deadline", counted.Sub(deadline))
				}
				if counted.After(gone) {
					w.errorf("the holder counted on the lease %v after the key was gone", counted.Sub(gone))
				}
			})
		}
		ws[0].renewedTwice(elsewhere)
		wg.Wait()
		time.Sleep(time.Until(began.Add(lease + time.Second)))
		c.Heal()
		for i, w := range ws {
			crowds[i].await(20)
			crowds[i].end(true)
			w.kept(lasting[w])
			w.kept(w.hold(w.clients[0], "held")) // as free as ever
		}
	}, redistest.WithPartitions(), patient)
}

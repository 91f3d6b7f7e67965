package topology_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The client does not reach the server for longer than the lease: it gives up
// before anybody else can have the lock.
func TestPartition(t *testing.T) {
	t.Parallel()
	// The whole world of clients is cut off, so that the servers are looked at
	// past the network: the key is what keeps others out.
	test := func(f fleet, cut, heal func()) {
		s := f.master()
		crowds := f.crowds()
		var holders []*holder
		var rivals []*rival
		for _, w := range f {
			holders = append(holders, w.keep(w.open(), w.key("held")))
			rivals = append(rivals, w.rival(w.open(), w.key("held")))
		}
		crowds.await()
		cut()
		for i, h := range holders {
			h.w.eventually(lease+slack, "the key has expired", func() bool { return s.Int(h.w, "EXISTS", h.Name()) == 0 })
			free := time.Now()
			h.lost(slack, holdfast.LossExpired)
			h.inTime()
			if until, _ := h.last(); until.After(free) {
				h.w.errorf("the lock was free %v before its holder gave up", until.Sub(free))
			}
			if rivals[i].in() {
				h.w.errorf("granted through a cut network")
			}
		}
		heal()
		healed := time.Now()
		for i, r := range rivals {
			r.await(healed.Add(2 * time.Second))
			r.after(holders[i])
			r.release()
		}
		crowds.await()
		crowds.end(false)
		empty(f[0], s)
	}
	inSingle(t, func(w *world) {
		p := redistest.NewProxy(w, w.single.Addr())
		w.url = p.URL()
		test(fleet{w}, p.Freeze, p.Thaw)
	})
	inFleet(t, modes, func(f fleet) {
		s := f.sentinels()
		f.patient()
		test(f, func() { s.Partition(side{redistest.Clients}, s.Others()) }, s.Heal)
	}, redistest.WithPartitions())
}

// The clients are cut off from a master for longer than a lease: each holder is
// told before the key is gone, and nobody else is in before that. Leases at other
// masters are renewed all the time, and a lease that is longer than the partition
// survives it.
func TestClusterPartition(t *testing.T) {
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

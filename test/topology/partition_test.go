package topology_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The client does not reach the server for longer than the lease: it gives up
// before another client can have the lock.
func TestPartition(t *testing.T) {
	t.Parallel()
	// All clients are cut off. The test asks the servers past the network: the key
	// is what keeps others out. Leases are so long that none ends before the cut.
	const lease = 2 * lease
	longer := func(o *holdfast.Options) { o.WatchdogTimeout = lease }
	test := func(f fleet, cut, heal func()) {
		s := f.master()
		crowds := f.crowds(2)
		holders := f.keep(longer, "held")
		var rivals []*rival
		for _, w := range f {
			rivals = append(rivals, w.rival(w.open(), "held"))
		}
		crowds.await(10)
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
		crowds.await(10)
		crowds.end()
		empty(f[0], s)
	}
	inSingle(t, func(f fleet) {
		p := redistest.NewProxy(f[0], f.master().Addr())
		f[0].url = p.URL()
		test(f, p.Freeze, p.Thaw)
	})
	inSentinels(t, sentinelModes, func(f fleet) {
		s := f.sentinels()
		f.patient()
		test(f, func() { s.Partition(side{redistest.Clients}, s.Others()) }, s.Heal)
	}, redistest.WithPartitions())
}

// The clients are cut off from a master for longer than a lease: each holder is
// told before the key is gone, and no other client gets the lock before that.
// Leases at other masters are renewed all the time, and a lease that is longer
// than the partition survives it.
func TestClusterPartition(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		cut := c.Nodes()[0]
		leases := make(map[*world]*holdfast.Lease)
		survive := make(map[*world][]*holdfast.Lease) // at the master that is cut off, and elsewhere
		var elsewhere []*holdfast.Lease
		for _, w := range f {
			leases[w] = w.hold(w.open(), "held")
			// A lease that must survive is longer than any pause of the machine. That
			// it is renewed is checked, not concluded from its survival.
			client := w.open(long)
			l, err := client.Mutex(tag(1, w.mode.Mode.String())).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			survive[w] = []*holdfast.Lease{w.hold(client, "lasting"), l}
			elsewhere = append(elsewhere, l)
		}
		crowds := f.crowds(2)
		crowds.await(20)
		lasted := redistest.Outage(lease+time.Second, func() { c.Partition(side{redistest.Clients}, side{cut}) }, nil)
		var wg sync.WaitGroup
		for _, w := range f {
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
					locktest.Work(time.Millisecond)
				}
				_, why := loss(l, slack)
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
		f[0].renewedTwice(elsewhere...)
		wg.Wait()
		<-lasted
		c.Heal()
		crowds.await(20)
		crowds.end()
		for _, w := range f {
			w.kept(survive[w]...)
			w.kept(w.hold(w.clients[0], "held")) // as free as ever
		}
	}, redistest.WithPartitions(), patient)
}

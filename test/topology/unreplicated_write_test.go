package topology_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The master is killed when the replica that will take over has not heard of a
// grant. In mode Strict that was none.
func TestUnreplicatedWrite(t *testing.T) {
	t.Parallel()
	inSentinels(t, sentinelModes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		chosen, other := s.Replicas()[0], s.Replicas()[1]
		f.never(other)
		before := f.keep(lasting, "before")
		var cut []*holder
		s.Partition(side{old}, side{chosen})
		for _, w := range f {
			c := w.open(lasting)
			if w.strictly() {
				w.notReplicated(c.Mutex(w.key("cut")))
			} else {
				cut = append(cut, w.keep(c, "cut"))
			}
		}
		f.watchful()
		old.Kill()
		master, took := s.AwaitMaster(old)
		f.patient() // one failover is enough
		if master != chosen {
			f[0].Fatal("another replica was promoted")
		}
		f[0].Logf("the failover took %v", took)
		for _, h := range cut {
			h.lost(slack, holdfast.LossFailover)
		}
		s.Heal()
		old.Restart()
		s.AwaitReplicas(2)
		var clients []*holdfast.Client
		for _, w := range f {
			clients = append(clients, w.open())
		}
		attached := time.Now()
		var rivals []*rival
		for i, w := range f {
			rivals = append(rivals, w.rival(clients[i], "cut"))
		}
		for _, r := range rivals {
			r.await(attached.Add(time.Second))
			r.release()
		}
		before.kept()
		empty(f[0], master)
	}, redistest.WithPartitions())
}

// A master dies whose last writes have not reached its replica. What was granted
// there counts in mode async, and is lost; in the others it was never granted.
func TestClusterUnreplicatedWrite(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		old := c.Nodes()[0]
		replica := c.ReplicasOf(old)[0]
		before := make(map[*world]*holdfast.Lease)
		for _, w := range f {
			before[w] = w.hold(w.open(), "before")
		}
		c.Partition(side{old}, side{replica})
		alone := f[0].hold(f[0].open(leaseTime(30*time.Second)), "alone")
		// refused says that a lock was refused for want of replicas, and for another
		// reason.
		refused := func(w *world, err, reason error) error {
			switch {
			case err == nil:
				w.errorf("granted, and no replica has it")
			case !errors.Is(err, holdfast.ErrNotReplicated) || !errors.Is(err, reason):
				return fmt.Errorf("%v: no replica has it: %w", w.mode.Mode, err)
			}
			return nil
		}
		redistest.MeterStalls(t, old).Rounds(t, 500*time.Millisecond, func() error {
			var wg sync.WaitGroup
			errs := make([]error, 2*len(f))
			for i, w := range f[1:] {
				hasty := w.open(func(o *holdfast.Options) { o.RetryTimeout = 4 * time.Second })
				wg.Go(func() {
					_, err := hasty.Mutex(w.key("alone")).Lock(t.Context())
					errs[2*i] = refused(w, err, holdfast.ErrUnavailable)
				})
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					defer cancel()
					_, err := w.clients[0].Mutex(w.key("late")).Lock(ctx)
					errs[2*i+1] = refused(w, err, context.DeadlineExceeded)
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		})
		old.Kill()
		next, _ := c.AwaitFailover(old)
		c.Heal() // not before: what is held back would arrive
		noticed := time.Now()
		old.Restart()
		if at, why := loss(alone, 2*slack); why != holdfast.LossFailover {
			t.Fatalf("async: the holder was told %q after %v", why, at.Sub(noticed))
		}
		c.AwaitReplicas(next, 1)
		for _, w := range f {
			// Held before the partition: kept, or told in time.
			l := before[w]
			m := w.open().Mutex(l.Name())
			got, err := m.Lock(t.Context(), holdfast.Wait(500*time.Millisecond))
			if err == nil {
				if l.Valid() && w.strictly() {
					w.errorf("two hold the lock")
				} else if _, why := loss(l, slack); why == "not lost" {
					w.errorf("two hold the lock, and the first does not hear of it")
				}
				w.kept(got)
			} else if !errors.Is(err, holdfast.ErrNotAcquired) && !errors.Is(err, holdfast.ErrUnavailable) { // the replica may take its time
				w.errorf("at the new master: %v", err)
			}
			_ = l.Release(t.Context())
			again := w.hold(w.clients[0], "alone")
			if w.mode.Mode == holdfast.Async && again.Token() <= alone.Token() {
				w.errorf("token %d after %d", again.Token(), alone.Token())
			}
			w.kept(again)
		}
		// The replica is a candidate however long it was cut off.
	}, redistest.WithPartitions(), redistest.Args("--cluster-replica-validity-factor", "0"))
}

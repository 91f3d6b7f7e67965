package topology_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// All Sentinels are gone: what is held is kept and renewed, and locks are
// granted, as long as the master lives.
func TestNoSentinels(t *testing.T) {
	t.Parallel()
	inFleet(t, modes, func(f fleet) {
		s := f.sentinels()
		f.patient()
		crowds := f.crowds()
		var holders []*holder
		for _, w := range f {
			holders = append(holders, w.keep(w.open(long), w.key("held")))
		}
		crowds.await()
		for i, sentinel := range s.Sentinels() {
			if i == 0 {
				sentinel.Pause()
			} else {
				sentinel.Kill()
			}
		}
		master := s.Nodes()[0]
		time.Sleep(5 * time.Second) // several times as long as they are left alone
		crowds.await()
		// Connections break, too, and come back to where they were.
		master.Do(f[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		crowds.await()
		crowds.end(false)
		for _, h := range holders {
			h.kept()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if c, err := holdfast.Open(ctx, s.URL()); err == nil {
			f[0].Error("a master that no Sentinel has named")
			c.Close()
		}
	})
}

// The clients are left with a minority of the masters, and later a part of the
// slots is served by nobody: holders are told in time, nothing is granted, and
// everything goes on when the cluster is whole again.
func TestClusterDown(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		mine := c.Nodes()[0]
		side := redistest.Side{mine, c.ReplicasOf(mine)[0], redistest.Clients}
		var crowds []*crowd
		for _, w := range ws {
			w.open()
			crowds = append(crowds, w.crowd(2, 2))
		}
		gone := c.Nodes()[1]
		spare := c.ReplicasOf(gone)[0]
		for what, fault := range map[string]struct{ begin, end func() }{
			"minority": {func() { c.Partition(side, c.Others(side...)) }, c.Heal},
			"coverage": {func() { spare.Kill(); gone.Kill() }, func() { gone.Restart(); spare.Restart() }},
		} {
			leases := make(map[*world]*holdfast.Lease)
			for i, w := range ws {
				crowds[i].await(10)
				leases[w] = w.hold(w.clients[0], "held")[0]
			}
			fault.begin()
			c.Watchful()
			for _, w := range ws {
				w.eventually(30*time.Second, "the cluster is down", func() bool {
					_, err := mine.Try("EXISTS", w.prefix+"held")
					return err != nil
				})
			}
			down := time.Now()
			late := redistest.Now() + (2500 * time.Millisecond).Nanoseconds() // what was granted before is known by then
			for _, w := range ws {
				if _, why := loss(leases[w], 2*lease); why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
					w.errorf("%s: the holder was told %q", what, why)
				}
			}
			time.Sleep(time.Until(down.Add(4 * time.Second)))
			for i, w := range ws {
				if n := crowds[i].grantedAfter(late); n > 0 {
					w.errorf("%s: %d were let in", what, n)
				}
				// One whose time is over before it has asked anybody blames nobody.
				w.eventually(2*soon, "nothing is granted", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					defer cancel()
					_, err := w.clients[0].Mutex(w.prefix + "other").Lock(ctx)
					if !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
						w.Fatalf("%v: %s: %v", w.mode.Mode, what, err)
					}
					return errors.Is(err, holdfast.ErrUnavailable)
				})
			}
			fault.end()
			for i, w := range ws {
				crowds[i].await(10)
				w.kept(w.hold(w.clients[0], "held"))
			}
			c.Patient()
		}
		for _, c := range crowds {
			c.end(true)
		}
	}, redistest.WithPartitions())
}

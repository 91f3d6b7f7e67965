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
	inSentinels(t, sentinelModes, func(f fleet) {
		s := f.sentinels()
		f.patient()
		const scan = 200 * time.Millisecond
		for _, w := range f {
			w.url = with(w.url, "scan_interval="+scan.String())
		}
		crowds := f.crowds(2)
		holders := f.keep(lasting, "held")
		crowds.await(10)
		<-redistest.Outage(5*scan, func() { // clients ask them several times
			for i, sentinel := range s.Sentinels() {
				if i == 0 {
					sentinel.Pause()
				} else {
					sentinel.Kill()
				}
			}
		}, nil)
		master := s.Nodes()[0]
		crowds.await(10)
		// Connections break, too, and come back to where they were.
		master.Do(f[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		crowds.await(10)
		crowds.end()
		holders.kept()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if c, err := holdfast.Open(ctx, s.URL(), nil); err == nil {
			f[0].Error("a client was opened without a Sentinel")
			c.Close()
		}
	})
}

// The clients reach a minority of the masters only, and later no master serves a
// part of the slots: holders are told in time, nothing is granted, and everything
// goes on when the cluster is complete again.
func TestClusterDown(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		mine := c.Nodes()[0]
		minority := side{mine, c.ReplicasOf(mine)[0], redistest.Clients}
		for _, w := range f {
			w.open()
		}
		crowds := f.crowds(2)
		gone := c.Nodes()[1]
		spare := c.ReplicasOf(gone)[0]
		for what, fault := range map[string]struct{ begin, end func() }{
			"minority": {func() { c.Partition(minority, c.Others(minority...)) }, c.Heal},
			"coverage": {func() { spare.Kill(); gone.Kill() }, func() { gone.Restart(); spare.Restart() }},
		} {
			leases := make(map[*world]*holdfast.Lease)
			crowds.await(10)
			for _, w := range f {
				leases[w] = w.hold(w.clients[0], "held")
			}
			lasted := redistest.Outage(4*time.Second, func() {
				fault.begin()
				c.Watchful()
				for _, w := range f {
					w.eventually(30*time.Second, "the cluster is down", func() bool {
						_, err := mine.Try("EXISTS", w.key("held"))
						return err != nil
					})
				}
			}, nil)
			late := redistest.Now() + (2500 * time.Millisecond).Nanoseconds() // what was granted before is known by then
			for _, w := range f {
				if _, why := loss(leases[w], 2*lease); why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
					w.errorf("%s: the holder was told %q", what, why)
				}
			}
			<-lasted
			for i, w := range f {
				if n := crowds[i].grantedAfter(late); n > 0 {
					w.errorf("%s: %d were let in", what, n)
				}
				// A call whose time is over before it has asked a server does not fail with ErrUnavailable.
				w.eventually(2*slack, "nothing is granted", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					defer cancel()
					_, err := w.clients[0].Mutex(w.key("other")).Lock(ctx)
					if !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
						w.Fatalf("%v: %s: %v", w.mode.Mode, what, err)
					}
					return errors.Is(err, holdfast.ErrUnavailable)
				})
			}
			fault.end()
			crowds.await(10)
			for _, w := range f {
				w.kept(w.hold(w.clients[0], "held"))
			}
			c.Patient()
		}
		crowds.end()
	}, redistest.WithPartitions())
}

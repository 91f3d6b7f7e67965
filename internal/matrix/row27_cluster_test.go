package matrix_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The clients are left with a minority of the masters, and later a part of the
// slots is served by nobody: holders are told in time, nothing is granted, and
// everything goes on when the cluster is whole again.
func TestRow27ClusterDown(t *testing.T) {
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
				crowds[i].await(10, 30*time.Second)
				leases[w] = w.hold(w.clients[0], "held")[0]
			}
			fault.begin()
			for _, w := range ws {
				w.eventually(10*time.Second, "the cluster is down", func() bool {
					_, err := mine.Try("EXISTS", w.prefix+"held")
					return err != nil
				})
			}
			granted := make(map[*world]int)
			time.Sleep(1500 * time.Millisecond) // what was granted before is counted by then
			for i, w := range ws {
				granted[w] = crowds[i].granted()
			}
			for _, w := range ws {
				if _, why := loss(leases[w], 2*lease); why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
					w.errorf("%s: the holder was told %q", what, why)
				}
			}
			for i, w := range ws {
				if n := crowds[i].granted(); n != granted[w] {
					w.errorf("%s: %d were let in", what, n-granted[w])
				}
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				_, err := w.clients[0].Mutex(w.prefix + "other").Lock(ctx)
				cancel()
				if !errors.Is(err, holdfast.ErrUnavailable) {
					w.errorf("%s: %v", what, err)
				}
			}
			fault.end()
			for i, w := range ws {
				crowds[i].await(10, 30*time.Second)
				w.kept(w.hold(w.clients[0], "held"))
			}
		}
		for _, c := range crowds {
			c.end(true)
		}
	}, redistest.WithPartitions())
}

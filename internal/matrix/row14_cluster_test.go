package matrix_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// patient makes the nodes of a cluster wait for each other for longer than any
// of these tests has them paused.
var patient = redistest.Args("--cluster-node-timeout", "15000")

// A master is paused for less than a lease, in all the ways there are: nobody
// loses anything.
func TestRow14ClusterPaused(t *testing.T) {
	const pause = 1500 * time.Millisecond
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		for _, w := range ws {
			leases := w.hold(w.open(long), "a", "b")
			defer func() { w.kept(leases) }()
		}
		var crowds []*crowd
		for _, w := range ws {
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, stop := range []func(){
			func() { master.Pause(); time.Sleep(pause); master.Resume() },
			func() { master.Do(t, "DEBUG", "SLEEP", "1.5") },
			func() { master.Do(t, "CLIENT", "PAUSE", "1500", "ALL"); time.Sleep(pause) },
		} {
			for _, c := range crowds {
				c.await(10)
			}
			stop()
		}
		for _, c := range crowds {
			c.await(10)
			c.end(true)
		}
	}, patient, redistest.Args("--enable-debug-command", "yes"))
}

// A master runs somebody's long script, and answers everything with an error.
func TestRow14ClusterBusy(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		var crowds []*crowd
		for _, w := range ws {
			leases := w.hold(w.open(long), "a", "b")
			defer func() { w.kept(leases) }()
			crowds = append(crowds, w.crowd(2, 2))
		}
		for range 2 {
			for _, c := range crowds {
				c.await(10)
			}
			_, _ = c.Nodes()[0].Try("EVAL", "local t = redis.call('time') local stop = t[1] + 2 repeat t = redis.call('time') until tonumber(t[1]) >= stop", "0")
		}
		for _, c := range crowds {
			c.await(10)
			c.end(true)
		}
	}, patient, redistest.Args("--busy-reply-threshold", "100"))
}

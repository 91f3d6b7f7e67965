package matrix_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master is killed and comes back with what it had written, and stays the
// master: nobody loses anything.
func TestRow16ClusterRestartWithData(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		var crowds []*crowd
		for _, w := range ws {
			// Nodes serve only two seconds after they were started.
			client := w.open(long)
			leases := w.hold(client, "a", "b")
			defer func() { w.kept(leases) }()
			crowds = append(crowds, w.crowd(2, 2))
		}
		for range 2 {
			for _, c := range crowds {
				c.await(10)
			}
			master.RestartWithData()
		}
		for _, c := range crowds {
			c.await(10)
			c.end(true)
		}
		if w := ws[0]; w.master(w.prefix) != master {
			t.Error("the master was replaced: that is not what is tested here")
		}
	}, patient, redistest.Args("--appendonly", "yes"))
}

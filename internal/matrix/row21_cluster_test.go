package matrix_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An operator has replicas take over, one after the other. When the two agree on
// the moment, nothing is lost; when the replica takes over by force, holders keep
// what they hold or are told.
func TestRow21ClusterFailover(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		var crowds []*crowd
		for _, w := range ws {
			w.open(func(o *holdfast.Options) { o.WatchdogTimeout = 2 * lease })
			crowds = append(crowds, w.crowd(2, 2))
		}
		for _, how := range [][]string{nil, {"FORCE"}, {"TAKEOVER"}} {
			leases := make(map[*world][]*holdfast.Lease)
			for i, w := range ws {
				crowds[i].await(10)
				leases[w] = w.hold(w.clients[0], "a", "b")
			}
			c.Failover(c.ReplicasOf(ws[0].master(ws[0].prefix))[0], how...)
			for i, w := range ws {
				if took := crowds[i].await(10); took > lease+soon {
					w.errorf("%v: the crowd went on after %v", how, took)
				}
				for _, l := range leases[w] {
					if how == nil || l.Valid() {
						w.kept([]*holdfast.Lease{l})
					} else if _, why := loss(l, soon); why != holdfast.LossFailover && why != holdfast.LossUnreplicated {
						w.errorf("%v: the holder was told %q", how, why)
					}
				}
			}
		}
		for i, w := range ws {
			crowds[i].end(w.strictly())
		}
	}, patient)
}

package topology_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Connections are reset: leases survive, and no call fails.
func TestConnectionsReset(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		s := f.master()
		holders := f.keep(lasting, "held")
		crowds := f.crowds(3)
		for range 3 {
			crowds.await(20)
			s.Do(f[0], "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			s.Do(f[0], "CLIENT", "KILL", "TYPE", "pubsub")
		}
		crowds.await(20)
		crowds.end()
		holders.renewed()
		holders.kept()
	}
	inSingle(t, test)
	inSentinels(t, sentinelModes, test)
	t.Run("cluster", func(t *testing.T) {
		inCluster(t, func(_ *redistest.Cluster, f fleet) { test(f) }, patient)
	})
}

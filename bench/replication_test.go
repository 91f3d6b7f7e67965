package bench_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// What it costs to wait for replicas: an uncontended lock and release on a
// master with two of them, and in a cluster with one each.
func BenchmarkReplication(b *testing.B) {
	replicated := redistest.StartReplicated(b, 2)
	cluster := redistest.StartCluster(b)
	for _, where := range []struct {
		name, url string
		replicas  int
	}{{"replicated", replicated.URL(), 2}, {"cluster", cluster.URL(), 1}} {
		for _, mode := range []holdfast.Replication{
			{Mode: holdfast.Async}, {Mode: holdfast.Acked}, {Mode: holdfast.Strict, Replicas: where.replicas},
		} {
			b.Run(where.name+"/"+mode.Mode.String(), func(b *testing.B) {
				c, err := holdfast.Open(b.Context(), where.url, &holdfast.Options{Replication: mode})
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				m := c.Mutex("a")
				b.ReportAllocs()
				for b.Loop() {
					pair(b, b.Context(), m)
				}
			})
		}
	}
}

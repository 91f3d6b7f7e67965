package prom_test

import (
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/prom"
)

// BenchmarkObserver measures what the observer costs per lock and release, on a fake server,
// where noise is small.
func BenchmarkObserver(b *testing.B) {
	for name, observers := range map[string][]observe.Observer{
		"none":    nil,
		"metrics": {prom.New(prom.Options{})},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := holdfast.New(fake.New(), &holdfast.Options{Observers: observers, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			m, ctx := c.Mutex("a"), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				l, err := m.Lock(ctx)
				if err != nil {
					b.Fatal(err)
				}
				_ = l.Release(ctx)
			}
			if n := c.Stats().DroppedEvents; n > 0 {
				b.ReportMetric(float64(n)/float64(b.N), "dropped/op")
			}
		})
	}
}

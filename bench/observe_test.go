package bench_test

import (
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
)

// BenchmarkObserver measures what an observer costs per lock and release, on a fake server,
// where noise is small.
func BenchmarkObserver(b *testing.B) {
	for _, bench := range []struct {
		name      string
		observers []observe.Observer
	}{
		{"none", nil},
		{"one", []observe.Observer{observe.Func(func(observe.Event) {})}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c, err := holdfast.New(fake.New(), &holdfast.Options{Observers: bench.observers, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			m, ctx := c.Mutex("a"), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				pair(b, ctx, m)
			}
		})
	}
}

package bench_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

func newIDs(tb testing.TB) *object.IDGenerator {
	g := object.NewIDGenerator(locktest.Open(tb, redistest.Start(tb).URL()), "g")
	if _, err := g.TryInit(context.Background(), 1, 1<<31-1); err != nil {
		tb.Fatal(err)
	}
	locktest.Must[int64](tb)(g.Next(context.Background()))
	return g
}

func TestIDsAllocateNothing(t *testing.T) {
	g, ctx := newIDs(t), t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = g.Next(ctx) }); n != 0 {
		t.Errorf("%v allocations per id", n)
	}
}

// BenchmarkIDs draws ids from memory.
func BenchmarkIDs(b *testing.B) {
	g, ctx := newIDs(b), context.Background()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = g.Next(ctx)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, _ = g.Next(ctx)
			}
		})
	})
}

package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// BenchmarkKinds locks and releases an uncontended lock of each kind, in turn with
// the floor.
func BenchmarkKinds(b *testing.B) {
	s := redistest.Start(b)
	f := newFloor(b, s)
	c := locktest.Open(b, s.URL())
	ctx := context.Background()
	rw := c.RWMutex("bench:rw")
	permits, plain := c.LeasedSemaphore("bench:permits"), c.Semaphore("bench:plain")
	for _, set := range []func(context.Context, int, time.Duration) (bool, error){permits.TrySet, plain.TrySet} {
		if _, err := set(ctx, 100, 0); err != nil {
			b.Fatal(err)
		}
	}
	eight := make([]holdfast.Locker, 8)
	for i := range eight {
		eight[i] = c.Mutex(fmt.Sprint("bench:", i))
	}
	cancellable, cancel := context.WithCancel(ctx)
	defer cancel()
	m := c.Mutex("bench:m")
	locked := func(m holdfast.Locker) func(int) { return func(int) { pair(b, ctx, m) } }
	for _, test := range []struct {
		name string
		pair func(int)
	}{
		{"mutex", locked(m)},
		{"mutex, cancellable", func(int) { pair(b, cancellable, m) }},
		{"fenced", locked(c.FencedMutex("bench:x"))},
		{"fair", locked(c.FairMutex("bench:f"))},
		{"write", locked(rw)},
		{"read", locked(rw.RLocker())},
		{"permit", locked(permits.Locker(1))},
		{"10 permits", locked(permits.Locker(10))},
		{"multi of 2", locked(holdfast.MultiLocker(eight[:2]...))},
		{"multi of 8", locked(holdfast.MultiLocker(eight...))},
		{"semaphore", func(int) {
			locktest.Acquire(b, plain, 1)
			locktest.ReleasePermits(b, plain, 1)
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			turns(b, test.pair, func(int) { f.pair(ctx) }, nothing)
		})
	}
}

// BenchmarkFair has many goroutines queue for one fair lock. The work of a
// hand-off does not grow with the queue.
func BenchmarkFair(b *testing.B) {
	for _, waiters := range []int{10, 1000} {
		b.Run(fmt.Sprint(waiters, " wait"), func(b *testing.B) {
			p := redistest.NewProxy(b, redistest.Start(b).Addr())
			m := locktest.Open(b, p.URL()).FairMutex("bench:fair")
			for b.Loop() {
				t, commands := compete(b, m, waiters, time.Second, p)
				b.ReportMetric(float64(t.Handoffs)/t.Took.Seconds(), "hand-offs/s")
				b.ReportMetric(float64(commands)/float64(t.Handoffs), "commands/hand-off")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

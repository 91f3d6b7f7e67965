package bench_test

import (
	"context"
	"sync"
	"sync/atomic"
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
	for _, test := range []struct {
		name string
		lock holdfast.Locker
	}{
		{"mutex", c.Mutex("bench:m")},
		{"fenced", c.FencedMutex("bench:x")},
		{"fair", c.FairMutex("bench:f")},
		{"write", rw},
		{"read", rw.RLocker()},
		{"permit", permits.Locker(1)},
		{"10 permits", permits.Locker(10)},
		{"multi of 2", holdfast.MultiLocker(c.Mutex("bench:1"), c.Mutex("bench:2"))},
		{"multi of 8", holdfast.MultiLocker(c.Mutex("bench:1"), c.Mutex("bench:2"), c.Mutex("bench:3"), c.Mutex("bench:4"),
			c.Mutex("bench:5"), c.Mutex("bench:6"), c.Mutex("bench:7"), c.Mutex("bench:8"))},
	} {
		b.Run(test.name, func(b *testing.B) {
			var ours, floors []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				locktest.Release(b, locktest.Lock(b, ctx, test.lock))
				middle := time.Now()
				f.pair(ctx, "floor", "redisson_lock__channel:{floor}")
				ours = append(ours, middle.Sub(start))
				floors = append(floors, time.Since(middle))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(locktest.Median(ours))/float64(locktest.Median(floors)), "x-floor")
		})
	}
	b.Run("semaphore", func(b *testing.B) {
		var ours, floors []time.Duration
		b.ReportAllocs()
		for b.Loop() {
			start := time.Now()
			locktest.Acquire(b, plain, 1)
			locktest.ReleasePermits(b, plain, 1)
			middle := time.Now()
			f.pair(ctx, "floor", "redisson_lock__channel:{floor}")
			ours = append(ours, middle.Sub(start))
			floors = append(floors, time.Since(middle))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(locktest.Median(ours))/float64(locktest.Median(floors)), "x-floor")
	})
}

// BenchmarkFair has many goroutines queue for one fair lock. The work of a
// hand-off does not grow with the queue.
func BenchmarkFair(b *testing.B) {
	for _, test := range []struct {
		name    string
		waiters int
	}{{"10 wait", 10}, {"1000 wait", 1000}} {
		b.Run(test.name, func(b *testing.B) {
			s := redistest.Start(b)
			p := redistest.NewProxy(b, s.Addr())
			c := locktest.Open(b, p.URL())
			m := c.FairMutex("bench:fair")
			ctx, cancel := context.WithCancel(context.Background())
			var handoffs atomic.Int64
			var wg sync.WaitGroup
			for range test.waiters {
				wg.Go(func() {
					for {
						l, err := m.Lock(ctx)
						if err != nil {
							return
						}
						handoffs.Add(1)
						_ = l.Release(ctx)
					}
				})
			}
			time.Sleep(time.Second) // until the queue is long
			p.ResetCounts()
			before := handoffs.Load()
			start := time.Now()
			for b.Loop() {
				time.Sleep(100 * time.Millisecond)
			}
			n := handoffs.Load() - before
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "hand-offs/s")
			b.ReportMetric(float64(p.Total())/float64(n), "commands/hand-off")
			cancel()
			wg.Wait()
		})
	}
}

// BenchmarkReaders has 64 goroutines read under one lock, against as many pairs
// of the floor on names of their own.
func BenchmarkReaders(b *testing.B) {
	s := redistest.Start(b)
	f := newFloor(b, s)
	rw := locktest.Open(b, s.URL()).RWMutex("bench:rw")
	run := func(op func()) float64 {
		var n atomic.Int64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						op()
						n.Add(1)
					}
				}
			})
		}
		start := time.Now()
		time.Sleep(time.Second)
		close(stop)
		wg.Wait()
		return float64(n.Load()) / time.Since(start).Seconds()
	}
	ctx := context.Background()
	var ours, floor float64
	for b.Loop() {
		ours += run(func() { locktest.Release(b, locktest.Lock(b, ctx, rw.RLocker())) })
		floor += run(func() { f.pair(ctx, "floor", "redisson_lock__channel:{floor}") })
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours/floor, "x-floor-rate")
}

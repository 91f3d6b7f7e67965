package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// takeOnce is a bare EVALSHA, with the shortest script that still reads a rate,
// takes a permit, and logs it.
const takeOnce = `local rate = redis.call('hget', KEYS[1], 'rate')
	local free = tonumber(redis.call('get', KEYS[2]) or rate)
	if free < 1 then return 0 end
	redis.call('set', KEYS[2], free - 1); redis.call('zadd', KEYS[3], ARGV[1], ARGV[2]); return 1`

// takeFloor returns a function that calls it.
func takeFloor(b *testing.B, s *redistest.Server) func(i int) {
	f := newFloor(b, s)
	sha := s.Do(b, "SCRIPT", "LOAD", takeOnce).(string)
	s.Do(b, "HSET", "floor", "rate", "2000000000")
	return func(i int) {
		call := f.client.B().Evalsha().Sha1(sha).Numkeys(3).Key("floor", "{floor}:value", "{floor}:permits").
			Arg(strconv.Itoa(i), fmt.Sprintf("%016d", i)).Build()
		if err := f.client.Do(context.Background(), call).Error(); err != nil {
			b.Fatal(err)
		}
	}
}

// turns runs ours and the floor turn by turn, so that both see the same noise,
// and reports how they compare. What tidies up after ours does not count.
func turns(b *testing.B, ours, floor, tidy func(i int)) {
	var a, f []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		ours(i)
		middle := time.Now()
		floor(i)
		a = append(a, middle.Sub(start))
		f = append(f, time.Since(middle))
		tidy(i)
	}
	x, y := locktest.Median(a), locktest.Median(f)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(x.Nanoseconds()), "ns/call")
	b.ReportMetric(float64(x)/float64(y), "x-floor")
}

// BenchmarkLimiter takes permits that are free, and asks for some that are not.
func BenchmarkLimiter(b *testing.B) {
	s := redistest.Start(b)
	c := locktest.Open(b, s.URL())
	floor := takeFloor(b, s)
	// Permits come back all the time in the first, and never in the others.
	moving, still, none := c.RateLimiter("bench:moving"), c.RateLimiter("bench:still"), c.RateLimiter("bench:none")
	locktest.SetRate(b, moving, holdfast.Rate{Permits: 1 << 30, Per: 20 * time.Millisecond})
	locktest.SetRate(b, still, holdfast.Rate{Permits: 1 << 30, Per: time.Hour})
	locktest.SetRate(b, none, holdfast.Rate{Permits: 1, Per: time.Hour})
	locktest.WantAllow(b, none, 1, true)
	nothing := func(int) {}
	for _, test := range []struct {
		name       string
		call, tidy func(int)
	}{
		{"Allow", func(int) { locktest.WantAllow(b, moving, 1, true) }, nothing},
		{"Allow, nothing over", func(int) { locktest.WantAllow(b, still, 1, true) }, nothing},
		// A change makes the client ask the server again.
		{"Allow, refused by the server", func(int) { locktest.WantAllow(b, none, 1, false) }, func(int) {
			if _, err := none.UpdateRate(context.Background(), holdfast.Rate{Permits: 1, Per: time.Hour}); err != nil {
				b.Fatal(err)
			}
		}},
		{"WaitN", func(int) {
			if err := moving.WaitN(context.Background(), 3); err != nil {
				b.Fatal(err)
			}
		}, nothing},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			turns(b, test.call, floor, test.tidy)
		})
	}
}

// BenchmarkFlood has many goroutines ask for a permit that is not free, in turn
// with bare EVALSHA calls by the same goroutines.
func BenchmarkFlood(b *testing.B) {
	s := redistest.Start(b)
	none := locktest.Open(b, s.URL()).RateLimiter("bench:none")
	locktest.SetRate(b, none, holdfast.Rate{Permits: 1, Per: time.Hour})
	locktest.WantAllow(b, none, 1, true)
	floor := takeFloor(b, s)
	ctx := context.Background()
	refuse := func(int) {
		if ok, err := none.Allow(ctx); ok || err != nil {
			b.Error(ok, err)
		}
	}
	run := func(op func(int)) float64 {
		var n atomic.Int64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		start := time.Now()
		for range 64 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						n.Add(int64(i))
						return
					default:
						op(i)
					}
				}
			})
		}
		time.Sleep(250 * time.Millisecond)
		close(stop)
		wg.Wait()
		return float64(n.Load()) / time.Since(start).Seconds()
	}
	var refused, bare []float64
	for b.Loop() {
		refused = append(refused, run(refuse))
		bare = append(bare, run(floor))
	}
	slices.Sort(refused)
	slices.Sort(bare)
	x, y := refused[len(refused)/2], bare[len(bare)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(x, "refusals/s")
	b.ReportMetric(y, "evalsha/s")
	b.ReportMetric(x/y, "x-floor-rate")
}

// BenchmarkReserve reserves permits behind earlier reservations, which the script
// has to count.
func BenchmarkReserve(b *testing.B) {
	s := redistest.Start(b)
	c := locktest.Open(b, s.URL())
	floor := takeFloor(b, s)
	for _, others := range []int{10, 100, 900} {
		b.Run(fmt.Sprint(others, " before"), func(b *testing.B) {
			l := c.RateLimiter(fmt.Sprint("bench:", others))
			locktest.SetRate(b, l, holdfast.Rate{Permits: 1, Per: time.Hour})
			for range others {
				locktest.Reserve(b, l, 1)
			}
			var r *holdfast.Reservation
			turns(b, func(int) { r = locktest.Reserve(b, l, 1) }, floor, func(int) {
				if err := r.Cancel(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

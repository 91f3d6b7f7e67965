package bench_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/rueidis"
)

// A floor is the least that a lock and its release can cost with this client
// library: two bare EVALSHA with the shortest scripts that still set and delete
// the hash.
type floor struct {
	client       rueidis.Client
	lock, unlock string // SHA-1
}

func newFloor(tb testing.TB, s *redistest.Server) *floor {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	load := func(script string) string { return s.Do(tb, "SCRIPT", "LOAD", script).(string) }
	return &floor{
		client: c,
		lock: load(`if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil end
			return redis.call('pttl', KEYS[1])`),
		unlock: load(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
			if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
			redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], '0'); return 1`),
	}
}

func (f *floor) pair(ctx context.Context, name, channel string) {
	b := f.client.B()
	f.client.Do(ctx, b.Evalsha().Sha1(f.lock).Numkeys(1).Key(name).Arg("30000", "me:1").Build())
	f.client.Do(ctx, b.Evalsha().Sha1(f.unlock).Numkeys(2).Key(name, channel).Arg("me:1").Build())
}

func pair(tb testing.TB, ctx context.Context, m *holdfast.Mutex) {
	l, err := m.Lock(ctx)
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkUncontended locks and releases an uncontended lock, in turn with the
// floor, so that both see the same noise.
func BenchmarkUncontended(b *testing.B) {
	s := redistest.Start(b)
	f := newFloor(b, s)
	m := locktest.Open(b, s.URL()).Mutex("bench")
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
	}{{"background", context.Background()}, {"cancellable", cancellable}} {
		b.Run(test.name, func(b *testing.B) {
			var ours, floors []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				pair(b, test.ctx, m)
				middle := time.Now()
				f.pair(context.Background(), "floor", "redisson_lock__channel:{floor}")
				ours = append(ours, middle.Sub(start))
				floors = append(floors, time.Since(middle))
			}
			o, f := locktest.Median(ours), locktest.Median(floors)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(o.Nanoseconds()), "ns/pair")
			b.ReportMetric(float64(f.Nanoseconds()), "ns/floor")
			b.ReportMetric(float64(o)/float64(f), "x-floor")
		})
	}
}

// BenchmarkOwnNames has 512 goroutines, each with a name of its own.
func BenchmarkOwnNames(b *testing.B) {
	s := redistest.Start(b)
	f := newFloor(b, s)
	c := locktest.Open(b, s.URL())
	const goroutines, rounds = 512, 20
	ms, names, channels := make([]*holdfast.Mutex, goroutines), make([]string, goroutines), make([]string, goroutines)
	for i := range ms {
		ms[i] = c.Mutex(fmt.Sprint("own:", i))
		names[i] = fmt.Sprint("floor:", i)
		channels[i] = fmt.Sprint("redisson_lock__channel:{floor:", i, "}")
	}
	all := func(pair func(i int)) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				for range rounds {
					pair(i)
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	ctx := context.Background()
	var ours, floors []time.Duration
	for b.Loop() {
		ours = append(ours, all(func(i int) { pair(b, ctx, ms[i]) }))
		floors = append(floors, all(func(i int) { f.pair(ctx, names[i], channels[i]) }))
	}
	o, fl := locktest.Median(ours), locktest.Median(floors)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(goroutines*rounds/o.Seconds(), "pairs/s")
	b.ReportMetric(goroutines*rounds/fl.Seconds(), "floor-pairs/s")
	b.ReportMetric(float64(fl)/float64(o), "x-floor")
}

// BenchmarkHotName has 16 goroutines of one process contend for one name. A
// hand-off is an acquisition by a goroutine other than the previous holder.
func BenchmarkHotName(b *testing.B) {
	s := redistest.Start(b)
	p := redistest.NewProxy(b, s.Addr())
	for name, handoffs := range map[string]int{"handoffs": 0, "server": -1} {
		b.Run(name, func(b *testing.B) {
			const goroutines = 16
			m := locktest.Open(b, s.URL(), holdfast.Options{Handoffs: handoffs}).Mutex("hot")
			counted := locktest.Open(b, p.URL(), holdfast.Options{Handoffs: handoffs}).Mutex("hot")
			run := func(m *holdfast.Mutex, d time.Duration) (handoffs int, jain float64, took time.Duration) {
				counts := make([]int, goroutines)
				last := -1
				start := time.Now()
				var wg sync.WaitGroup
				for i := range goroutines {
					wg.Go(func() {
						for time.Since(start) < d {
							l, err := m.Lock(context.Background())
							if err != nil {
								b.Error(err)
								return
							}
							counts[i]++
							if last != i {
								last = i
								handoffs++
							}
							_ = l.Release(context.Background())
						}
					})
				}
				wg.Wait()
				return handoffs, fairness(counts), time.Since(start)
			}
			for b.Loop() {
				n, jain, took := run(m, time.Second)
				b.ReportMetric(float64(n)/took.Seconds(), "handoffs/s")
				b.ReportMetric(jain, "Jain")
			}
			p.ResetCounts()
			n, _, _ := run(counted, 500*time.Millisecond)
			b.ReportMetric(float64(p.Total())/float64(n), "commands/handoff")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fairness is Jain's index: 1 if all have the same share, 1/n if one has all.
func fairness(counts []int) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// BenchmarkHeld holds 10,000 leases and looks at what their renewal costs.
func BenchmarkHeld(b *testing.B) {
	s := redistest.Start(b)
	p := redistest.NewProxy(b, s.Addr())
	for b.Loop() {
		held(b, p, 10_000)
	}
	b.ReportMetric(0, "ns/op")
}

// TestHeldLeasesAreCheap bounds what 10,000 held leases cost.
func TestHeldLeasesAreCheap(t *testing.T) {
	s := redistest.Start(t)
	held(t, redistest.NewProxy(t, s.Addr()), 10_000)
}

func held(tb testing.TB, p *redistest.Proxy, n int) {
	// One lease of ours and not one goroutine more per lease.
	const period = 2 * time.Second // with leases long enough for a busy machine
	c := locktest.Open(tb, p.URL(), holdfast.Options{WatchdogTimeout: 20 * time.Second, RenewEvery: period})
	ctx := context.Background()
	pair(tb, ctx, c.Mutex("warm-up"))
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.GC()
	runtime.ReadMemStats(&before)
	leases := make([]*holdfast.Lease, n)
	queue := make(chan int)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range queue {
				leases[i] = locktest.Lock(tb, ctx, c.Mutex(fmt.Sprint("held:", i)))
			}
		})
	}
	for i := range n {
		queue <- i
	}
	close(queue)
	wg.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	locktest.Eventually(tb, 10*time.Second, "hardly more goroutines than before", func() bool { return runtime.NumGoroutine()-goroutines <= 4 })
	time.Sleep(3 * time.Second) // in step by now
	p.ResetCounts()
	const periods = 3
	time.Sleep(periods * period)
	commands := p.Count("EVALSHA")
	for i, l := range leases {
		if !l.Valid() {
			tb.Fatalf("lease %d is lost", i)
		}
	}
	perPeriod := float64(commands) / periods
	// A period more or less may fall into the time looked at.
	if limit := float64(n) / 100 * (periods + 1) / periods; perPeriod > limit {
		tb.Errorf("%.1f commands per period for %d leases, more than %.1f", perPeriod, n, limit)
	}
	bytes := float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
	if b, ok := tb.(*testing.B); ok {
		b.ReportMetric(perPeriod, "commands/period")
		b.ReportMetric(bytes, "B/lease")
	}
	tb.Logf("%d leases: %.1f commands per period, %.0f bytes each", n, perPeriod, bytes)
	_ = c.Close()
}

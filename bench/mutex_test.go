package bench_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/load"
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

func (f *floor) pair(ctx context.Context) {
	b := f.client.B()
	f.client.Do(ctx, b.Evalsha().Sha1(f.lock).Numkeys(1).Key("floor").Arg("30000", "me:1").Build())
	f.client.Do(ctx, b.Evalsha().Sha1(f.unlock).Numkeys(2).Key("floor", "redisson_lock__channel:{floor}").Arg("me:1").Build())
}

func pair(tb testing.TB, ctx context.Context, m holdfast.Locker) {
	tb.Helper()
	l, err := m.Lock(ctx)
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// turns runs ours and the floor turn by turn, so that both see the same noise,
// and reports how they compare. What tidies up after ours does not count.
func turns(b *testing.B, ours, floor, tidy func(i int)) {
	var a, f []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		ours(i)
		middle := time.Now()
		floor(i)
		a = append(a, middle.Sub(start))
		f = append(f, time.Since(middle))
		tidy(i)
	}
	x, y := load.Percentile(a, 50), load.Percentile(f, 50)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(x.Nanoseconds()), "ns/call")
	b.ReportMetric(float64(x)/float64(y), "x-floor")
}

func nothing(int) {}

// A contender is one goroutine that wants a lock.
type contender struct {
	holdfast.Locker
	lease *holdfast.Lease
}

// Acquire implements load.Lock.
func (c *contender) Acquire(ctx context.Context, _ int) (g load.Grant, err error) {
	c.lease, err = c.Lock(ctx)
	return g, err
}

// Release implements load.Lock.
func (c *contender) Release(ctx context.Context, _ bool) error { return c.lease.Release(ctx) }

// compete has n goroutines contend for one lock. It returns what they did in a window, and how
// many commands the proxy passed on.
func compete(b *testing.B, m holdfast.Locker, n int, window time.Duration, p *redistest.Proxy) (load.Total, int) {
	jobs, err := load.Divide(nil, 1, 1, n)
	if err != nil {
		b.Fatal(err)
	}
	open := func(context.Context, load.Job, *load.Traffic) (load.Crew, error) {
		crew := load.Crew{Close: func() {}}
		for range n {
			crew.Locks = append(crew.Locks, &contender{Locker: m})
		}
		return crew, nil
	}
	g, err := load.Start(b.Context(), 1, jobs, open, nil)
	if err != nil {
		b.Fatal(err)
	}
	g.Go()
	_ = g.WarmUp(time.Second) // Stop returns its error, too
	before := p.Total()
	g.Begin()
	_ = g.Sleep(window)
	g.End()
	commands := p.Total() - before
	if err := g.Stop(); err != nil {
		b.Fatal(err)
	}
	return g.Total(jobs...), commands
}

// BenchmarkHotName has 16 goroutines of one process contend for one name. A
// hand-off is an acquisition by a goroutine other than the previous holder.
func BenchmarkHotName(b *testing.B) {
	s := redistest.Start(b)
	p := redistest.NewProxy(b, s.Addr())
	for name, handoffs := range map[string]int{"handoffs": 0, "server": -1} {
		b.Run(name, func(b *testing.B) {
			m := locktest.Open(b, s.URL(), holdfast.Options{Handoffs: handoffs}).Mutex("hot")
			counted := locktest.Open(b, p.URL(), holdfast.Options{Handoffs: handoffs}).Mutex("hot")
			for b.Loop() {
				t, _ := compete(b, m, 16, time.Second, p)
				b.ReportMetric(float64(t.Handoffs)/t.Took.Seconds(), "handoffs/s")
				b.ReportMetric(load.Jain(t.Shares), "Jain")
			}
			t, commands := compete(b, counted, 16, time.Second/2, p)
			b.ReportMetric(float64(commands)/float64(t.Handoffs), "commands/handoff")
			b.ReportMetric(0, "ns/op")
		})
	}
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
	err := load.Each(n, 64, func(i int) (err error) {
		leases[i], err = c.Mutex(fmt.Sprint("held:", i)).Lock(ctx)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
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

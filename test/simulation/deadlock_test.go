package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
)

// reports counts the deadlocks that clients report.
type reports struct {
	mu   sync.Mutex
	errs []*holdfast.DeadlockError
}

func (r *reports) Observe(e observe.Event) {
	if e.Type != observe.Deadlock {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, deadlockOf(e))
}

func deadlockOf(e observe.Event) *holdfast.DeadlockError {
	var dead *holdfast.DeadlockError
	if !errors.As(e.Err, &dead) {
		panic(e.Err)
	}
	return dead
}

func (r *reports) all() []*holdfast.DeadlockError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*holdfast.DeadlockError(nil), r.errs...)
}

func (r *reports) client(t *testing.T, d *fake.Driver, o holdfast.Options) *holdfast.Client {
	t.Helper()
	o.Observers, o.Logger = []observe.Observer{r}, slog.New(slog.DiscardHandler)
	c, err := holdfast.New(d, &o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Clients that hold one lock each and wait for that of the next one are reported by all of
// them within seconds, also if each lock is at a server of its own; and not before they wait.
func TestDeadlock(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		for _, servers := range []int{1, n} {
			t.Run(fmt.Sprint(n, " clients, ", servers, " servers"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ds := make([]*fake.Driver, servers)
					for i := range ds {
						ds[i] = fake.New()
					}
					all := new(reports)
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					var clients []*holdfast.Client
					for i := range n {
						here, there := all.client(t, ds[i%servers], holdfast.Options{}), all.client(t, ds[(i+1)%n%servers], holdfast.Options{})
						clients = append(clients, here, there)
						l, err := here.Mutex(fmt.Sprint("lock", i)).Lock(ctx)
						if err != nil {
							t.Fatal(err)
						}
						wg.Go(func() {
							time.Sleep(time.Duration(i+1) * 100 * time.Millisecond) // all hold their first lock
							_, _ = there.Mutex(fmt.Sprint("lock", (i+1)%n)).Lock(l.Context())
							_ = l.Release(context.Background())
						})
					}
					time.Sleep(2 * time.Second)
					if got := all.all(); len(got) != 0 {
						t.Errorf("reported after 2 s: %v", got)
					}
					limit := 8 * time.Second
					if servers > 1 {
						limit += time.Duration(2*n) * time.Second
					}
					time.Sleep(limit)
					got := all.all()
					if len(got) != n {
						t.Errorf("%d reports", len(got))
					}
					for _, e := range got {
						if len(e.Calls) != n || e.Error() != got[0].Error() || !errors.Is(e, holdfast.ErrDeadlock) {
							t.Errorf("%v", e)
						}
						for _, c := range e.Calls {
							var held, wanted int
							_, _ = fmt.Sscanf(strings.Join(c.Holds, " "), "lock%d", &held)
							_, _ = fmt.Sscanf(strings.Join(c.Wants, " "), "lock%d", &wanted)
							if len(c.Holds) != 1 || len(c.Wants) != 1 || wanted != (held+1)%n || c.Who == "" || c.Client == "" {
								t.Errorf("%+v", c)
							}
						}
					}
					time.Sleep(time.Minute)
					if again := all.all(); len(again) != n {
						t.Errorf("%d reports after a minute", len(again))
					}
					cancel()
					wg.Wait()
					for _, c := range clients {
						_ = c.Close()
					}
				})
			})
		}
	}
}

// One call of a deadlock fails: the youngest of those that may be ended. The others get
// their locks.
func TestDeadlockEnds(t *testing.T) {
	for _, test := range []struct {
		name  string
		modes []holdfast.DeadlockMode
		ended int // which call
	}{
		{"the youngest", []holdfast.DeadlockMode{holdfast.EndDeadlocks, holdfast.EndDeadlocks, holdfast.EndDeadlocks}, 2},
		{"the youngest that may be ended", []holdfast.DeadlockMode{holdfast.EndDeadlocks, holdfast.EndDeadlocks, holdfast.ReportDeadlocks}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, all, n := fake.New(), new(reports), len(test.modes)
				errs := make([]error, n)
				var wg sync.WaitGroup
				for i, mode := range test.modes {
					c := all.client(t, d, holdfast.Options{Deadlocks: mode})
					defer c.Close()
					l, err := c.Mutex(fmt.Sprint("lock", i)).Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						time.Sleep(time.Duration(i+1) * 100 * time.Millisecond) // all hold their first lock
						var next *holdfast.Lease
						if next, errs[i] = c.Mutex(fmt.Sprint("lock", (i+1)%n)).Lock(l.Context()); next != nil {
							_ = next.Release(t.Context())
						}
						_ = l.Release(t.Context())
					})
				}
				wg.Wait()
				for i, err := range errs {
					var dead *holdfast.DeadlockError
					switch {
					case i != test.ended && err != nil:
						t.Errorf("call %d: %v", i, err)
					case i == test.ended && (!errors.As(err, &dead) || len(dead.Calls) != n || !errors.Is(err, holdfast.ErrNotAcquired)):
						t.Errorf("call %d: %v", i, err)
					}
				}
			})
		})
	}
}

// A faulty driver can be paused or cut off.
type faulty struct {
	*fake.Driver
	mu    sync.Mutex
	until time.Time // paused
	dead  bool
}

func (f *faulty) pass(ctx context.Context) error {
	f.mu.Lock()
	pause, dead := time.Until(f.until), f.dead
	f.mu.Unlock()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return driver.Unsent(ctx.Err())
		}
	}
	if dead {
		return driver.Unsent(errors.New("cut off"))
	}
	return nil
}

func (f *faulty) set(pause time.Duration, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.until, f.dead = time.Now().Add(pause), dead
}

func (f *faulty) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if err := f.pass(ctx); err != nil {
		return driver.Reply{}, err
	}
	return f.Driver.Do(ctx, c)
}

func (f *faulty) DoMany(ctx context.Context, cs []driver.Call) []driver.Result {
	if err := f.pass(ctx); err != nil {
		rs := make([]driver.Result, len(cs))
		for i := range rs {
			rs[i].Err = err
		}
		return rs
	}
	return f.Driver.DoMany(ctx, cs)
}

// A span is a time in which a worker held a lock or waited for one.
type span struct {
	name       string
	begin, end time.Time // the zero time: it still does
}

// A history is what a worker did.
type history struct {
	mu           sync.Mutex
	holds, waits []span
}

func (h *history) begin(list *[]span, name string) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(*list)
	*list = append(*list, span{name: name, begin: time.Now()})
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		(*list)[i].end = time.Now()
	}
}

// during returns the last time, at or before now, at which the worker held one lock and
// waited for another, as a span.
func (h *history) during(holds, wants string) (span, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range slices.Backward(h.waits) {
		for _, l := range slices.Backward(h.holds) {
			if w.name != wants || l.name != holds {
				continue
			}
			s := span{begin: w.begin, end: w.end}
			if l.begin.After(s.begin) {
				s.begin = l.begin
			}
			if !l.end.IsZero() && (s.end.IsZero() || l.end.Before(s.end)) {
				s.end = l.end
			}
			if s.end.IsZero() {
				s.end = time.Now().Add(time.Nanosecond)
			}
			if s.begin.Before(s.end) {
				return s, true
			}
		}
	}
	return span{}, false
}

// A call that has ended is not part of a deadlock, although the server still has its wait,
// because its client was cut off.
func TestDeadlockStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, all := fake.New(), new(reports)
		link := &faulty{Driver: d}
		near := all.client(t, d, holdfast.Options{})
		far, err := holdfast.New(link, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		a, err := near.Mutex("a").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := far.Mutex("b").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2500*time.Millisecond, func() { link.set(20*time.Second, false) })
		// The error depends on whether a request was under way when the time was over.
		_, err = far.Mutex("a").Lock(b.Context(), holdfast.Wait(3*time.Second))
		if !errors.Is(err, holdfast.ErrNotAcquired) && !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		// Now far waits no more, and near begins to wait for it.
		if _, err := near.Mutex("b").Lock(a.Context(), holdfast.Wait(15*time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Fatal(err)
		}
		if got := all.all(); len(got) != 0 {
			t.Errorf("reported: %v", got)
		}
		_ = near.Close()
		_ = far.Close()
	})
}

// Hours of random histories with pauses and clients that are cut off: every deadlock that
// is reported has existed.
func TestDeadlockHistories(t *testing.T) {
	const workers, locks = 5, 3
	found := 0
	for seed := range uint64(36) {
		synctest.Test(t, func(t *testing.T) {
			d, random := fake.New(), rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex // of random and histories
			number := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			histories := make(map[string]*history)
			observer := observe.Func(func(e observe.Event) {
				if e.Type != observe.Deadlock {
					return
				}
				dead := deadlockOf(e)
				var begin, end time.Time
				mu.Lock()
				defer mu.Unlock()
				found++
				for _, c := range dead.Calls {
					s, ok := histories[c.Client].during(c.Holds[0], c.Wants[0])
					if !ok {
						t.Errorf("seed %d: %v, but %s did not", seed, dead, c.Client)
						return
					}
					if s.begin.After(begin) {
						begin = s.begin
					}
					if end.IsZero() || s.end.Before(end) {
						end = s.end
					}
				}
				if !begin.Before(end) {
					t.Errorf("seed %d: %v, but not at the same time", seed, dead)
				}
			})
			over := time.Now().Add(10 * time.Minute)
			work := func() {
				for time.Now().Before(over) {
					link := &faulty{Driver: d}
					c, err := holdfast.New(link, &holdfast.Options{
						WatchdogTimeout: 12 * time.Second, RetryTimeout: 2 * time.Second,
						Observers: []observe.Observer{observer}, Logger: slog.New(slog.DiscardHandler),
					})
					if err != nil {
						t.Error(err)
						return
					}
					h := new(history)
					mu.Lock()
					histories[c.ID()] = h
					mu.Unlock()
					life := time.Now().Add(time.Duration(10+number(60)) * time.Second)
					ctx, cancel := context.WithDeadline(t.Context(), life)
					var faults sync.WaitGroup
					faults.Go(func() { // also while calls wait
						for ctx.Err() == nil {
							time.Sleep(time.Duration(number(20000)) * time.Millisecond)
							if number(8) == 0 {
								link.set(0, true) // for ever
								return
							}
							link.set(time.Duration(number(8000))*time.Millisecond, false)
						}
					})
					for ctx.Err() == nil {
						nest(ctx, h, c, number, locks)
						time.Sleep(time.Duration(number(100)) * time.Millisecond)
					}
					cancel()
					faults.Wait()
					_ = c.Close()
				}
			}
			var wg sync.WaitGroup
			for range workers {
				wg.Go(work)
			}
			wg.Wait()
		})
	}
	t.Logf("%d reports", found)
	if found < 20 {
		t.Errorf("only %d reports: the histories have too few deadlocks", found)
	}
}

// nest locks some locks in random order, each with the context of the one before.
func nest(ctx context.Context, h *history, c *holdfast.Client, number func(int) int, locks int) {
	name := fmt.Sprint("lock", number(locks))
	ended := h.begin(&h.waits, name)
	l, err := c.Mutex(name).Lock(ctx, holdfast.NonReentrant(), holdfast.Wait(time.Duration(3000+number(17000))*time.Millisecond))
	ended()
	if err != nil {
		return
	}
	released := h.begin(&h.holds, name)
	time.Sleep(time.Duration(number(3000)) * time.Millisecond)
	if number(3) > 0 && l.Context().Err() == nil {
		nest(l.Context(), h, c, number, locks)
		time.Sleep(time.Duration(number(6000)) * time.Millisecond) // it still holds the lock, and waits no more
	}
	released() // before the release begins
	_ = l.Release(ctx)
}

package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Waiters cost the server next to nothing: one of them per process asks.
func TestWaitersAreCheap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	// The hand-over may take as long as it needs: the machine may be slow.
	holder, waiter := locktest.Open(t, s.URL()), locktest.Open(t, p.URL(), holdfast.Options{HandoffTime: time.Minute})
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), holder.Mutex(n))
	p.ResetCounts()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if l, err := waiter.Mutex(n).Lock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		})
	}
	locktest.Eventually(t, 10*time.Second, "subscribed", func() bool { return len(s.Channels(t)) == 3 })
	locktest.AwaitWaiting(t, waiter, 1000)
	if locked, err := waiter.Mutex(n).IsLocked(ctx); !locked || err != nil { // what was sent before this request is counted
		t.Fatal(locked, err)
	}
	if n := p.Total() - p.Count("PING") - p.Count("INFO"); n > 20 { // those are sent now and then, whoever waits
		t.Errorf("%d commands for 1000 waiters: %v", n, p.Commands())
	}
	p.ResetCounts()
	locktest.Release(t, l)
	start := time.Now()
	locktest.Eventually(t, 20*time.Second, "all had it", func() bool { return s.Int(t, "EXISTS", n) == 0 && time.Since(start) > 100*time.Millisecond })
	wg.Wait()
	if n := p.Total(); n > 500 {
		t.Errorf("%d commands for 1000 hand-offs: %v", n, p.Commands())
	}
	cancel()
}

// parked returns how many goroutines that a function has started wait in the
// engine.
func parked(function string) (n int) { return parkedIn(function, "internal/engine.") }

// parkedIn returns how many goroutines that a function has started wait in a function of the
// engine.
func parkedIn(function, in string) (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		state, calls, _ := strings.Cut(g, "\n")
		if strings.Contains(state, "[select") && strings.Contains(calls, in) && strings.Contains(calls, function) {
			n++
		}
	}
	return n
}

// Waiters enter in the order of their arrival.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	for name, handoffs := range map[string]int{"handed over": 0, "through the server": -1} {
		t.Run(name, func(t *testing.T) {
			c := locktest.Open(t, redistest.Shared(t).URL(), holdfast.Options{Handoffs: handoffs})
			m := c.Mutex("fcfs:" + name)
			first := locktest.Lock(t, t.Context(), m)
			const n = 50
			order := make(chan int, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					l := locktest.Lock(t, t.Context(), m)
					order <- i
					locktest.Release(t, l)
				})
				// So that they queue in this order.
				locktest.Eventually(t, 10*time.Second, "it waits", func() bool { return parked("TestFirstComeFirstServed") > i })
			}
			locktest.Release(t, first)
			wg.Wait()
			for want := range n {
				if got := <-order; got != want {
					t.Fatalf("%d came before %d", got, want)
				}
			}
		})
	}
}

// A lock is taken away at the server from a lease of this client: deleted,
// flushed, or freed by force by another client. Those of this client that queue
// behind the lease get it within the poll interval, and the lease is told.
func TestQueueBehindTakenLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// Neither a renewal nor the end of a lease may come to the help of a waiter.
	c := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: 10 * time.Minute, PollInterval: 300 * time.Millisecond})
	far := locktest.Open(t, s.URL())
	takes := map[string]func(t *testing.T, k locktest.Kind, name string){
		"deleted": func(t *testing.T, _ locktest.Kind, name string) { s.Do(t, "DEL", name) },
		"forced": func(t *testing.T, k locktest.Kind, name string) {
			if freed, err := k.Make(far, name).ForceUnlock(t.Context()); !freed || err != nil {
				t.Fatal(freed, err)
			}
		},
	}
	for how, take := range takes {
		for _, lease := range []time.Duration{0, 5 * time.Minute} {
			locktest.Each(t, "PSFW", func(t *testing.T, k locktest.Kind) {
				m := k.Make(c, fmt.Sprint(how, lease, k.Name))
				var opts []holdfast.LockOption
				if lease > 0 {
					opts = append(opts, holdfast.LeaseTime(lease))
				}
				l, err := m.Lock(t.Context(), opts...)
				if err != nil {
					t.Fatal(err)
				}
				waiter := locktest.Background(t.Context(), m)
				locktest.AwaitWaiting(t, c, 1)
				take(t, k, m.Name())
				next := locktest.EnteredAfter(t, 5*time.Second, waiter)
				if l.Valid() {
					t.Error("two leases are valid")
				}
				if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("release of what was taken away: %v", err)
				}
				locktest.Release(t, next)
			})
		}
	}
}

// What was taken away from a lease of this client is granted to the next call, also if that
// call waits for less than the poll interval, and the lease is told at once.
func TestTryTakenLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{PollInterval: time.Minute})
	for _, wait := range []time.Duration{0, 3 * time.Second} {
		locktest.Each(t, "PSFW", func(t *testing.T, k locktest.Kind) {
			m := k.Make(c, fmt.Sprint(k.Name, wait))
			l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(5*time.Minute))
			s.Do(t, "DEL", m.Name())
			next, err := m.TryLock(t.Context(), holdfast.Wait(wait))
			if err != nil {
				t.Fatalf("wait %v: %v", wait, err)
			}
			if l.Valid() {
				t.Error("two leases are valid")
			}
			locktest.Release(t, next)
		})
	}
}

// An error says what the holder has left when the wait ends, and whether the
// holder is a lease of the same client.
func TestNotAcquiredTells(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, far := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	locktest.Each(t, "PSFRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(c, locktest.Name(t))
		l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(5*time.Minute))
		for who, client := range map[string]*holdfast.Client{"same client": c, "other client": far} {
			_, err := k.Rival(client, m.Name()).TryLock(t.Context(), holdfast.Wait(1500*time.Millisecond))
			if !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Fatalf("%s: %v", who, err)
			}
			if local := strings.Contains(err.Error(), "another lease of this client"); local != (client == c) {
				t.Errorf("%s: %v", who, err)
			}
			ttl := time.Duration(s.Int(t, "PTTL", m.Name())) * time.Millisecond
			if left := holdfast.Remaining(err); left < ttl-locktest.Late || left > ttl+time.Second {
				t.Errorf("%s: %v remain, the server says %v", who, left, ttl)
			}
		}
		locktest.Release(t, l)
	})
}

// A wait without an end is one of all durations.
func TestLongestWait(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	for _, l := range []holdfast.Locker{c.Mutex(n), c.FairMutex(n), c.RWMutex(n), c.RWMutex(n).RLocker(), holdfast.MultiLocker(c.Mutex(n), c.Mutex(n+"2"))} {
		locktest.Release(t, locktest.Lock(t, t.Context(), l, holdfast.Wait(math.MaxInt64)))
	}
}

// A free lock is had in the shortest of times, also by a client that lets
// others go first.
func TestShortWait(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), a.Mutex("x"))
	locktest.Eventually(t, 20*time.Second, "there is a subscription without a waiter", func() bool {
		_, err := b.Mutex("x").TryLock(t.Context(), holdfast.Wait(20*time.Millisecond))
		return errors.Is(err, holdfast.ErrNotAcquired) // else what it has asked may run later
	})
	locktest.Eventually(t, 20*time.Second, "the client that gave up is not in the queue", func() bool {
		return s.Int(t, "EXISTS", "holdfast:queue:{x}") == 0 // a slow server may answer after the call has returned
	})
	locktest.Release(t, l)
	for range 20 {
		start := time.Now()
		l, err := a.Mutex("x").TryLock(t.Context(), holdfast.Wait(time.Millisecond))
		if errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrNotAcquired) && time.Since(start) > time.Second {
			// In such a short time a busy server may not answer. What it grants
			// nevertheless is undone first.
			locktest.Release(t, locktest.Lock(t, t.Context(), a.Mutex("x")))
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		locktest.Release(t, l)
	}
}

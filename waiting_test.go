package holdfast_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// patient are the settings of waiters: if they only woke when a lease ends,
// they would be far too late.
var patient = holdfast.Options{WatchdogTimeout: 20 * time.Second, PollInterval: 300 * time.Millisecond}

func init() { workers["wait"] = waitWorker }

// waitWorker lets sixteen goroutines lock and release once for every line that
// it reads, writes down when each was in, and ends the round with "done".
func waitWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), patient)
	if err != nil {
		panic(err)
	}
	m := c.Mutex(os.Getenv("TEST_NAME"))
	rec := redistest.NewRecorder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("done") {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				l, err := m.Lock(context.Background())
				if err != nil {
					panic(err)
				}
				leave := rec.Enter(m.Name(), l.Owner())
				leave()
				_ = l.Release(context.Background())
			})
		}
		wg.Wait()
	}
}

// A lock that is free while somebody waits for it is taken, whatever happened
// to the messages: they are dropped, the subscriptions are killed, the server
// is restarted without its memory.
func TestFreeLockIsTaken(t *testing.T) {
	t.Parallel()
	const rounds, processes, goroutines = 50, 4, 16
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := name(t)
	c := open(t, s.URL(), patient)
	m := c.Mutex(n, holdfast.Poll(holdfast.Backoff{})) // so that only those who wait subscribe
	var ws []*redistest.Process
	for range processes {
		ws = append(ws, redistest.Worker(t, "wait", "TEST_URL="+p.URL(), "TEST_NAME="+n))
	}
	channel := "redisson_lock__channel:{" + n + "}"
	var worst time.Duration
	for round := range rounds {
		l := lock(t, t.Context(), m)
		for _, w := range ws {
			w.Send("go")
		}
		eventually(t, time.Minute, "all processes wait", func() bool {
			return strings.HasSuffix(fmt.Sprint(s.Do(t, "PUBSUB", "NUMSUB", channel)), fmt.Sprintf(" %d]", processes))
		})
		limit := late // far below the lease, far above the poll bound
		switch round % 10 {
		case 1, 4, 6, 8:
			p.DropMessages(true)
		case 2, 5, 7:
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		case 9:
			s.Restart()
			limit += late // for the outage
		}
		freed := redistest.Now()
		_ = l.Release(t.Context()) // has nothing to release after a restart
		var ivs []redistest.Interval
		for _, w := range ws {
			for line := range w.Lines() {
				if line == "done" {
					break
				}
				got, err := redistest.ReadIntervals(strings.NewReader(line))
				if err != nil {
					t.Fatal(err)
				}
				ivs = append(ivs, got...)
			}
		}
		p.DropMessages(false)
		if len(ivs) != processes*goroutines {
			t.Fatalf("round %d: %d of %d got in", round, len(ivs), processes*goroutines)
		}
		slices.SortFunc(ivs, func(a, b redistest.Interval) int { return int(a.Enter - b.Enter) })
		last := freed
		for _, iv := range ivs {
			idle := time.Duration(iv.Enter - last)
			worst = max(worst, idle)
			if idle > limit {
				t.Errorf("round %d: free for %v while others waited", round, idle)
			}
			last = iv.Leave
		}
	}
	t.Logf("free for at most %v", worst)
}

// Released between the failed try and the confirmed subscription, when the
// message finds nobody: the waiter looks again and gets in at once, and not after
// the second for which it would wait unheard. The machine may stand still in one
// of the rounds, not in all.
func TestReleaseBeforeSubscribed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	holder := open(t, s.URL())
	best := time.Hour
	for range 4 {
		waiter := open(t, p.URL(), holdfast.Options{PollInterval: time.Minute})
		n := name(t)
		l := lock(t, t.Context(), holder.Mutex(n))
		subscribed, confirm := p.HoldReply(redistest.Command("SUBSCRIBE"))
		got := make(chan *holdfast.Lease)
		go func() { got <- lock(t, t.Context(), waiter.Mutex(n)) }()
		<-subscribed // the waiter does not know yet, nor will it hear of the release
		p.DropMessages(true)
		release(t, l)
		start := time.Now()
		confirm()
		release(t, <-got)
		best = min(best, time.Since(start))
		p.DropMessages(false)
	}
	if best > 500*time.Millisecond {
		t.Errorf("got in %v after the subscription", best)
	}
}

// Waiters cost the server next to nothing: one of them per process asks.
func TestWaitersAreCheap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	// Those who pass it on may take as long as they like: the machine is slow.
	holder, waiter := open(t, s.URL()), open(t, p.URL(), holdfast.Options{HandoffTime: time.Minute})
	n := name(t)
	l := lock(t, t.Context(), holder.Mutex(n))
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
	eventually(t, 10*time.Second, "subscribed", func() bool { return len(s.Channels(t)) == 1 })
	time.Sleep(time.Second)
	if n := p.Total(); n > 20 {
		t.Errorf("%d commands for 1000 waiters: %v", n, p.Commands())
	}
	p.ResetCounts()
	release(t, l)
	start := time.Now()
	eventually(t, 20*time.Second, "all had it", func() bool { return s.Int(t, "EXISTS", n) == 0 && time.Since(start) > 100*time.Millisecond })
	wg.Wait()
	if n := p.Total(); n > 500 {
		t.Errorf("%d commands for 1000 hand-offs: %v", n, p.Commands())
	}
	cancel()
}

// parked returns how many goroutines that a function has started wait in the
// engine.
func parked(function string) (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		state, calls, _ := strings.Cut(g, "\n")
		if strings.Contains(state, "[select") && strings.Contains(calls, "internal/engine.") && strings.Contains(calls, function) {
			n++
		}
	}
	return n
}

// Arrival decides who is next.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	for name, handoffs := range map[string]int{"handed over": 0, "through the server": -1} {
		t.Run(name, func(t *testing.T) {
			c := open(t, redistest.Shared(t).URL(), holdfast.Options{Handoffs: handoffs})
			m := c.Mutex("fcfs:" + name)
			first := lock(t, t.Context(), m)
			const n = 50
			order := make(chan int, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					l := lock(t, t.Context(), m)
					order <- i
					release(t, l)
				})
				// So that they queue in this order.
				eventually(t, 10*time.Second, "it waits", func() bool { return parked("TestFirstComeFirstServed") > i })
			}
			release(t, first)
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
	c := open(t, s.URL(), holdfast.Options{WatchdogTimeout: 10 * time.Minute, PollInterval: 300 * time.Millisecond})
	far := open(t, s.URL())
	takes := map[string]func(t *testing.T, k kind, name string){
		"deleted": func(t *testing.T, _ kind, name string) { s.Do(t, "DEL", name) },
		"forced": func(t *testing.T, k kind, name string) {
			if freed, err := k.make(far, name).ForceUnlock(t.Context()); !freed || err != nil {
				t.Fatal(freed, err)
			}
		},
	}
	for how, take := range takes {
		for _, lease := range []time.Duration{0, 5 * time.Minute} {
			each(t, "PSFW", func(t *testing.T, k kind) {
				m := k.make(c, fmt.Sprint(how, lease, k.name))
				var opts []holdfast.Option
				if lease > 0 {
					opts = append(opts, holdfast.LeaseTime(lease))
				}
				l, err := m.Lock(t.Context(), opts...)
				if err != nil {
					t.Fatal(err)
				}
				waiter := background(t.Context(), m)
				time.Sleep(50 * time.Millisecond) // so that it mostly waits already
				take(t, k, m.Name())
				next := enteredAfter(t, 5*time.Second, waiter)
				if l.Valid() {
					t.Error("two leases are valid")
				}
				if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("release of what was taken away: %v", err)
				}
				release(t, next)
			})
		}
	}
}

// What was taken away from a lease of this client is granted to the next call,
// and the lease is told at once.
func TestTryTakenLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	each(t, "PSFW", func(t *testing.T, k kind) {
		m := k.make(c, name(t))
		l := lock(t, t.Context(), m, holdfast.LeaseTime(5*time.Minute))
		s.Do(t, "DEL", m.Name())
		next, err := m.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l.Valid() {
			t.Error("two leases are valid")
		}
		release(t, next)
	})
}

// An error says what the holder has left when the wait ends, and whether the
// holder is a lease of the same client.
func TestNotAcquiredTells(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, far := open(t, s.URL()), open(t, s.URL())
	each(t, "PSFRW", func(t *testing.T, k kind) {
		m := k.make(c, name(t))
		l := lock(t, t.Context(), m, holdfast.LeaseTime(5*time.Minute))
		for who, client := range map[string]*holdfast.Client{"same client": c, "other client": far} {
			_, err := k.rival(client, m.Name()).TryLock(t.Context(), holdfast.Wait(1500*time.Millisecond))
			if !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Fatalf("%s: %v", who, err)
			}
			if local := strings.Contains(err.Error(), "another lease of this client"); local != (client == c) {
				t.Errorf("%s: %v", who, err)
			}
			ttl := time.Duration(s.Int(t, "PTTL", m.Name())) * time.Millisecond
			if left := holdfast.Remaining(err); left < ttl-late || left > ttl+time.Second {
				t.Errorf("%s: %v remain, the server says %v", who, left, ttl)
			}
		}
		release(t, l)
	})
}

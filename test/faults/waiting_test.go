package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// patient are the settings of waiters: if they only woke when a lease ends,
// they would be far too late.
var patient = holdfast.Options{WatchdogTimeout: 20 * time.Second, PollInterval: 300 * time.Millisecond, Anonymous: true}

func init() { workers["wait"] = waitWorker }

// waitWorker lets sixteen goroutines lock and release once for every line that
// it reads, writes down when each was in, and ends the round with "done".
func waitWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &patient)
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

// A free lock is taken by a waiter, whatever happened to the messages: they are
// dropped, the subscriptions are killed, the server is restarted without its memory.
func TestFreeLockIsTaken(t *testing.T) {
	t.Parallel()
	const rounds, processes, goroutines = 20, 4, 16
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := locktest.Name(t)
	c := locktest.Open(t, s.URL(), patient)
	m := c.Mutex(n, holdfast.Poll(holdfast.Backoff{})) // so that only waiters subscribe
	var ws []*redistest.Process
	for range processes {
		ws = append(ws, redistest.Worker(t, "wait", "TEST_URL="+p.URL(), "TEST_NAME="+n))
	}
	channel := "redisson_lock__channel:{" + n + "}"
	var worst time.Duration
	for round := range rounds {
		l := locktest.Lock(t, t.Context(), m)
		for _, w := range ws {
			w.Send("go")
		}
		locktest.Eventually(t, time.Minute, "all processes wait", func() bool {
			return s.Listeners(t, channel) == processes
		})
		limit := locktest.Late // far below the lease, far above the poll bound
		switch round % 10 {
		case 1, 4, 6, 8:
			p.DropMessages(true)
		case 2, 5, 7:
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		case 9:
			s.Restart()
			limit += locktest.Late // for the outage
		}
		start, freed := time.Now(), redistest.Now()
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
		limit += locktest.Stalled(start)
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

// The lock is released between the failed try and the confirmed subscription, so the
// message has no receiver. The waiter looks again and enters at once, not after the
// second for which it would wait without a message. The machine may stand still in
// one of the rounds, not in all.
func TestReleaseBeforeSubscribed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	holder := locktest.Open(t, s.URL())
	best := time.Hour
	for range 4 {
		waiter := locktest.Open(t, p.URL(), holdfast.Options{PollInterval: time.Minute, Anonymous: true})
		n := locktest.Name(t)
		l := locktest.Lock(t, t.Context(), holder.Mutex(n))
		subscribed, confirm := p.HoldReply(redistest.Command("SUBSCRIBE"))
		got := make(chan *holdfast.Lease)
		go func() { got <- locktest.Lock(t, t.Context(), waiter.Mutex(n)) }()
		<-subscribed // the waiter does not know yet, nor will it hear of the release
		p.DropMessages(true)
		locktest.Release(t, l)
		start := time.Now()
		confirm()
		locktest.Release(t, <-got)
		best = min(best, time.Since(start))
		p.DropMessages(false)
	}
	if best > 500*time.Millisecond {
		t.Errorf("got in %v after the subscription", best)
	}
}

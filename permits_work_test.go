package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["leased worker"] = leasedWorker }

// leasedWorker has four goroutines take permits and give them back, and writes
// down when each was held.
func leasedWorker() {
	sem := openAtLast().LeasedSemaphore("rig")
	rec := redistest.NewRecorder(os.Stdout)
	parallel(4, func(int) {
		for {
			if err := leasedRound(context.Background(), sem, rec); !tolerable(err) {
				panic(err)
			}
		}
	})
}

// Processes that share three permits are killed, and frozen for longer than
// their leases last. Never are more than three permits held, by the clocks of
// those who hold them, and in the end all three are there: none is lost, and
// none was made.
func TestPermitsAcrossProcesses(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t, quick)
	var (
		mu  sync.Mutex
		out bytes.Buffer
		wg  sync.WaitGroup
	)
	start := func() *redistest.Process {
		w := redistest.Worker(t, "leased worker", "TEST_URL="+r.s.URL())
		wg.Go(func() {
			for line := range w.Lines() {
				mu.Lock()
				fmt.Fprintln(&out, line)
				mu.Unlock()
			}
		})
		return w
	}
	taken := func() int {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Count(out.Bytes(), []byte("\n"))
	}
	const enough = 200
	ws := []*redistest.Process{start(), start(), start(), start()}
	// All take part before anything happens to one.
	eventually(t, time.Minute, "permits are taken", func() bool { return taken() > 50 })
	// For longer on a busy machine, where few are taken.
	for begin := time.Now(); time.Since(begin) < 10*time.Second || taken() < enough && time.Since(begin) < time.Minute; {
		time.Sleep(100*time.Millisecond + rand.N(300*time.Millisecond))
		i := rand.IntN(len(ws))
		if rand.IntN(2) == 0 {
			ws[i].Kill()
			ws[i] = start()
			continue
		}
		ws[i].Pause()
		time.Sleep(rand.N(2 * quick.WatchdogTimeout))
		ws[i].Resume()
	}
	for _, w := range ws {
		w.Kill()
	}
	wg.Wait()
	checkPermits(t, &out, 3, enough)
	r.settled(t)
}

// Nothing is left of thousands of contended rounds, some of them cancelled, some
// lost, some cut off: but the permits themselves, as many as there were.
func TestPermitsNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	const rounds, semaphores, permits = 3000, 4, 3
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	cs := []*holdfast.Client{open(t, p.URL(), quick), open(t, p.URL(), quick), open(t, p.URL(), quick)}
	var names, want []string
	for i := range semaphores {
		names = append(names, fmt.Sprint("leak:", i))
		want = append(want, fmt.Sprint(names[i], " = ", permits))
		if err := cs[0].LeasedSemaphore(names[i]).Set(t.Context(), permits); err != nil {
			t.Fatal(err)
		}
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range next {
				leakyRound(t, cs[g%len(cs)].LeasedSemaphore(names[i%semaphores]), 1+i%7/5, i)
			}
		})
	}
	for i := range rounds {
		if i%500 == 250 { // not at the end, when nobody would be subscribed for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for _, n := range names {
		sem := cs[0].LeasedSemaphore(n)
		eventually(t, 10*time.Second, "all are free", func() bool {
			st, err := sem.State(t.Context())
			return err == nil && st == holdfast.PermitState{Available: permits}
		})
		release(t, obtain(t, sem, permits, holdfast.LeaseTime(time.Minute)))
	}
	// A request that its caller gave up may come only now, and is undone then.
	var left []string
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left = nil
		for _, key := range s.Keys(t) {
			if strings.HasPrefix(key, "holdfast:once:") {
				continue
			}
			if value, err := s.Try("GET", key); err == nil { // of what is no number there is only the name
				key += fmt.Sprint(" = ", value)
			}
			left = append(left, key)
		}
		if slices.Equal(left, want) || time.Now().After(end) {
			break
		}
	}
	if !slices.Equal(left, want) {
		t.Errorf("keys %q, want %q", left, want)
	}
	eventually(t, 10*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		_ = c.Close()
	}
}

// leakyRound takes permits and gives them back, and every so often does not get
// that far.
func leakyRound(t *testing.T, sem *holdfast.LeasedSemaphore, permits, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.Option
	switch i % 20 {
	case 3:
		time.AfterFunc(time.Millisecond, cancel)
	case 7:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	}
	l, err := sem.Acquire(ctx, permits, opts...)
	if !tolerable(err) {
		t.Error(err)
	}
	if err != nil {
		return
	}
	switch i % 20 {
	case 11:
		<-l.Context().Done() // lost, and never released
	case 13:
		if err := sem.ReleaseIDs(ctx, l.Permits()...); !tolerable(err) && !errors.Is(err, holdfast.ErrNotHeld) {
			t.Error(err)
		}
		fallthrough // which finds nothing
	default:
		if err := l.Release(ctx); !tolerable(err) {
			t.Error(err)
		}
	}
}

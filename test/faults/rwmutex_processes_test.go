package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
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

func init() { workers["read and write"] = rwWorker }

// rwContender reads and writes under a few names until ctx is done, in every
// way there is: with leases that are renewed and leases that run out, releasing
// in time and not at all, and going on to read after it has written.
func rwContender(ctx context.Context, c *holdfast.Client, names []string, rec *redistest.Recorder) error {
	visit := func(l *holdfast.Lease, work time.Duration, shared bool) {
		if iv := locktest.Stay(l, work); iv.Enter != 0 {
			iv.Shared = shared
			rec.Record(iv)
		}
	}
	for ctx.Err() == nil {
		var first []holdfast.RWOption
		if rand.IntN(8) == 0 { // not more often: each that is killed keeps readers out for seconds
			first = append(first, holdfast.WriterFirst())
		}
		m := c.RWMutex(names[rand.IntN(len(names))], first...)
		var lease []holdfast.LockOption
		work := rand.N(3 * time.Millisecond)
		if rand.IntN(4) == 0 {
			lease = append(lease, holdfast.LeaseTime(30*time.Millisecond+rand.N(50*time.Millisecond)))
			if rand.IntN(2) == 0 {
				work = time.Minute // overstay
			}
		}
		if rand.IntN(3) > 0 {
			r, err := m.RLock(ctx, lease...)
			if err == nil {
				visit(r, work, true)
				err = r.Release(ctx)
			}
			if !locktest.Tolerable(err) {
				return err
			}
			continue
		}
		w, err := m.Lock(ctx, lease...)
		if err != nil {
			if !locktest.Tolerable(err) {
				return err
			}
			continue
		}
		var r *holdfast.Lease
		if rand.IntN(4) == 0 {
			if r, err = m.RLock(w.Context()); !locktest.Tolerable(err) {
				return err
			}
		}
		visit(w, work, false)
		if err := w.Release(ctx); !locktest.Tolerable(err) {
			return err
		}
		if r != nil {
			visit(r, rand.N(3*time.Millisecond), true)
			if err := r.Release(ctx); !locktest.Tolerable(err) {
				return err
			}
		}
	}
	return nil
}

func rwWorker() {
	c := openAtLast()
	rec := redistest.NewRecorder(os.Stdout)
	locktest.Parallel(6, func(int) {
		if err := rwContender(context.Background(), c, strings.Split(os.Getenv("TEST_NAMES"), ","), rec); err != nil {
			panic(err)
		}
	})
}

// Eight processes, each behind a proxy of its own, are killed, halted, cut off and
// left without replies. At no moment does one read or write while another writes.
func TestRWHistories(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	names := locktest.Name(t) + "," + locktest.Name(t) + "," + locktest.Name(t)
	var (
		mu    sync.Mutex
		out   bytes.Buffer
		said  int
		lines sync.WaitGroup
	)
	start := func(p *redistest.Proxy) *redistest.Process {
		w := redistest.Worker(t, "read and write", "TEST_URL="+p.URL(), "TEST_NAMES="+names)
		lines.Go(func() {
			for line := range w.Lines() {
				if !strings.HasSuffix(line, "}") {
					continue // torn by a kill
				}
				mu.Lock()
				fmt.Fprintln(&out, line)
				said++
				mu.Unlock()
			}
		})
		return w
	}
	going := longEnough(8*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return said >= 500
	})
	locktest.Parallel(8, func(int) {
		p := redistest.NewProxy(t, s.Addr())
		w := start(p)
		locktest.Repeat(300*time.Millisecond, time.Second, going, func(int) {
			outage := 100*time.Millisecond + rand.N(900*time.Millisecond) // on both sides of the lease time
			switch rand.IntN(6) {
			case 0:
				w.Kill()
				w = start(p)
			case 1:
				<-redistest.Outage(outage, p.Freeze, p.Thaw)
			case 2:
				<-redistest.Outage(outage, p.FreezeReplies, p.Thaw)
			case 3:
				<-redistest.Outage(outage, w.Pause, w.Resume)
			default:
				p.Cut()
			}
		})
		w.Kill()
	})
	lines.Wait()
	ivs, err := redistest.ReadIntervals(&out)
	if err != nil {
		t.Fatal(err)
	}
	reads, together := 0, 0
	slices.SortFunc(ivs, func(a, b redistest.Interval) int { return int(a.Enter - b.Enter) })
	for i, iv := range ivs {
		if iv.Shared {
			reads++
			if i > 0 && ivs[i-1].Shared && ivs[i-1].Name == iv.Name && iv.Enter < ivs[i-1].Leave {
				together++
			}
		}
	}
	if writes := len(ivs) - reads; reads < 100 || writes < 50 || together < 20 {
		t.Errorf("only %d reads, %d of them with another one, and %d writes", reads, together, writes)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	t.Logf("%d reads, %d of them with another one, %d writes", reads, together, len(ivs)-reads)
}

// A dead writer that goes first keeps readers out for a while, also where other
// writers come and go.
func TestDeadWriterAmongOthers(t *testing.T) {
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	r := locktest.Lock(t, t.Context(), a.RWMutex(n).RLocker())
	killedWriter(t, s, n)
	locktest.Release(t, r)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // once in a second a writer waits for a moment
		locktest.Repeat(time.Second, time.Second, func() bool { return ctx.Err() == nil }, func(int) {
			w, err := a.RWMutex(n, holdfast.WriterFirst()).Lock(ctx)
			if err != nil {
				return
			}
			next := locktest.Background(ctx, b.RWMutex(n, holdfast.WriterFirst()))
			locktest.Work(50 * time.Millisecond)
			_ = w.Release(ctx)
			if o := <-next; o.Err == nil {
				_ = o.Lease.Release(ctx)
			}
		})
	})
	l, err := b.RWMutex(n).RLock(ctx)
	if took := locktest.Took(start); err != nil || took > 3*time.Second+locktest.Late {
		t.Errorf("a reader was kept out for %v by a dead writer: %v", took, err)
	}
	cancel()
	if err == nil {
		locktest.Release(t, l)
	}
}

func init() {
	workers["write first"] = func() {
		c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), nil)
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		l, err := c.RWMutex(os.Getenv("TEST_NAME"), holdfast.WriterFirst()).Lock(context.Background())
		fmt.Println(l, err)
	}
}

// killedWriter lets a writer that goes first be killed while it waits.
func killedWriter(t *testing.T, s *redistest.Server, name string) {
	t.Helper()
	w := redistest.Worker(t, "write first", "TEST_URL="+s.URL(), "TEST_NAME="+name)
	<-w.Lines()
	locktest.AwaitFirstWriters(t, s, name, 1)
	w.Kill()
}

// A writer that was killed while it waited keeps readers out for three seconds.
func TestWriterFirstIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	r := locktest.Lock(t, t.Context(), m.RLocker())
	killedWriter(t, s, m.Name())
	start := time.Now()
	locktest.WantRefused(t, m.RLocker())
	l := locktest.EnteredAfter(t, 3*time.Second, locktest.Background(t.Context(), m.RLocker()))
	if took := locktest.Took(start); took > 3*time.Second+locktest.Late {
		t.Errorf("a dead writer has kept readers out for %v", took)
	}
	locktest.WantNoWriters(t, s, m.Name())
	locktest.Release(t, l)
	locktest.Release(t, r)
	locktest.WantFree(t, m)
}

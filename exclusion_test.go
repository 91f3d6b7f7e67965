package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["contend"] = contendWorker }

// contender fights for a few names until ctx is done, in every way there is:
// with leases that are renewed and leases that run out, releasing in time and
// not at all.
func contender(ctx context.Context, c *holdfast.Client, k kind, names []string, rec *redistest.Recorder) error {
	for ctx.Err() == nil {
		m := k.make(c, names[rand.IntN(len(names))])
		var opts []holdfast.Option
		overstay := false
		if rand.IntN(4) == 0 {
			opts = append(opts, holdfast.LeaseTime(30*time.Millisecond+rand.N(50*time.Millisecond)))
			overstay = rand.IntN(2) == 0
		}
		l, err := m.Lock(ctx, opts...)
		switch {
		case errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrNotAcquired):
			continue
		case ctx.Err() != nil && errors.Is(err, ctx.Err()): // the end came before any answer
			return nil
		case err != nil:
			return err
		}
		work := rand.N(2 * time.Millisecond)
		if overstay {
			work = time.Minute
		}
		record(rec, l, work)
		if err := l.Release(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			return err
		}
	}
	return nil
}

// record works under a lease, as long as that is valid, and writes down from
// when to when it was.
func record(rec *redistest.Recorder, l *holdfast.Lease, work time.Duration) {
	if iv := stay(l, work); iv.Enter != 0 {
		rec.Record(iv)
	}
}

// stay works under a lease, as long as that is valid, and returns from when to
// when it was. The clock is read before the lease is asked: however long the
// scheduler takes in between, the lock was held at that moment.
func stay(l *holdfast.Lease, work time.Duration) redistest.Interval {
	iv := redistest.Interval{Name: l.Name(), Owner: fmt.Sprint(l.Owner(), "#", l.Token())}
	for start := time.Now(); ; time.Sleep(min(work, time.Millisecond)) {
		now := redistest.Now()
		if !l.Valid() {
			break
		}
		if iv.Enter == 0 {
			iv.Enter = now
		}
		iv.Leave = now
		if time.Since(start) >= work {
			break
		}
	}
	return iv
}

// quick are the settings of tests that wait for leases to end.
var quick = holdfast.Options{WatchdogTimeout: 600 * time.Millisecond, PollInterval: 300 * time.Millisecond}

// steady are the settings of tests in which no lease may be lost, however long
// a busy machine stands still.
var steady = holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: 200 * time.Millisecond}

// openAtLast returns a client for a worker whose connections may be cut from the
// start.
func openAtLast() *holdfast.Client {
	for {
		c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), quick)
		if err == nil {
			return c
		}
		if !errors.Is(err, holdfast.ErrUnavailable) {
			panic(err)
		}
	}
}

func contendWorker() {
	c := openAtLast()
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == os.Getenv("TEST_KIND") })
	rec := redistest.NewRecorder(os.Stdout)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := contender(context.Background(), c, kinds[i], strings.Split(os.Getenv("TEST_NAMES"), ","), rec); err != nil {
				panic(err)
			}
		})
	}
	wg.Wait()
}

func TestExclusionInOneProcess(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		names := []string{name(t), name(t)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		var visits lineCount
		rec := redistest.NewRecorder(io.MultiWriter(&out, &visits))
		var wg sync.WaitGroup
		for range 4 {
			c := open(t, p.URL(), quick)
			for range 8 {
				wg.Go(func() {
					if err := contender(ctx, c, k, names, rec); err != nil {
						t.Error(err)
					}
				})
			}
		}
		pause, enough := harm(k, 100*time.Millisecond)
		for going := longEnough(4*time.Second, func() bool { return visits.Load() >= int64(enough) }); going(); {
			time.Sleep(pause)
			p.Cut()
		}
		cancel()
		wg.Wait()
		checkExclusive(t, &out, enough)
	})
}

// A lineCount counts the lines that are written to it.
type lineCount struct{ atomic.Int64 }

func (c *lineCount) Write(b []byte) (int, error) {
	c.Add(int64(bytes.Count(b, []byte("\n"))))
	return len(b), nil
}

// longEnough returns whether to go on: for so long, and on a busy machine longer,
// if there is not enough yet.
func longEnough(d time.Duration, enough func() bool) (going func() bool) {
	end := time.Now().Add(d)
	return func() bool {
		now := time.Now()
		return now.Before(end) || now.Before(end.Add(20*time.Second)) && !enough()
	}
}

// harm returns how much time to leave between one fault and the next in a test
// of exclusion, and how many acquisitions it needs in order to mean anything.
// Behind whoever is killed or cut off at its head, a queue stands still for
// seconds.
func harm(k kind, every time.Duration) (pause time.Duration, enough int) {
	if k.letter == "F" {
		return 3 * every, 50
	}
	return every, 200
}

// Processes are killed, connections are cut, and leases run out.
func TestExclusionAcrossProcesses(t *testing.T) {
	t.Parallel()
	each(t, "PF", func(t *testing.T, k kind) {
		t.Parallel()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		env := []string{"TEST_URL=" + p.URL(), "TEST_KIND=" + k.name, "TEST_NAMES=" + name(t) + "," + name(t)}
		var (
			mu  sync.Mutex
			out bytes.Buffer
			wg  sync.WaitGroup
		)
		start := func() *redistest.Process {
			w := redistest.Worker(t, "contend", env...)
			wg.Go(func() {
				for line := range w.Lines() {
					mu.Lock()
					fmt.Fprintln(&out, line)
					mu.Unlock()
				}
			})
			return w
		}
		ws := []*redistest.Process{start(), start(), start(), start()}
		pause, enough := harm(k, 250*time.Millisecond)
		going := longEnough(6*time.Second, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return bytes.Count(out.Bytes(), []byte("\n")) > enough
		})
		for i := 0; going(); i++ {
			time.Sleep(pause)
			p.Cut()
			if i%3 == 2 {
				k := i / 3 % len(ws)
				ws[k].Kill()
				ws[k] = start()
			}
		}
		for _, w := range ws {
			w.Kill()
		}
		wg.Wait()
		checkExclusive(t, &out, enough)
	})
}

// checkExclusive checks recorded intervals, of which there must be enough for
// the check to mean anything.
func checkExclusive(t *testing.T, out *bytes.Buffer, atLeast int) {
	t.Helper()
	text := out.String()
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[:i+1] // the last line of a killed process may be torn
	}
	ivs, err := redistest.ReadIntervals(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(ivs) < atLeast {
		t.Errorf("only %d acquisitions, want %d", len(ivs), atLeast)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		t.Error(err)
	}
	t.Logf("%d acquisitions", len(ivs))
}

package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["contend"] = contendWorker }

// contender fights for a few names until ctx is done, in every way there is:
// with leases that are renewed and leases that run out, releasing in time and
// not at all.
func contender(ctx context.Context, c *holdfast.Client, names []string, rec *redistest.Recorder) error {
	for ctx.Err() == nil {
		m := c.Mutex(names[rand.IntN(len(names))])
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
// when to when it was. The clock is read before the lease is asked: however
// long the scheduler takes in between, the lock was held at that moment.
func record(rec *redistest.Recorder, l *holdfast.Lease, work time.Duration) {
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
	if iv.Enter != 0 {
		rec.Record(iv)
	}
}

// quick are the settings of tests that wait for leases to end.
var quick = holdfast.Options{WatchdogTimeout: 600 * time.Millisecond, PollInterval: 300 * time.Millisecond}

func contendWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), quick)
	if err != nil {
		panic(err)
	}
	rec := redistest.NewRecorder(os.Stdout)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := contender(context.Background(), c, strings.Split(os.Getenv("TEST_NAMES"), ","), rec); err != nil {
				panic(err)
			}
		})
	}
	wg.Wait()
}

func TestExclusionInOneProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	names := []string{name(t), name(t)}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var out bytes.Buffer
	rec := redistest.NewRecorder(&out)
	var wg sync.WaitGroup
	for range 4 {
		c := open(t, p.URL(), quick)
		for range 8 {
			wg.Go(func() {
				if err := contender(ctx, c, names, rec); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		p.Cut()
	}
	wg.Wait()
	checkExclusive(t, &out, 200)
}

// Processes are killed, connections are cut, and leases run out.
func TestExclusionAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	env := []string{"TEST_URL=" + p.URL(), "TEST_NAMES=" + name(t) + "," + name(t)}
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
	end := time.Now().Add(6 * time.Second)
	for i := 0; time.Now().Before(end); i++ {
		time.Sleep(250 * time.Millisecond)
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
	checkExclusive(t, &out, 200)
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

package faults_test

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
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["contend"] = contendWorker }

// contender contends for a few names until ctx is done, in all ways: with leases
// that are renewed and leases that expire, with releases in time and without.
func contender(ctx context.Context, c *holdfast.Client, k locktest.Kind, names []string, rec *redistest.Recorder) error {
	for ctx.Err() == nil {
		m := k.Make(c, names[rand.IntN(len(names))])
		var opts []holdfast.LockOption
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
		locktest.Record(rec, l, work)
		if err := l.Release(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			return err
		}
	}
	return nil
}

// openAtLast returns a client for a worker whose connections may be cut from the
// start.
func openAtLast() *holdfast.Client {
	for {
		c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &locktest.Quick)
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
	i := slices.IndexFunc(locktest.Kinds, func(k locktest.Kind) bool { return k.Name == os.Getenv("TEST_KIND") })
	rec := redistest.NewRecorder(os.Stdout)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := contender(context.Background(), c, locktest.Kinds[i], strings.Split(os.Getenv("TEST_NAMES"), ","), rec); err != nil {
				panic(err)
			}
		})
	}
	wg.Wait()
}

func TestExclusionInOneProcess(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		names := []string{locktest.Name(t), locktest.Name(t)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out bytes.Buffer
		var visits lineCount
		rec := redistest.NewRecorder(io.MultiWriter(&out, &visits))
		var wg sync.WaitGroup
		for range 4 {
			c := locktest.Open(t, p.URL(), locktest.Quick)
			for range 8 {
				wg.Go(func() {
					if err := contender(ctx, c, k, names, rec); err != nil {
						t.Error(err)
					}
				})
			}
		}
		pause, enough := harm(k, 100*time.Millisecond)
		going := longEnough(4*time.Second, func() bool { return visits.Load() >= int64(enough) })
		locktest.Repeat(pause, pause, going, func(int) { p.Cut() })
		cancel()
		wg.Wait()
		locktest.CheckExclusive(t, &out, enough)
	})
}

// A lineCount counts the lines that are written to it.
type lineCount struct{ atomic.Int64 }

func (c *lineCount) Write(b []byte) (int, error) {
	c.Add(int64(bytes.Count(b, []byte("\n"))))
	return len(b), nil
}

// longEnough returns a function that reports whether to continue: until d has passed,
// and on a busy machine longer, until there is enough.
func longEnough(d time.Duration, enough func() bool) (going func() bool) {
	end := time.Now().Add(d)
	return func() bool {
		now := time.Now()
		return now.Before(end) || now.Before(end.Add(20*time.Second)) && !enough()
	}
}

// harm returns how much time to leave between one fault and the next in a test
// of exclusion, and how many acquisitions make it meaningful. A queue stands still
// for seconds when its first waiter is killed or cut off.
func harm(k locktest.Kind, every time.Duration) (pause time.Duration, enough int) {
	if k.Letter == "F" {
		return 3 * every, 50
	}
	return every, 200
}

// Processes are killed, connections are cut, and leases run out.
func TestExclusionAcrossProcesses(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		env := []string{"TEST_URL=" + p.URL(), "TEST_KIND=" + k.Name, "TEST_NAMES=" + locktest.Name(t) + "," + locktest.Name(t)}
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
		locktest.Repeat(pause, pause, going, func(i int) {
			p.Cut()
			if i%3 == 2 {
				k := i / 3 % len(ws)
				ws[k].Kill()
				ws[k] = start()
			}
		})
		for _, w := range ws {
			w.Kill()
		}
		wg.Wait()
		locktest.CheckExclusive(t, &out, enough)
	})
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// writersKey returns the key of the writers that go first.
func writersKey(name string) string { return "holdfast:writers:{" + name + "}" }

// wantNoWriters checks that nobody is known to wait for m.
func wantNoWriters(tb testing.TB, s *redistest.Server, name string) {
	tb.Helper()
	if s.Int(tb, "EXISTS", writersKey(name)) != 0 {
		tb.Errorf("writers left: %v", s.Do(tb, "ZRANGE", writersKey(name), "0", "-1"))
	}
}

// firstWaits waits until the server knows of so many writers that go first.
func firstWaits(tb testing.TB, s *redistest.Server, name string, n int64) {
	tb.Helper()
	eventually(tb, 5*time.Second, "the writer waits", func() bool { return s.Int(tb, "ZCARD", writersKey(name)) == n })
}

// readers keeps a lock read, by several clients, until stop is called.
func readers(t *testing.T, cs []*holdfast.Client, name string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 * len(cs) {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := cs[i%len(cs)].RWMutex(name).RLock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				time.Sleep(20*time.Millisecond + time.Duration(i)*time.Millisecond)
				_ = l.Release(ctx)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// Readers that never leave the lock alone keep an ordinary writer out, but not
// one that goes first.
func TestWriterFirst(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL()), open(t, s.URL())}
	n := name(t)
	stop := readers(t, cs, n)
	defer stop()
	time.Sleep(100 * time.Millisecond)
	w := open(t, s.URL())
	kept := 0
	for end := time.Now().Add(20 * time.Second); kept == 0 && time.Now().Before(end); { // on a busy machine all readers may be late at once
		l, err := w.RWMutex(n).TryLock(t.Context(), holdfast.Wait(300*time.Millisecond))
		switch {
		case errors.Is(err, holdfast.ErrNotAcquired):
			kept++
		case errors.Is(err, holdfast.ErrUnavailable): // in so short a time a busy server may not answer
		case err != nil:
			t.Fatal(err)
		default:
			release(t, l)
		}
	}
	if kept == 0 {
		t.Error("readers never kept a writer out that is not preferred")
	}
	first := w.RWMutex(n, holdfast.WriterFirst())
	for range 5 {
		start := time.Now()
		l := lock(t, t.Context(), first)
		if took := time.Since(start); took > late { // the longest reader, and some
			t.Errorf("a writer that goes first has waited for %v", took)
		}
		wantNoWriters(t, s, n)
		time.Sleep(5 * time.Millisecond)
		if !l.Valid() {
			t.Error("the write lease is not valid")
		}
		release(t, l)
	}
	stop()
	wantNoWriters(t, s, n)
	// What was granted to readers that had been stopped is undone in a moment.
	// It may still be on its way when the lock looks free.
	eventually(t, 5*time.Second, "free", func() bool {
		l, err := first.TryLock(t.Context())
		if err == nil {
			release(t, l)
		} else if !inVain(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// A writer that goes first stops those who come later, and nobody else.
func TestWriterFirstStopsNewReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	first := b.RWMutex(name(t), holdfast.WriterFirst())
	m := a.RWMutex(first.Name())
	r := lock(t, t.Context(), m.RLocker())
	wantRefused(t, first) // a try does not wait, so it stops nobody
	wantNoWriters(t, s, m.Name())
	wantFree(t, m.RLocker())

	writer := background(t.Context(), first)
	firstWaits(t, s, m.Name(), 1)
	wantRefused(t, m.RLocker())
	wantRefused(t, first.RLocker())
	inner := lock(t, r.Context(), m.RLocker()) // enters again
	release(t, inner)
	reader := background(t.Context(), m.RLocker())
	second := background(t.Context(), a.RWMutex(m.Name(), holdfast.WriterFirst()))
	firstWaits(t, s, m.Name(), 2)
	release(t, r)

	// Both writers, one after the other, whichever is first, and only then the
	// reader. The one who writes may read.
	for range 2 {
		var w *holdfast.Lease
		select {
		case o := <-writer:
			w = o.lease
			release(t, lock(t, w.Context(), first.RLocker()))
		case o := <-second:
			w = o.lease
			release(t, lock(t, w.Context(), m.RLocker()))
		case <-reader:
			t.Fatal("a reader got in before the writers")
		case <-time.After(late):
			t.Fatal("still waiting")
		}
		time.Sleep(20 * time.Millisecond)
		release(t, w)
	}
	release(t, entered(t, reader))
	wantNoWriters(t, s, m.Name())
	wantFree(t, first)
}

// A writer that gives up lets readers in at once, however it gives up.
func TestWriterFirstGivesUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := open(t, s.URL(), unhurried), open(t, s.URL())
	const long = 3 * time.Second
	for how, wait := range map[string]func(t *testing.T, m *holdfast.RWMutex) (end func(), err <-chan outcome){
		"time over": func(t *testing.T, m *holdfast.RWMutex) (func(), <-chan outcome) {
			return func() {}, background(t.Context(), m, holdfast.Wait(long))
		},
		"cancelled": func(t *testing.T, m *holdfast.RWMutex) (func(), <-chan outcome) {
			ctx, cancel := context.WithCancel(t.Context())
			return cancel, background(ctx, m)
		},
		"closed": func(t *testing.T, m *holdfast.RWMutex) (func(), <-chan outcome) {
			c := open(t, s.URL())
			return func() { _ = c.Close() }, background(t.Context(), c.RWMutex(m.Name(), holdfast.WriterFirst()))
		},
	} {
		t.Run(how, func(t *testing.T) {
			first := b.RWMutex(name(t), holdfast.WriterFirst())
			m := a.RWMutex(first.Name())
			r := lock(t, t.Context(), m.RLocker())
			end, writer := wait(t, first)
			firstWaits(t, s, m.Name(), 1)
			reader := background(t.Context(), m.RLocker())
			select {
			case o := <-reader:
				t.Fatalf("a reader did not wait: %v", o.err)
			case <-time.After(100 * time.Millisecond):
			}
			end()
			if o := awaitAfter(t, long, writer); o.err == nil {
				t.Fatal("a writer beside a reader")
			}
			start := time.Now()
			l := entered(t, reader)
			if took := time.Since(start); took > late {
				t.Errorf("the reader got in %v after the writer had given up", took)
			}
			wantNoWriters(t, s, m.Name())
			release(t, l)
			release(t, r)
		})
	}
}

func init() {
	workers["write first"] = func() {
		c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"))
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
	firstWaits(t, s, name, 1)
	w.Kill()
}

// A writer that was killed while it waited keeps readers out for three seconds.
func TestWriterFirstIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := open(t, s.URL()).RWMutex(name(t))
	r := lock(t, t.Context(), m.RLocker())
	killedWriter(t, s, m.Name())
	start := time.Now()
	wantRefused(t, m.RLocker())
	l := enteredAfter(t, 3*time.Second, background(t.Context(), m.RLocker()))
	if took := time.Since(start); took > 3*time.Second+late {
		t.Errorf("a dead writer has kept readers out for %v", took)
	}
	wantNoWriters(t, s, m.Name())
	release(t, l)
	release(t, r)
	wantFree(t, m)
}

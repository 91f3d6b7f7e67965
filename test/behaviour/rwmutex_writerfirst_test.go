package behaviour_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

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
				locktest.Work(20*time.Millisecond + time.Duration(i)*time.Millisecond)
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
	cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
	n := locktest.Name(t)
	stop := readers(t, cs, n)
	defer stop()
	w := locktest.Open(t, s.URL())
	locktest.Eventually(t, 10*time.Second, "it is read", func() bool { return locktest.Locked(t, locktest.Readers(w.RWMutex(n))) })
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
			locktest.Release(t, l)
		}
	}
	if kept == 0 {
		t.Error("readers never kept a writer out that is not preferred")
	}
	first := w.RWMutex(n, holdfast.WriterFirst())
	for range 5 {
		start := time.Now()
		l := locktest.Lock(t, t.Context(), first)
		if took := locktest.Took(start); took > locktest.Late { // the longest reader, and some
			t.Errorf("a writer that goes first has waited for %v", took)
		}
		locktest.WantNoWriters(t, s, n)
		locktest.Work(5 * time.Millisecond)
		if !l.Valid() {
			t.Error("the write lease is not valid")
		}
		locktest.Release(t, l)
	}
	stop()
	locktest.WantNoWriters(t, s, n)
	// What was granted to readers that had been stopped is undone in a moment.
	// It may still be on its way when the lock looks free.
	locktest.Eventually(t, 5*time.Second, "free", func() bool {
		l, err := first.TryLock(t.Context())
		if err == nil {
			locktest.Release(t, l)
		} else if !locktest.TimedOut(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// A writer with WriterFirst stops only later readers.
func TestWriterFirstStopsNewReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	first := b.RWMutex(locktest.Name(t), holdfast.WriterFirst())
	m := a.RWMutex(first.Name())
	r := locktest.Lock(t, t.Context(), m.RLocker())
	locktest.WantRefused(t, first) // a try does not wait, so it stops no reader
	locktest.WantNoWriters(t, s, m.Name())
	locktest.WantFree(t, m.RLocker())

	writer := locktest.Background(t.Context(), first)
	locktest.AwaitFirstWriters(t, s, m.Name(), 1)
	// Of another client: a reader of the same client can share the hold for a moment.
	other := locktest.Open(t, s.URL()).RWMutex(m.Name()).RLocker()
	locktest.WantRefused(t, other)
	locktest.WantRefused(t, first.RLocker())
	inner := locktest.Lock(t, r.Context(), m.RLocker()) // enters again
	locktest.Release(t, inner)
	reader := locktest.Background(t.Context(), other)
	second := locktest.Background(t.Context(), a.RWMutex(m.Name(), holdfast.WriterFirst()))
	locktest.AwaitFirstWriters(t, s, m.Name(), 2)
	locktest.Release(t, r)

	// Both writers, one after the other, whichever is first, and only then the
	// reader. A writer may read.
	for range 2 {
		var w *holdfast.Lease
		select {
		case o := <-writer:
			w = o.Lease
			locktest.Release(t, locktest.Lock(t, w.Context(), first.RLocker()))
		case o := <-second:
			w = o.Lease
			locktest.Release(t, locktest.Lock(t, w.Context(), m.RLocker()))
		case <-reader:
			t.Fatal("a reader got in before the writers")
		case <-time.After(locktest.Late):
			t.Fatal("still waiting")
		}
		locktest.Work(20 * time.Millisecond)
		locktest.Release(t, w)
	}
	locktest.Release(t, locktest.Entered(t, reader))
	locktest.WantNoWriters(t, s, m.Name())
	locktest.WantFree(t, first)
}

// A writer that gives up lets readers in at once, however it gives up.
func TestWriterFirstGivesUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL(), locktest.Unpolled), locktest.Open(t, s.URL())
	other := locktest.Open(t, s.URL(), locktest.Unpolled) // a reader of the same client can share a hold for a moment
	const long = 3 * time.Second
	for how, wait := range map[string]func(t *testing.T, m *holdfast.RWMutex) (end func(), err <-chan locktest.Outcome){
		"time over": func(t *testing.T, m *holdfast.RWMutex) (func(), <-chan locktest.Outcome) {
			return func() {}, locktest.Background(t.Context(), m, holdfast.Wait(long))
		},
		"cancelled": func(t *testing.T, m *holdfast.RWMutex) (func(), <-chan locktest.Outcome) {
			ctx, cancel := context.WithCancel(t.Context())
			return cancel, locktest.Background(ctx, m)
		},
		"closed": func(t *testing.T, m *holdfast.RWMutex) (func(), <-chan locktest.Outcome) {
			c := locktest.Open(t, s.URL())
			return func() { _ = c.Close() }, locktest.Background(t.Context(), c.RWMutex(m.Name(), holdfast.WriterFirst()))
		},
	} {
		t.Run(how, func(t *testing.T) {
			first := b.RWMutex(locktest.Name(t), holdfast.WriterFirst())
			m := a.RWMutex(first.Name())
			r := locktest.Lock(t, t.Context(), m.RLocker())
			end, writer := wait(t, first)
			locktest.AwaitFirstWriters(t, s, m.Name(), 1)
			reader := locktest.Background(t.Context(), other.RWMutex(m.Name()).RLocker())
			locktest.WantWaiting(t, other, reader)
			end()
			if o := locktest.AwaitAfter(t, long, writer); o.Err == nil {
				t.Fatal("a writer beside a reader")
			}
			start := time.Now()
			l := locktest.Entered(t, reader)
			if took := locktest.Took(start); took > locktest.Late {
				t.Errorf("the reader got in %v after the writer had given up", took)
			}
			locktest.WantNoWriters(t, s, m.Name())
			locktest.Release(t, l)
			locktest.Release(t, r)
		})
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestClose(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	other := open(t, s.URL())
	lock(t, t.Context(), other.Mutex("other"))
	c := open(t, s.URL())
	held := lock(t, t.Context(), c.Mutex("held"))
	fixed := lock(t, t.Context(), c.Mutex("fixed"), holdfast.LeaseTime(time.Minute))
	ctx := held.Context()
	errs := make(chan error)
	for i := range 10 {
		go func() {
			_, err := c.Mutex([]string{"held", "other"}[i%2]).Lock(context.Background())
			errs <- err
		}()
	}
	eventually(t, 5*time.Second, "a waiter subscribed", func() bool { return len(s.Channels(t)) == 1 })
	start := time.Now()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { _ = c.Close() })
	}
	wg.Wait()
	_ = c.Close()
	if took := time.Since(start); took > late {
		t.Errorf("Close took %v", took)
	}
	for range 10 {
		if err := <-errs; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("waiter: %v", err)
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrClosed) || !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("cause of the lease's context: %v", cause)
	}
	for _, l := range []*holdfast.Lease{held, fixed} {
		if l.Valid() {
			t.Error("lease is valid after Close")
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("release after Close: %v", err)
		}
	}
	if _, err := c.Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("TryLock after Close: %v", err)
	}
	if _, err := c.Mutex("x").State(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("State after Close: %v", err)
	}
	if keys := s.Keys(t); fmt.Sprint(keys) != "[other]" {
		t.Errorf("left locked: %v", keys)
	}
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
}

func TestCloseUnused(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	c := open(t, s.URL())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Without a server Close ends as well, with holds and waiters and all.
func TestCloseWithoutServer(t *testing.T) {
	each(t, "PF", func(t *testing.T, k kind) {
		redistest.CheckGoroutines(t)
		for name, leave := range map[string]func(*redistest.Server){
			"gone":   (*redistest.Server).Kill,
			"silent": (*redistest.Server).Pause,
		} {
			s := redistest.Start(t)
			c := open(t, s.URL())
			lock(t, t.Context(), k.make(c, "held"))
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := k.make(c, "held").Lock(context.Background()); err == nil {
						t.Errorf("%s: acquired", name)
					}
				})
			}
			leave(s)
			start := time.Now()
			_ = c.Close()
			wg.Wait()
			if took := time.Since(start); took > 4*time.Second+late { // two for the calls under way, two to free what is held
				t.Errorf("%s: Close took %v", name, took)
			}
		}
	})
}

// Nothing is left of thousands of contended rounds, some of them cancelled,
// some lost, some cut off.
func TestNothingLeaks(t *testing.T) {
	each(t, "PF", func(t *testing.T, k kind) {
		rounds := 10_000
		if k.name != "push" {
			rounds = 3000 // none of them is handed over inside the process
		}
		nothingLeaks(t, rounds, func(c *holdfast.Client, name string) holdfast.Locker { return k.make(c, name) })
	})
	t.Run("multi", func(t *testing.T) {
		nothingLeaks(t, 1000, func(c *holdfast.Client, name string) holdfast.Locker {
			return holdfast.Multi(c.Mutex(name), c.RWMutex("leak:rw"), c.FairMutex("leak:fair"))
		})
	})
}

func nothingLeaks(t *testing.T, rounds int, lock func(c *holdfast.Client, name string) holdfast.Locker) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	clients := []*holdfast.Client{open(t, p.URL(), quick), open(t, p.URL(), quick), open(t, p.URL(), quick)}
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		c := clients[g%len(clients)]
		wg.Go(func() {
			for i := range next {
				round(t, lock(c, fmt.Sprint("leak:", i%4)), i)
			}
		})
	}
	for i := range rounds {
		if i%1000 == 500 { // not at the end, when nobody would be subscribed for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	// What is in doubt is undone again after some seconds.
	eventually(t, 10*time.Second, "no key left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool {
			return !strings.HasPrefix(key, "redisson_lock_token:") // a counter is meant to stay
		})
	})
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range clients {
		_ = c.Close()
	}
}

// round locks and releases, and every so often does not get that far.
func round(t *testing.T, m holdfast.Locker, i int) {
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
	l, err := m.Lock(ctx, opts...)
	if err != nil {
		if !tolerable(err) {
			t.Error(err)
		}
		return
	}
	switch i % 20 {
	case 11:
		<-l.Context().Done() // lost, and never released
	case 13:
		inner, err := m.Lock(l.Context())
		if err == nil {
			err = inner.Release(ctx)
		}
		if !tolerable(err) {
			t.Error(err)
		}
		fallthrough
	default:
		if err := l.Release(ctx); !tolerable(err) {
			t.Error(err)
		}
	}
}

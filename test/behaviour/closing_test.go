package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

func TestClose(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	other := locktest.Open(t, s.URL())
	locktest.Lock(t, t.Context(), other.Mutex("other"))
	c := locktest.Open(t, s.URL())
	held := locktest.Lock(t, t.Context(), c.Mutex("held"))
	fixed := locktest.Lock(t, t.Context(), c.Mutex("fixed"), holdfast.LeaseTime(time.Minute))
	ctx := held.Context()
	errs := make(chan error)
	for i := range 10 {
		go func() {
			_, err := c.Mutex([]string{"held", "other"}[i%2]).Lock(context.Background())
			errs <- err
		}()
	}
	locktest.Eventually(t, 5*time.Second, "a waiter subscribed", func() bool { return len(s.Channels(t)) == 3 })
	start := time.Now()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { _ = c.Close() })
	}
	wg.Wait()
	_ = c.Close()
	if took := locktest.Took(start); took > locktest.Late {
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
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
}

func TestCloseUnused(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Nothing of a retired object is left at the server but the mark of the request,
// which expires.
func TestRetire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	objects := map[string]*object.Object{
		"fenced": object.Of(c.FencedMutex("fenced")), "fair": object.Of(c.FairMutex("fair")),
		"election": object.Of(c.Election("election")), "latch": object.Of(c.Latch("latch")),
	}
	for range 2 {
		locktest.Lock(t, t.Context(), c.FencedMutex("fenced"), holdfast.LeaseTime(time.Hour))
		locktest.Lock(t, t.Context(), c.FairMutex("fair"), holdfast.LeaseTime(time.Hour))
		s.Do(t, "RPUSH", "redisson_lock_queue:{fair}", "dead:1")
		s.Do(t, "SET", "redisson_lock_token:{election}", "41")
		s.Do(t, "SET", "latch", "3")
		for name, o := range objects {
			if retired, err := o.Retire(t.Context()); !retired || err != nil {
				t.Errorf("%s: %v, %v", name, retired, err)
			}
			if retired, err := o.Retire(t.Context()); retired || err != nil {
				t.Errorf("%s once more: %v, %v", name, retired, err)
			}
		}
		for _, key := range s.Keys(t) {
			if !strings.HasPrefix(key, "holdfast:once:") {
				t.Errorf("%s is left", key)
			}
		}
	}
}

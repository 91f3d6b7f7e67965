package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestDo(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), steady)
	m := c.Mutex(name(t))
	locked := func() bool {
		ok, err := m.IsLocked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	boom := errors.New("boom")
	err := m.Do(t.Context(), func(ctx context.Context) error {
		if n, err := m.HoldCount(ctx); n != 1 || err != nil {
			t.Errorf("hold count inside: %d, %v", n, err)
		}
		return boom
	})
	if !errors.Is(err, boom) || locked() {
		t.Errorf("error %v, locked %v", err, locked())
	}
	v, err := holdfast.DoValue(t.Context(), m, func(context.Context) (int, error) { return 42, nil })
	if v != 42 || err != nil {
		t.Errorf("value %d, %v", v, err)
	}
	func() {
		defer func() {
			if recover() == nil || locked() {
				t.Errorf("panic swallowed, or locked: %v", locked())
			}
		}()
		_ = m.Do(t.Context(), func(context.Context) error { panic(boom) })
	}()
	// A loss shows even if the function noticed nothing.
	err = m.Do(t.Context(), func(ctx context.Context) error {
		s.Do(t, "DEL", m.Name())
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("lost inside: %v", err)
	}
	err = m.Do(t.Context(), func(ctx context.Context) error {
		s.Do(t, "DEL", m.Name())
		<-ctx.Done()
		return boom
	})
	if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, boom) {
		t.Errorf("lost and failed inside: %v", err)
	}
}

func TestReentryFollowsTheContext(t *testing.T) {
	t.Parallel()
	c, other := open(t, redistest.Shared(t).URL()), open(t, redistest.Shared(t).URL())
	n := name(t)
	m := c.Mutex(n)
	outer := lock(t, t.Context(), m)
	busy := func(what string, ctx context.Context, m *holdfast.Mutex) {
		t.Helper()
		if l, err := m.TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("%s: got %v, %v", what, l, err)
		}
	}
	busy("plain context", t.Context(), m)
	busy("detached context", holdfast.Detach(outer.Context()), m)
	busy("another client", outer.Context(), other.Mutex(n))

	// Through any number of contexts and locks in between, and another Mutex.
	between := lock(t, outer.Context(), c.Mutex(n+":between"))
	ctx, cancel := context.WithTimeout(between.Context(), time.Minute)
	defer cancel()
	inner := lock(t, ctx, c.Mutex(n))
	if inner.Owner() != outer.Owner() || inner.Token() != outer.Token() {
		t.Errorf("re-entered as %s with %d, not as %s with %d", inner.Owner(), inner.Token(), outer.Owner(), outer.Token())
	}
	if between.Owner() == outer.Owner() {
		t.Error("another lock has the same owner")
	}
	if n, err := m.HoldCount(ctx); n != 2 || err != nil {
		t.Errorf("hold count %d, %v", n, err)
	}
	// The outer one first: still held by the inner one.
	release(t, outer)
	busy("held by the inner lease", t.Context(), m)
	release(t, inner)
	l := lock(t, t.Context(), m) // free
	// A context of a lease that is released carries no owner any more.
	busy("released context", context.WithoutCancel(inner.Context()), m)
	release(t, l)
	release(t, between)
}

func TestNonReentrantSaysSo(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	m := c.Mutex(name(t))
	l := lock(t, t.Context(), m)
	if _, err := m.Lock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("error %v", err)
	}
	release(t, l)
	// Released: no longer an owner, so no longer a re-entry.
	release(t, lock(t, context.WithoutCancel(l.Context()), m, holdfast.NonReentrant()))
}

func TestLeaseTimes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	n := name(t)
	m := c.Mutex(n)
	ttl := func(want time.Duration) {
		t.Helper()
		if got := time.Duration(s.Int(t, "PTTL", n)) * time.Millisecond; got > want || got < want-5*time.Second {
			t.Errorf("TTL %v, want %v", got, want)
		}
	}
	l := lock(t, t.Context(), m)
	ttl(30 * time.Second)
	if d := time.Until(l.Deadline()); d > 30*time.Second || d < 25*time.Second {
		t.Errorf("deadline in %v", d)
	}
	inner := lock(t, l.Context(), m, holdfast.LeaseTime(time.Second))
	ttl(30 * time.Second) // not cut
	release(t, inner)
	ttl(30 * time.Second)
	longer := lock(t, l.Context(), m, holdfast.LeaseTime(time.Hour))
	ttl(time.Hour)
	if err := l.Extend(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	ttl(time.Hour)
	if err := l.Extend(t.Context(), 2*time.Hour); err != nil {
		t.Error(err)
	}
	ttl(2 * time.Hour)
	if d := time.Until(l.Deadline()); d < time.Hour {
		t.Errorf("deadline in %v after an extension of 2h", d)
	}
	release(t, longer)
	release(t, l)
	if !l.Deadline().IsZero() || l.Valid() {
		t.Errorf("released, but deadline %v and valid %v", l.Deadline(), l.Valid())
	}
}

// Tokens grow with every grant, in whatever way it came about.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := []*holdfast.Client{open(t, s.URL()), open(t, s.URL()), open(t, s.URL(), holdfast.Options{Handoffs: -1})}
	var last int64 // guarded by the lock under test
	n := 0
	var wg sync.WaitGroup
	for g := range 24 {
		m := clients[g%3].Mutex("tokens")
		wg.Go(func() {
			for range 300 {
				l := lock(t, t.Context(), m)
				if l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				n++
				release(t, l)
			}
		})
	}
	wg.Wait()
	if n != 24*300 {
		t.Errorf("%d grants, want %d", n, 24*300)
	}
	l := lock(t, t.Context(), clients[0].Mutex("tokens"))
	if freed, err := clients[1].Mutex("tokens").ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	forced := lock(t, t.Context(), clients[1].Mutex("tokens"))
	if forced.Token() <= l.Token() {
		t.Errorf("token %d after %d, by force", forced.Token(), l.Token())
	}
	release(t, forced)
	s.Restart()
	again := lock(t, t.Context(), clients[1].Mutex("tokens"))
	if again.Token() <= forced.Token() {
		t.Errorf("token %d after %d, on an empty server", again.Token(), forced.Token())
	}
	if keys := s.Keys(t); fmt.Sprint(keys) != "[tokens]" {
		t.Errorf("keys %v, want only the lock's", keys)
	}
}

func TestForceUnlockTellsTheHolder(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	m := c.Mutex(name(t))
	l := lock(t, t.Context(), m)
	ctx := l.Context()
	if freed, err := m.ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	var lost *holdfast.LostError
	if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossForced || l.Valid() {
		t.Errorf("cause %v, valid %v", context.Cause(ctx), l.Valid())
	}
	if freed, err := m.ForceUnlock(t.Context()); freed || err != nil {
		t.Errorf("nothing to free: %v, %v", freed, err)
	}
}

func TestSyncLocker(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	m := c.Mutex(name(t))
	mu := holdfast.SyncLocker(t.Context(), m)
	n := 0
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 20 {
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n != 200 {
		t.Errorf("counted %d", n)
	}
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	panics("unlock of an unlocked one", mu.Unlock)
	mu.Lock()
	if _, err := m.ForceUnlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	panics("unlock of a lost one", mu.Unlock)
}

// A hundred goroutines on one lease: each may use it, and one release counts.
func TestLeaseIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	m := c.Mutex(name(t))
	l := lock(t, t.Context(), m)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			inner, err := m.Lock(l.Context())
			if err == nil {
				_, _ = inner.Valid(), inner.Deadline()
				release(t, inner)
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range 10 {
		wg.Go(func() {
			time.Sleep(5 * time.Millisecond)
			release(t, l)
		})
	}
	wg.Wait()
	if locked, err := m.IsLocked(t.Context()); locked || err != nil {
		t.Errorf("locked %v, %v", locked, err)
	}
}

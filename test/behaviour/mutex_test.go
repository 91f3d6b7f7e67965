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
)

func TestDo(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	m := c.Mutex(locktest.Name(t))
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
	// And once if it did.
	err = m.Do(t.Context(), func(ctx context.Context) error {
		s.Do(t, "DEL", m.Name())
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, holdfast.ErrLost) || strings.Count(err.Error(), "lost") != 1 {
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
	c, other := locktest.Open(t, redistest.Shared(t).URL()), locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	m := c.Mutex(n)
	outer := locktest.Lock(t, t.Context(), m)
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
	between := locktest.Lock(t, outer.Context(), c.Mutex(n+":between"))
	ctx, cancel := context.WithTimeout(between.Context(), time.Minute)
	defer cancel()
	inner := locktest.Lock(t, ctx, c.Mutex(n))
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
	locktest.Release(t, outer)
	busy("held by the inner lease", t.Context(), m)
	locktest.Release(t, inner)
	l := locktest.Lock(t, t.Context(), m) // free
	// A context of a lease that is released carries no owner any more.
	busy("released context", context.WithoutCancel(inner.Context()), m)
	locktest.Release(t, l)
	locktest.Release(t, between)
}

func TestNonReentrantSaysSo(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	m := c.Mutex(locktest.Name(t))
	l := locktest.Lock(t, t.Context(), m)
	if _, err := m.Lock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("error %v", err)
	}
	locktest.Release(t, l)
	// Released: no longer an owner, so no longer a re-entry.
	locktest.Release(t, locktest.Lock(t, context.WithoutCancel(l.Context()), m, holdfast.NonReentrant()))
}

func TestLeaseTimes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	n := locktest.Name(t)
	m := c.Mutex(n)
	ttl := func(want time.Duration) {
		t.Helper()
		if got := time.Duration(s.Int(t, "PTTL", n)) * time.Millisecond; got > want || got < want-5*time.Second {
			t.Errorf("TTL %v, want %v", got, want)
		}
	}
	l := locktest.Lock(t, t.Context(), m)
	ttl(30 * time.Second)
	if d := time.Until(l.Deadline()); d > 30*time.Second || d < 25*time.Second {
		t.Errorf("deadline in %v", d)
	}
	inner := locktest.Lock(t, l.Context(), m, holdfast.LeaseTime(time.Second))
	ttl(30 * time.Second) // not cut
	locktest.Release(t, inner)
	ttl(30 * time.Second)
	longer := locktest.Lock(t, l.Context(), m, holdfast.LeaseTime(time.Hour))
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
	locktest.Release(t, longer)
	locktest.Release(t, l)
	if !l.Deadline().IsZero() || l.Valid() {
		t.Errorf("released, but deadline %v and valid %v", l.Deadline(), l.Valid())
	}
}

// Tokens grow with every grant, in whatever way it came about.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL(), holdfast.Options{Handoffs: -1})}
	var last int64 // guarded by the lock under test
	n := 0
	var wg sync.WaitGroup
	for g := range 24 {
		m := clients[g%3].Mutex("tokens")
		wg.Go(func() {
			for range 300 {
				l := locktest.Lock(t, t.Context(), m)
				if l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
				n++
				locktest.Release(t, l)
			}
		})
	}
	wg.Wait()
	if n != 24*300 {
		t.Errorf("%d grants, want %d", n, 24*300)
	}
	l := locktest.Lock(t, t.Context(), clients[0].Mutex("tokens"))
	if freed, err := clients[1].Mutex("tokens").ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	forced := locktest.Lock(t, t.Context(), clients[1].Mutex("tokens"))
	if forced.Token() <= l.Token() {
		t.Errorf("token %d after %d, by force", forced.Token(), l.Token())
	}
	locktest.Release(t, forced)
	s.Restart()
	again := locktest.Lock(t, t.Context(), clients[1].Mutex("tokens"))
	if again.Token() <= forced.Token() {
		t.Errorf("token %d after %d, on an empty server", again.Token(), forced.Token())
	}
	if keys := s.Keys(t); fmt.Sprint(keys) != "[tokens]" {
		t.Errorf("keys %v, want only the lock's", keys)
	}
}

func TestForceUnlockTellsTheHolder(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	m := c.Mutex(locktest.Name(t))
	l := locktest.Lock(t, t.Context(), m)
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
	c := locktest.Open(t, redistest.Shared(t).URL())
	m := c.Mutex(locktest.Name(t))
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
	c := locktest.Open(t, redistest.Shared(t).URL())
	m := c.Mutex(locktest.Name(t))
	l := locktest.Lock(t, t.Context(), m)
	var wg sync.WaitGroup
	tried := make(chan struct{}, 100)
	for range 100 {
		wg.Go(func() {
			defer func() { tried <- struct{}{} }()
			inner, err := m.Lock(l.Context())
			if err == nil {
				_, _ = inner.Valid(), inner.Deadline()
				locktest.Release(t, inner)
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range 10 {
		wg.Go(func() {
			<-tried
			locktest.Release(t, l)
		})
	}
	wg.Wait()
	if locked, err := m.IsLocked(t.Context()); locked || err != nil {
		t.Errorf("locked %v, %v", locked, err)
	}
}

// A lock that is entered again with a later end lasts until then, also for the outer
// lease.
func TestInnerLeaseTimeKeepsTheOuter(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	for what, m := range map[string]holdfast.Locker{"mutex": c.Mutex(locktest.Name(t) + "m"), "read lock": c.RWMutex(locktest.Name(t) + "r").RLocker()} {
		const short = 3 * time.Second
		outer := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(short))
		first := outer.Deadline()
		locktest.Release(t, locktest.Lock(t, outer.Context(), m, holdfast.LeaseTime(time.Minute)))
		if end := outer.Deadline(); end.Sub(first) < 30*time.Second {
			t.Errorf("%s: the outer lease ends %v later", what, end.Sub(first))
		}
		locktest.Release(t, outer)
	}
}

// A hash that is no lock's is not deleted by force, and the error of a lock by
// that name gives a hint.
func TestForceUnlockSparesData(t *testing.T) {
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	n := locktest.Name(t)
	s.Do(t, "HSET", n, "name", "Ann", "mail", "a@b")
	for _, m := range []locktest.MutexLike{c.Mutex(n), c.FairMutex(n), c.FencedMutex(n), c.RWMutex(n), locktest.Readers(c.RWMutex(n))} {
		if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("TryLock: %v", err)
		}
		if freed, err := m.ForceUnlock(t.Context()); freed {
			t.Errorf("ForceUnlock: %v, %v", freed, err)
		}
	}
	if s.Int(t, "HLEN", n) != 2 {
		t.Error("the data is gone")
	}
}

// A lease that is granted while the lock is being forced is found out at once,
// not at the next renewal.
func TestForceUnlockBesideTryLock(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	m := locktest.Open(t, s.URL()).Mutex("x")
	for range 200 {
		var l *holdfast.Lease
		var wg sync.WaitGroup
		wg.Go(func() { l, _ = m.TryLock(t.Context()) })
		wg.Go(func() { _, _ = m.ForceUnlock(t.Context()) })
		wg.Wait()
		if l == nil {
			continue
		}
		if s.Int(t, "EXISTS", "x") == 0 {
			locktest.Eventually(t, 6*time.Second, "the holder is told", func() bool { return !l.Valid() })
		}
		_ = l.Release(t.Context())
	}
}

// Unlock after a loss does not free the lock of the next holder.
func TestSyncLockerAfterLoss(t *testing.T) {
	t.Parallel()
	m := locktest.Open(t, redistest.Shared(t).URL()).Mutex(locktest.Name(t))
	mu := holdfast.SyncLocker(t.Context(), m, holdfast.LeaseTime(4*time.Second))
	mu.Lock()
	next := make(chan struct{})
	go func() {
		mu.Lock()
		close(next)
	}()
	time.Sleep(4300 * time.Millisecond) // lost by now
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic after a loss")
			}
		}()
		mu.Unlock()
	}()
	<-next
	if locked, err := m.IsLocked(t.Context()); !locked || err != nil {
		t.Errorf("the next one's lock: %v, %v", locked, err)
	}
	mu.Unlock()
}

// The holder is told at once when its own client frees the lock by force,
// whatever each of them calls it.
func TestForceUnlockByAnyKind(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	locktest.Each(t, "PF", func(t *testing.T, holder locktest.Kind) {
		for _, k := range locktest.Kinds {
			if k.Letter != "P" && k.Letter != "F" {
				continue
			}
			m := holder.Make(c, locktest.Name(t))
			l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(time.Minute))
			if freed, err := k.Make(c, m.Name()).ForceUnlock(t.Context()); !freed || err != nil {
				t.Errorf("forced as %s: %v, %v", k.Name, freed, err)
			}
			if l.Valid() || l.Context().Err() == nil {
				t.Errorf("forced as %s, the lease is valid", k.Name)
			}
			locktest.WantLost(t, l, holdfast.LossForced)
		}
	})
}

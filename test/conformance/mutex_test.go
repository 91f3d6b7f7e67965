package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are what Redisson's tests ask of the plain lock, of
// its renewal and of its non-reentrant form, beyond what all kinds share. The
// number in a test's name is its id.

func TestPL01LeaseDoesNotLeakIntoNext(t *testing.T) {
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).Mutex(locktest.Name(t))
	l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(time.Hour))
	locktest.WantTTL(t, s, m.Name(), time.Hour)
	locktest.Release(t, l)
	if s.Int(t, "EXISTS", m.Name()) != 0 {
		t.Error("a key is left after Release")
	}
	l = locktest.Lock(t, t.Context(), m)
	locktest.WantTTL(t, s, m.Name(), 30*time.Second)
	locktest.Release(t, l)
}

func TestPL02NestedLeases(t *testing.T) {
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).Mutex(locktest.Name(t))
	const lease = 10 * time.Second
	ctx := t.Context()
	var ls []*holdfast.Lease
	for range 3 {
		l := locktest.Lock(t, ctx, m, holdfast.LeaseTime(lease))
		ls = append(ls, l)
		ctx = l.Context()
	}
	for i := 2; i > 0; i-- {
		locktest.Release(t, ls[i])
		locktest.WantTTL(t, s, m.Name(), lease)
	}
	if !ls[0].Valid() {
		t.Error("the outermost lease is not valid")
	}
	locktest.Release(t, ls[0])
	locktest.WantFree(t, m)
}

func TestPL03TryAndRelease(t *testing.T) {
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).Mutex(locktest.Name(t))
	rounds := locktest.Often(10_000)
	if testing.Short() {
		rounds = 2_000
	}
	var taken atomic.Int64
	sec := locktest.NewSection(m.Name())
	locktest.Parallel(16, func(int) {
		for range rounds {
			l, err := m.TryLock(t.Context())
			if errors.Is(err, holdfast.ErrNotAcquired) {
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			sec.Visit(l, 0)
			if n := taken.Add(1); n%16 == 0 {
				if st, err := m.State(t.Context()); err != nil || st.Owner != l.Owner() || st.Holds != 1 {
					t.Errorf("State is %+v, %v, want the owner %s", st, err, l.Owner())
				}
			}
			if !l.Valid() {
				t.Error("the lease is not valid")
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	if taken.Load() < 100 {
		t.Errorf("only %d tries succeeded", taken.Load())
	}
	sec.Check(t, int(taken.Load()))
	if s.Int(t, "EXISTS", m.Name()) != 0 {
		t.Error("a key is left in the end")
	}
}

func TestPL06ManyNames(t *testing.T) {
	s := redistest.Fresh(t)
	c := locktest.Open(t, locktest.Enduring(s.URL()))
	for _, load := range []struct{ goroutines, names int }{{2, 5000}, {5, 1000}, {10, 500}, {20, 100}} {
		for mode, take := range map[string]func(context.Context, *holdfast.Mutex) (*holdfast.Lease, error){
			"blocking": func(ctx context.Context, m *holdfast.Mutex) (*holdfast.Lease, error) {
				return m.Lock(ctx)
			},
			"timed": func(ctx context.Context, m *holdfast.Mutex) (*holdfast.Lease, error) {
				l, err := m.TryLock(ctx, holdfast.Wait(rand.N(3*time.Millisecond)))
				if locktest.TimedOut(err) {
					return nil, nil
				}
				return l, err
			},
		} {
			t.Run(fmt.Sprintf("%s %dx%d", mode, load.goroutines, load.names), func(t *testing.T) {
				manyNames(t, c, load.goroutines, locktest.Often(load.names), take)
				// What was granted too late for a try is undone in the background.
				locktest.Eventually(t, 15*time.Second, "no key is left", func() bool { return len(s.Keys(t)) == 0 })
			})
		}
	}
}

// manyNames lets goroutines lock the same names in the same order and write to
// a value under each. A goroutine that gets no lease continues with the next name.
func manyNames(t *testing.T, c *holdfast.Client, goroutines, names int, take func(context.Context, *holdfast.Mutex) (*holdfast.Lease, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	values := make([]int, names) // each guarded by the lock of its number
	var missed atomic.Int64
	locktest.Parallel(goroutines, func(int) {
		for i := range names {
			l, err := take(ctx, c.Mutex(fmt.Sprint("Test:many:", i)))
			if err != nil {
				t.Error(err)
				return
			}
			if l == nil {
				missed.Add(1)
				continue
			}
			values[i]++
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	sum := int(missed.Load())
	for _, v := range values {
		sum += v
	}
	if sum != goroutines*names {
		t.Errorf("%d rounds written or missed, want %d", sum, goroutines*names)
	}
}

// The owner is in the context: whichever goroutine acts with it is the owner,
// and a call is judged when it runs.
func TestPL07OwnerIsExplicit(t *testing.T) {
	m := locktest.Open(t, redistest.Shared(t).URL()).Mutex(locktest.Name(t))
	// try asks and tries as the owner that ctx carries, in a goroutine that has
	// never locked anything.
	try := func(ctx context.Context) (held int, err error) {
		locktest.Parallel(1, func(int) {
			if held, err = m.HoldCount(ctx); err != nil {
				return
			}
			var l *holdfast.Lease
			if l, err = m.TryLock(ctx); err == nil {
				err = l.Release(ctx)
			}
		})
		return held, err
	}
	first := locktest.Lock(t, t.Context(), m)
	if held, err := try(t.Context()); held != 0 || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("another owner: holds %d, try returned %v, want 0 and ErrNotAcquired", held, err)
	}
	if held, err := try(first.Context()); held != 1 || err != nil {
		t.Errorf("the owner in another goroutine: holds %d, try returned %v, want 1 and success", held, err)
	}
	if held, err := try(holdfast.Detach(first.Context())); held != 0 || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("detached from the owner: holds %d, try returned %v, want 0 and ErrNotAcquired", held, err)
	}
	locktest.Release(t, first)
	if held, err := try(t.Context()); held != 0 || err != nil {
		t.Errorf("another owner, after Release: held %d, try returned %v, want 0 and success", held, err)
	}
}

// unshaken are the settings of leases that must not be lost, even on a machine that
// stands still for many seconds.
var unshaken = holdfast.Options{WatchdogTimeout: 30 * time.Second, RenewEvery: 200 * time.Millisecond}

func TestRN01ServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL(), unshaken).Mutex(locktest.Name(t))
	l := locktest.Lock(t, t.Context(), m)
	ctx := l.Context()
	s.Restart()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("the cause of the lease's context is %v, want ErrLost", cause)
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release returned %v, want ErrLost", err)
	}

	l = locktest.Lock(t, t.Context(), m)
	ctx = l.Context()
	locktest.WantRenewed(t, s, m.Name())
	if !l.Valid() || ctx.Err() != nil {
		t.Errorf("the new lease is not renewed: %v", context.Cause(ctx))
	}
	if st, err := m.State(t.Context()); err != nil || st.Owner != l.Owner() {
		t.Errorf("State is %+v, %v, want the owner %s", st, err, l.Owner())
	}
	locktest.Release(t, l)
	locktest.WantFree(t, m)
}

func TestRN04RenewalAfterNesting(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL(), unshaken).Mutex(locktest.Name(t))
	outer := locktest.Lock(t, t.Context(), m)
	inner := locktest.Lock(t, outer.Context(), m)
	locktest.Release(t, inner)
	locktest.Release(t, outer)

	l := locktest.Lock(t, t.Context(), m)
	ctx := l.Context()
	locktest.WantRenewed(t, s, m.Name())
	if !l.Valid() || ctx.Err() != nil {
		t.Errorf("the lease is not renewed: %v", context.Cause(ctx))
	}
	if s.Int(t, "HEXISTS", m.Name(), l.Owner()) != 1 {
		t.Error("the owner is gone from the server")
	}
	locktest.Release(t, l)
}

// nonReentrant runs a test for the kinds that have a non-reentrant form.
func nonReentrant(t *testing.T, test func(t *testing.T, make func(*holdfast.Client, string) locktest.MutexLike)) {
	t.Helper()
	t.Run("push", func(t *testing.T) {
		test(t, func(c *holdfast.Client, name string) locktest.MutexLike {
			return c.Mutex(name, holdfast.NonReentrant())
		})
	})
	t.Run("fair", func(t *testing.T) {
		test(t, func(c *holdfast.Client, name string) locktest.MutexLike {
			return c.FairMutex(name, holdfast.NonReentrant())
		})
	})
}

func TestNR01ContenderEnters(t *testing.T) {
	t.Parallel()
	nonReentrant(t, func(t *testing.T, make func(*holdfast.Client, string) locktest.MutexLike) {
		holder := locktest.Open(t, redistest.Shared(t).URL())
		nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
			m := make(c, locktest.Name(t))
			l := locktest.Lock(t, t.Context(), make(holder, m.Name()))
			waiter := locktest.Background(t.Context(), m)
			locktest.WantWaiting(t, c, waiter)
			locktest.Release(t, l)
			locktest.Release(t, locktest.Entered(t, waiter))
			if locktest.Locked(t, m) {
				t.Error("locked in the end")
			}
		})
	})
}

// wantReentryFails checks that the owner of l cannot lock m again in any way, and
// that one release frees it nevertheless.
func wantReentryFails(t *testing.T, m locktest.MutexLike, l *holdfast.Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 10*time.Second)
	defer cancel()
	for call, take := range map[string]func() (*holdfast.Lease, error){
		"Lock":             func() (*holdfast.Lease, error) { return m.Lock(ctx) },
		"TryLock":          func() (*holdfast.Lease, error) { return m.TryLock(ctx) },
		"TryLock and wait": func() (*holdfast.Lease, error) { return m.TryLock(ctx, holdfast.Wait(10*time.Second)) },
	} {
		start := time.Now()
		if _, err := take(); !errors.Is(err, holdfast.ErrReentrant) {
			t.Errorf("%s: error %v, want ErrReentrant", call, err)
		}
		if took := locktest.Took(start); took > 5*time.Second {
			t.Errorf("%s failed after %v, want at once", call, took)
		}
		if n := locktest.HoldCount(t, ctx, m); n != 1 {
			t.Errorf("%s: HoldCount is %d, want 1", call, n)
		}
	}
	if !l.Valid() {
		t.Error("the lease is not valid")
	}
	locktest.Release(t, l)
	locktest.WantFree(t, m)
}

func TestNR02NoReentry(t *testing.T) {
	nonReentrant(t, func(t *testing.T, make func(*holdfast.Client, string) locktest.MutexLike) {
		m := make(locktest.Open(t, redistest.Shared(t).URL()), locktest.Name(t))
		wantReentryFails(t, m, locktest.Lock(t, t.Context(), m))
	})
}

func TestNR03NoReentryThroughSecondObject(t *testing.T) {
	nonReentrant(t, func(t *testing.T, make func(*holdfast.Client, string) locktest.MutexLike) {
		c := locktest.Open(t, redistest.Shared(t).URL())
		m := make(c, locktest.Name(t))
		wantReentryFails(t, make(c, m.Name()), locktest.Lock(t, t.Context(), m))
	})
}

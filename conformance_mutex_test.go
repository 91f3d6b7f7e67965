package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are what Redisson's tests ask of the plain lock, of
// its renewal and of its non-reentrant form, beyond what all kinds share. The
// number in a test's name is its id.

// wantTTL checks how long the server keeps a key: at most for d, and not much
// less.
func wantTTL(tb testing.TB, s *redistest.Server, key string, d time.Duration) {
	tb.Helper()
	ttl := time.Duration(s.Int(tb, "PTTL", key)) * time.Millisecond
	if ttl > d || ttl < d-5*time.Second {
		tb.Errorf("TTL is %v, want about %v", ttl, d)
	}
}

func TestPL01LeaseDoesNotLeakIntoNext(t *testing.T) {
	s := redistest.Shared(t)
	m := open(t, s.URL()).Mutex(name(t))
	l := lock(t, t.Context(), m, holdfast.LeaseTime(time.Hour))
	wantTTL(t, s, m.Name(), time.Hour)
	release(t, l)
	if s.Int(t, "EXISTS", m.Name()) != 0 {
		t.Error("a key is left after Release")
	}
	l = lock(t, t.Context(), m)
	wantTTL(t, s, m.Name(), 30*time.Second)
	release(t, l)
}

func TestPL02NestedLeases(t *testing.T) {
	s := redistest.Shared(t)
	m := open(t, s.URL()).Mutex(name(t))
	const lease = 10 * time.Second
	ctx := t.Context()
	var ls []*holdfast.Lease
	for range 3 {
		l := lock(t, ctx, m, holdfast.LeaseTime(lease))
		ls = append(ls, l)
		ctx = l.Context()
	}
	for i := 2; i > 0; i-- {
		release(t, ls[i])
		wantTTL(t, s, m.Name(), lease)
	}
	if !ls[0].Valid() {
		t.Error("the outermost lease is not valid")
	}
	release(t, ls[0])
	wantFree(t, m)
}

func TestPL03TryAndRelease(t *testing.T) {
	s := redistest.Shared(t)
	m := open(t, s.URL()).Mutex(name(t))
	rounds := often(10_000)
	if testing.Short() {
		rounds = 2_000
	}
	var taken atomic.Int64
	sec := newSection(m.Name())
	parallel(16, func(int) {
		for range rounds {
			l, err := m.TryLock(t.Context())
			if errors.Is(err, holdfast.ErrNotAcquired) {
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			sec.visit(l, 0)
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
	sec.check(t, int(taken.Load()))
	if s.Int(t, "EXISTS", m.Name()) != 0 {
		t.Error("a key is left in the end")
	}
}

func TestPL06ManyNames(t *testing.T) {
	s := redistest.Fresh(t)
	c := open(t, enduring(s.URL()))
	for _, load := range []struct{ goroutines, names int }{{2, 5000}, {5, 1000}, {10, 500}, {20, 100}} {
		for mode, take := range map[string]func(context.Context, *holdfast.Mutex) (*holdfast.Lease, error){
			"blocking": func(ctx context.Context, m *holdfast.Mutex) (*holdfast.Lease, error) {
				return m.Lock(ctx)
			},
			"timed": func(ctx context.Context, m *holdfast.Mutex) (*holdfast.Lease, error) {
				l, err := m.TryLock(ctx, holdfast.Wait(rand.N(3*time.Millisecond)))
				if inVain(err) {
					return nil, nil
				}
				return l, err
			},
		} {
			t.Run(fmt.Sprintf("%s %dx%d", mode, load.goroutines, load.names), func(t *testing.T) {
				manyNames(t, c, load.goroutines, often(load.names), take)
				// What was granted too late for a try is undone in the background.
				eventually(t, 15*time.Second, "no key is left", func() bool { return len(s.Keys(t)) == 0 })
			})
		}
	}
}

// manyNames lets goroutines lock the same names in the same order and write to
// a value under each. Whoever gets no lease goes on to the next name.
func manyNames(t *testing.T, c *holdfast.Client, goroutines, names int, take func(context.Context, *holdfast.Mutex) (*holdfast.Lease, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	values := make([]int, names) // each guarded by the lock of its number
	var missed atomic.Int64
	parallel(goroutines, func(int) {
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
	m := open(t, redistest.Shared(t).URL()).Mutex(name(t))
	// try asks and tries as the owner that ctx carries, in a goroutine that has
	// never locked anything.
	try := func(ctx context.Context) (held int, err error) {
		parallel(1, func(int) {
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
	first := lock(t, t.Context(), m)
	if held, err := try(t.Context()); held != 0 || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("another owner: holds %d, try returned %v, want 0 and ErrNotAcquired", held, err)
	}
	if held, err := try(first.Context()); held != 1 || err != nil {
		t.Errorf("the owner in another goroutine: holds %d, try returned %v, want 1 and success", held, err)
	}
	if held, err := try(holdfast.Detach(first.Context())); held != 0 || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("detached from the owner: holds %d, try returned %v, want 0 and ErrNotAcquired", held, err)
	}
	release(t, first)
	if held, err := try(t.Context()); held != 0 || err != nil {
		t.Errorf("another owner, after Release: held %d, try returned %v, want 0 and success", held, err)
	}
}

// unshaken are the settings of leases that must not be lost. They bear with a
// machine that stands still for two seconds and is slow to come back.
var unshaken = holdfast.Options{WatchdogTimeout: 4 * time.Second, RenewEvery: 200 * time.Millisecond}

func TestRN01ServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), unshaken).Mutex(name(t))
	l := lock(t, t.Context(), m)
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

	l = lock(t, t.Context(), m)
	ctx = l.Context()
	time.Sleep(unshaken.WatchdogTimeout + aWhile)
	if !l.Valid() || ctx.Err() != nil {
		t.Errorf("the new lease is not renewed: %v", context.Cause(ctx))
	}
	if st, err := m.State(t.Context()); err != nil || st.Owner != l.Owner() {
		t.Errorf("State is %+v, %v, want the owner %s", st, err, l.Owner())
	}
	release(t, l)
	wantFree(t, m)
}

func TestRN04RenewalAfterNesting(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := open(t, s.URL(), unshaken).Mutex(name(t))
	outer := lock(t, t.Context(), m)
	inner := lock(t, outer.Context(), m)
	release(t, inner)
	release(t, outer)

	l := lock(t, t.Context(), m)
	ctx := l.Context()
	time.Sleep(3 * unshaken.WatchdogTimeout)
	if !l.Valid() || ctx.Err() != nil {
		t.Errorf("the lease is not renewed: %v", context.Cause(ctx))
	}
	if s.Int(t, "HEXISTS", m.Name(), l.Owner()) != 1 {
		t.Error("the owner is gone from the server")
	}
	release(t, l)
}

// nonReentrant runs a test for the kinds that have a non-reentrant form.
func nonReentrant(t *testing.T, test func(t *testing.T, make func(*holdfast.Client, string) mutexLike)) {
	t.Helper()
	t.Run("push", func(t *testing.T) {
		test(t, func(c *holdfast.Client, name string) mutexLike { return c.Mutex(name, holdfast.NonReentrant()) })
	})
	t.Run("fair", func(t *testing.T) {
		test(t, func(c *holdfast.Client, name string) mutexLike { return c.FairMutex(name, holdfast.NonReentrant()) })
	})
}

func TestNR01ContenderEnters(t *testing.T) {
	t.Parallel()
	nonReentrant(t, func(t *testing.T, make func(*holdfast.Client, string) mutexLike) {
		holder := open(t, redistest.Shared(t).URL())
		nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
			m := make(c, name(t))
			l := lock(t, t.Context(), make(holder, m.Name()))
			waiter := background(t.Context(), m)
			select {
			case o := <-waiter:
				t.Fatalf("the contender did not wait: %v", o.err)
			case <-time.After(100 * time.Millisecond):
			}
			release(t, l)
			release(t, entered(t, waiter))
			if locked(t, m) {
				t.Error("locked in the end")
			}
		})
	})
}

// wantReentryFails checks that whoever holds l cannot take m in any way, and
// that one release frees it all the same.
func wantReentryFails(t *testing.T, m mutexLike, l *holdfast.Lease) {
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
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s failed after %v, want at once", call, took)
		}
		if n := holds(t, ctx, m); n != 1 {
			t.Errorf("%s: HoldCount is %d, want 1", call, n)
		}
	}
	if !l.Valid() {
		t.Error("the lease is not valid")
	}
	release(t, l)
	wantFree(t, m)
}

func TestNR02NoReentry(t *testing.T) {
	nonReentrant(t, func(t *testing.T, make func(*holdfast.Client, string) mutexLike) {
		m := make(open(t, redistest.Shared(t).URL()), name(t))
		wantReentryFails(t, m, lock(t, t.Context(), m))
	})
}

func TestNR03NoReentryThroughSecondObject(t *testing.T) {
	nonReentrant(t, func(t *testing.T, make func(*holdfast.Client, string) mutexLike) {
		c := open(t, redistest.Shared(t).URL())
		m := make(c, name(t))
		wantReentryFails(t, make(c, m.Name()), lock(t, t.Context(), m))
	})
}

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

// A writer may downgrade to reading, which lets others read. Waiting readers are told
// at once.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	holder := locktest.Open(t, url)
	for where, c := range map[string]*holdfast.Client{"same client": holder, "other client": locktest.Open(t, url, locktest.Unpolled)} {
		t.Run(where, func(t *testing.T) {
			m := c.RWMutex(locktest.Name(t))
			w := locktest.Lock(t, t.Context(), holder.RWMutex(m.Name()))
			r := locktest.Lock(t, w.Context(), holder.RWMutex(m.Name()).RLocker())
			var waiters []<-chan locktest.Outcome
			for range 3 {
				waiters = append(waiters, locktest.Background(t.Context(), m.RLocker()))
			}
			writer := locktest.Background(t.Context(), m)
			locktest.AwaitWaiting(t, c, 4)
			locktest.WantRefused(t, m.RLocker())
			start := time.Now()
			locktest.Release(t, w)
			var ls []*holdfast.Lease
			for _, waiter := range waiters {
				ls = append(ls, locktest.Entered(t, waiter))
			}
			if took := locktest.Took(start); took > locktest.Late {
				t.Errorf("readers that waited are in after %v", took)
			}
			locktest.WantFree(t, m.RLocker())
			for _, l := range ls {
				locktest.Release(t, l)
			}
			if !r.Valid() || r.Context().Err() != nil {
				t.Errorf("the read lease has ended with the write lease: %v", context.Cause(r.Context()))
			}
			select {
			case o := <-writer:
				t.Fatalf("a writer beside a reader: %v", o.Err)
			default:
			}
			locktest.Release(t, r)
			locktest.Release(t, locktest.Entered(t, writer))
		})
	}
}

// What ends the context of a read lease that was taken while writing.
func TestDowngradeContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL())
	boom := errors.New("boom")
	for _, tt := range []struct {
		name  string
		write bool // still held when it ends
		end   func(t *testing.T, m *holdfast.RWMutex, r *holdfast.Lease, cancel context.CancelCauseFunc)
		cause error
	}{
		{"given context", false, func(_ *testing.T, _ *holdfast.RWMutex, _ *holdfast.Lease, cancel context.CancelCauseFunc) {
			cancel(boom)
		}, boom},
		{"given context while writing", true, func(_ *testing.T, _ *holdfast.RWMutex, _ *holdfast.Lease, cancel context.CancelCauseFunc) {
			cancel(boom)
		}, boom},
		{"release", false, func(t *testing.T, _ *holdfast.RWMutex, r *holdfast.Lease, _ context.CancelCauseFunc) {
			locktest.Release(t, r)
		}, holdfast.ErrNotHeld},
		{"release while writing", true, func(t *testing.T, _ *holdfast.RWMutex, r *holdfast.Lease, _ context.CancelCauseFunc) {
			locktest.Release(t, r)
		}, holdfast.ErrNotHeld},
		{"loss", false, func(t *testing.T, m *holdfast.RWMutex, _ *holdfast.Lease, _ context.CancelCauseFunc) {
			s.Do(t, "DEL", m.Name())
		}, holdfast.ErrLost},
		{"loss while writing", true, func(t *testing.T, m *holdfast.RWMutex, r *holdfast.Lease, _ context.CancelCauseFunc) {
			s.Do(t, "HDEL", m.Name(), r.Owner())
		}, holdfast.ErrLost},
		{"loss of the write lease", true, func(t *testing.T, m *holdfast.RWMutex, _ *holdfast.Lease, _ context.CancelCauseFunc) {
			s.Do(t, "DEL", m.Name())
		}, holdfast.ErrLost},
	} {
		for _, asked := range []string{"early", "late"} { // for the context
			t.Run(tt.name+" "+asked, func(t *testing.T) {
				t.Parallel()
				m := c.RWMutex(locktest.Name(t))
				given, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				w := locktest.Lock(t, given, m)
				inner := locktest.Lock(t, w.Context(), m) // the hold, not the lease, is what it depends on
				r := locktest.Lock(t, inner.Context(), m.RLocker())
				if asked == "early" {
					_ = r.Context()
				}
				if !tt.write {
					locktest.Release(t, inner)
					locktest.Release(t, w)
				}
				ctx := r.Context()
				nested := locktest.Lock(t, ctx, m.RLocker()).Context()
				if _, err := other.RWMutex(m.Name()).TryLock(t.Context(), holdfast.Wait(20*time.Millisecond)); !locktest.TimedOut(err) {
					t.Fatalf("a writer beside a reader: %v", err)
				}
				if ctx.Err() != nil || nested.Err() != nil || !r.Valid() || !errors.Is(context.Cause(ctx), nil) {
					t.Fatalf("ended too early: %v", context.Cause(ctx))
				}
				tt.end(t, m, r, cancel)
				select {
				case <-nested.Done():
				case <-time.After(10 * time.Second):
					t.Fatal("the context does not end")
				}
				if cause := context.Cause(ctx); !errors.Is(cause, tt.cause) {
					t.Errorf("cause %v, want %v", cause, tt.cause)
				}
				if given.Err() == nil && errors.Is(tt.cause, boom) {
					t.Error("the given context was not ended")
				}
			})
		}
	}
}

// A tally is a context that counts how many wait for its end.
type tally struct {
	context.Context
	mu    sync.Mutex
	funcs map[*func()]struct{}
	done  chan struct{}
}

func newTally(ctx context.Context) *tally {
	return &tally{Context: ctx, funcs: make(map[*func()]struct{}), done: make(chan struct{})}
}

func (c *tally) Done() <-chan struct{} { return c.done }
func (c *tally) Err() error            { return nil }

// AfterFunc is what package context uses instead of a goroutine.
func (c *tally) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.funcs[&f] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.funcs[&f]
		delete(c.funcs, &f)
		return ok
	}
}

func (c *tally) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.funcs)
}

// Nothing is left at a context that outlives all the leases taken with it.
func TestDowngradeDoesNotLeak(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	ctx := newTally(t.Context())
	for i := range 300 {
		w := locktest.Lock(t, ctx, m)
		r := locktest.Lock(t, w.Context(), m.RLocker())
		inside, first, second := r.Context(), w, r
		if i%3 == 1 {
			first, second = r, w
		}
		locktest.Release(t, first)
		if i%3 == 0 {
			_ = locktest.Lock(t, inside, m.RLocker()).Release(t.Context())
		}
		locktest.Release(t, second)
	}
	locktest.Eventually(t, 5*time.Second, "nothing waits for the end of the given context", func() bool { return ctx.count() == 0 })
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

// A reader cannot write, since it would wait for itself.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	c, other := locktest.Open(t, url), locktest.Open(t, url)
	m := c.RWMutex(locktest.Name(t))
	r := locktest.Lock(t, t.Context(), m.RLocker())
	nested := locktest.Lock(t, r.Context(), c.Mutex(m.Name()+":between"))
	try := func(what string, ctx context.Context, want error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		start := time.Now()
		calls := map[string]func() (*holdfast.Lease, error){
			"TryLock":          func() (*holdfast.Lease, error) { return m.TryLock(ctx) },
			"TryLock and wait": func() (*holdfast.Lease, error) { return m.TryLock(ctx, holdfast.Wait(time.Second)) },
		}
		if errors.Is(want, holdfast.ErrUpgrade) { // or it would wait for ever
			calls["Lock"] = func() (*holdfast.Lease, error) { return m.Lock(ctx) }
			calls["Do"] = func() (*holdfast.Lease, error) {
				return nil, m.Do(ctx, func(context.Context) error { panic("inside") })
			}
			calls["first"] = func() (*holdfast.Lease, error) { return c.RWMutex(m.Name(), holdfast.WriterFirst()).Lock(ctx) }
		}
		for call, take := range calls {
			l, err := take()
			if errors.Is(want, holdfast.ErrNotAcquired) && locktest.TimedOut(err) {
				continue
			}
			if !errors.Is(err, want) {
				t.Errorf("%s, %s: %v, %v, want %v", what, call, l, err, want)
			}
		}
		if took := locktest.Took(start); errors.Is(want, holdfast.ErrUpgrade) && took > locktest.Late {
			t.Errorf("%s: refused after %v", what, took)
		}
	}
	try("reader", r.Context(), holdfast.ErrUpgrade)
	try("reader, with a lock in between", nested.Context(), holdfast.ErrUpgrade)
	try("another owner", holdfast.Detach(r.Context()), holdfast.ErrNotAcquired)
	if _, err := other.RWMutex(m.Name()).TryLock(r.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("another client: %v", err)
	}
	if !r.Valid() {
		t.Error("the read lease is not valid")
	}
	locktest.Release(t, nested)
	locktest.Release(t, r)
	w := locktest.Lock(t, context.WithoutCancel(r.Context()), m)
	// A writer may read and, with that context, enter again to write.
	r = locktest.Lock(t, w.Context(), m.RLocker())
	locktest.Release(t, locktest.Lock(t, r.Context(), m))
	locktest.Release(t, w)
	try("downgraded", r.Context(), holdfast.ErrUpgrade)
	locktest.Release(t, r)
	locktest.WantFree(t, m)
}

// Lock with the context of a read lease never waits for itself, also when the
// write lease around it is released at this very moment.
func TestUpgradeWhileDowngrading(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	m := c.RWMutex(locktest.Name(t))
	misled := 0
	var last error
	for range 3000 {
		w := locktest.Lock(t, t.Context(), m)
		r := locktest.Lock(t, w.Context(), m.RLocker())
		ctx := r.Context()
		var wg sync.WaitGroup
		wg.Go(func() { locktest.Release(t, w) })
		l, err := m.Lock(ctx, holdfast.Wait(locktest.Late))
		wg.Wait()
		switch {
		case err == nil:
			_ = l.Release(t.Context())
		case errors.Is(err, holdfast.ErrNotAcquired):
			t.Fatal("waited for itself")
		case !errors.Is(err, holdfast.ErrUpgrade):
			misled++
			last = err
		}
		locktest.Release(t, r)
	}
	if misled > 0 {
		t.Errorf("%d of 3000 times the error is like %v", misled, last)
	}
}

// The context of what a writer reads says when it ends.
func TestDowngradeDeadline(t *testing.T) {
	t.Parallel()
	m := locktest.Open(t, redistest.Shared(t).URL()).RWMutex(locktest.Name(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	w := locktest.Lock(t, ctx, m)
	r := locktest.Lock(t, w.Context(), m.RLocker())
	locktest.Release(t, w)
	inside := r.Context()
	if _, ok := inside.Deadline(); !ok {
		t.Error("the context has no deadline")
	}
	<-inside.Done()
	if !errors.Is(inside.Err(), context.DeadlineExceeded) {
		t.Errorf("error %v, cause %v, want a deadline", inside.Err(), context.Cause(inside))
	}
	locktest.Release(t, r)
}

package behaviour_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// least is how long the locks of these tests stay.
const least = 2 * time.Second

// stays checks that no owner gets a lock before it has stayed for least since then.
func stays(t *testing.T, lock holdfast.Locker, since time.Time) {
	t.Helper()
	l, err := lock.TryLock(t.Context())
	if err != nil {
		if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left <= 0 || left > least {
			t.Errorf("the lock is not kept: %v, %v left", err, left)
		}
		l = locktest.Lock(t, t.Context(), lock)
	}
	if took := time.Since(since); took < least-10*time.Millisecond { // clocks differ a little
		t.Errorf("another owner got it after %v", took)
	}
	locktest.Release(t, l)
}

// A lock with AtLeast stays after its release, for all locks with one holder.
func TestAtLeast(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	test := func(name string, lock func(c *holdfast.Client) holdfast.Locker) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since := time.Now()
			l := locktest.Lock(t, t.Context(), lock(a), holdfast.AtLeast(least))
			ctx := l.Context()
			locktest.Release(t, l)
			if ctx.Err() == nil || l.Valid() {
				t.Error("the lease has not ended")
			}
			stays(t, lock(a), since) // not even this client gets it
			since = time.Now()
			l = locktest.Lock(t, t.Context(), lock(a), holdfast.AtLeast(least))
			locktest.Release(t, l)
			stays(t, lock(b), since)
			// A lock that was held for longer is free at once.
			l = locktest.Lock(t, t.Context(), lock(a), holdfast.AtLeast(100*time.Millisecond))
			locktest.Work(150 * time.Millisecond)
			locktest.Release(t, l)
			l, err := lock(b).TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			locktest.Release(t, l)
		})
	}
	for _, k := range locktest.Kinds {
		if k.Letter != "R" {
			name := locktest.Name(t)
			test(k.Name, func(c *holdfast.Client) holdfast.Locker { return k.Make(c, name) })
		}
	}
	name := locktest.Name(t)
	test("multi", func(c *holdfast.Client) holdfast.Locker {
		return holdfast.MultiLocker(c.Mutex(name+":1"), c.FairMutex(name+":2"), c.RWMutex(name+":3"))
	})
	t.Run("election", func(t *testing.T) {
		t.Parallel()
		e := a.Election(locktest.Name(t))
		since := time.Now()
		locktest.Release(t, locktest.Campaign(t, t.Context(), e, "me", holdfast.AtLeast(least)))
		l, err := b.Election(e.Name()).TryCampaign(t.Context(), "you")
		if err == nil && time.Since(since) >= least { // a busy machine
			locktest.Release(t, l)
		} else if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left <= 0 || left > least {
			t.Errorf("the term is not kept for %v: %v, %v left", least, err, left)
		}
		if l, err := b.Election(e.Name()).Leader(t.Context()); err != nil || l != (holdfast.Leader{}) {
			t.Errorf("%v still leads (%v)", l, err)
		}
	})
}

// A Redlock keeps its votes.
func TestAtLeastOfRedlock(t *testing.T) {
	t.Parallel()
	o := locktest.Quick
	o.WatchdogTimeout = least
	var clients []*holdfast.Client
	var servers []*redistest.Server
	for range 3 {
		s := redistest.Start(t)
		servers = append(servers, s)
		clients = append(clients, locktest.Open(t, s.URL(), o))
	}
	r, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{NodeTimeout: least / 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		locktest.AwaitVoter(t, s, least)
	}
	since := time.Now()
	l := locktest.Lock(t, t.Context(), r.Mutex("x"), holdfast.AtLeast(least))
	locktest.Release(t, l)
	stays(t, r.Mutex("x"), since)
	if _, err := r.Mutex("x").Lock(t.Context(), holdfast.AtLeast(2*least)); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("longer than the servers know: %v", err)
	}
}

// The lock stays if the client is closed, and after ReleaseAfter.
func TestAtLeastAndClose(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	held, released, after, free := locktest.Name(t), locktest.Name(t), locktest.Name(t), locktest.Name(t)
	since := time.Now()
	locktest.Lock(t, t.Context(), c.Mutex(held, holdfast.AtLeast(least)))
	l := locktest.Lock(t, t.Context(), c.Mutex(released, holdfast.AtLeast(least)))
	locktest.Release(t, l)
	l = locktest.Lock(t, t.Context(), c.Mutex(after))
	ctx := l.Context()
	if err := l.ReleaseAfter(t.Context(), least); err != nil || ctx.Err() == nil {
		t.Errorf("ReleaseAfter: %v, context %v", err, ctx.Err())
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("released twice: %v", err)
	}
	locktest.Lock(t, t.Context(), c.Mutex(free))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	b := locktest.Open(t, s.URL())
	if l, err := b.Mutex(free).TryLock(t.Context()); err != nil {
		t.Errorf("without AtLeast: %v", err)
	} else {
		locktest.Release(t, l)
	}
	locktest.Parallel(3, func(i int) { stays(t, b.Mutex([]string{held, released, after}[i]), since) })
}

// The calls that wait in the same process do not get the lock earlier, and a longer time
// of an inner lease counts.
func TestAtLeastInside(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL(), holdfast.Options{HandoffTime: time.Minute})
	m := c.Mutex(locktest.Name(t))
	since := time.Now()
	l := locktest.Lock(t, t.Context(), m)
	inner := locktest.Lock(t, l.Context(), m, holdfast.AtLeast(least))
	got := make(chan time.Duration)
	go func() {
		l := locktest.Lock(t, t.Context(), m)
		got <- time.Since(since)
		locktest.Release(t, l)
	}()
	locktest.AwaitWaiting(t, c, 1)
	locktest.Release(t, inner)
	locktest.Release(t, l)
	if took := <-got; took < least-10*time.Millisecond {
		t.Errorf("handed off after %v", took)
	}
}

// A lock that did not get into the hands of its caller is not kept.
func TestAtLeastWithoutUse(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, rival := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	free := func(what, name string) {
		t.Helper()
		if s.Int(t, "EXISTS", name) != 0 {
			t.Errorf("%s: the lock is kept", what)
		}
	}
	first, second := locktest.Name(t), locktest.Name(t)
	l := locktest.Lock(t, t.Context(), rival.FairMutex(second)) // a fair mutex is taken by a request of its own
	if _, err := holdfast.MultiLocker(c.Mutex(first), c.FairMutex(second)).TryLock(t.Context(), holdfast.AtLeast(time.Minute)); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Error(err)
	}
	free("a set that failed", first)
	locktest.Release(t, l)

	m := c.Mutex(locktest.Name(t), holdfast.AtLeast(time.Minute), holdfast.OnAcquire(func(*holdfast.Lease) { panic("no") }))
	func() {
		defer func() { _ = recover() }()
		_, _ = m.Lock(t.Context())
	}()
	free("a hook that panics", m.Name())

	m = c.Mutex(locktest.Name(t), holdfast.AtLeast(time.Minute))
	l = locktest.Lock(t, t.Context(), m)
	if _, err := m.ForceUnlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("freed by force: %v", err)
	}
	free("a lock that was freed by force", m.Name())
}

// Where nothing can be kept, the options and the method say so.
func TestAtLeastNonsense(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	ctx := t.Context()
	name := locktest.Name(t)
	opt := holdfast.AtLeast(least)
	for what, err := range map[string]error{
		"a read lock":    second(c.RWMutex(name).RLock(ctx, opt)),
		"permits":        second(c.LeasedSemaphore(name, holdfast.WithPermits(1)).Acquire(ctx, 1, opt)),
		"a set":          second(holdfast.MultiLocker(c.Mutex(name), c.RWMutex(name+"2").RLocker()).Lock(ctx, opt)),
		"no time":        second(c.Mutex(name, holdfast.AtLeast(0)).Lock(ctx)),
		"a negative one": second(c.Mutex(name).Lock(ctx, holdfast.AtLeast(-time.Second))),
		"an endless one": second(c.Mutex(name).Lock(ctx, holdfast.AtLeast(1<<62))),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	l, err := c.RWMutex(name).RLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ReleaseAfter(ctx, least); !errors.Is(err, holdfast.ErrUnsupported) || !l.Valid() {
		t.Errorf("ReleaseAfter of a read lock: %v", err)
	}
	if err := l.ReleaseAfter(ctx, 0); !errors.Is(err, holdfast.ErrInvalid) || !l.Valid() {
		t.Errorf("ReleaseAfter(0): %v", err)
	}
	locktest.Release(t, l)
	if err := new(holdfast.Lease).ReleaseAfter(context.Background(), least); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("the zero lease: %v", err)
	}
}

package inspect_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Break only takes the lock from an owner that the inspection has shown, however
// late it is called after that.
func TestBreakSparesNewerHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, i := open(t, s.URL())
	ctx := t.Context()
	for _, kind := range []struct {
		name string
		lock func(string) holdfast.Locker
	}{
		{"mutex", func(n string) holdfast.Locker { return c.Mutex(n) }},
		{"fair", func(n string) holdfast.Locker { return c.FairMutex(n) }},
		{"write", func(n string) holdfast.Locker { return c.RWMutex(n) }},
		{"read", func(n string) holdfast.Locker { return c.RWMutex(n).RLocker() }},
		{"permit", func(n string) holdfast.Locker { return c.LeasedSemaphore(n).Locker(1) }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			name := "TestBreakSparesNewerHold:" + kind.name
			if kind.name == "permit" {
				done(t, c.LeasedSemaphore(name).Set(ctx, 2))
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			lost, broken := make(map[string]bool), make(map[string]bool)
			holders, over := new(sync.WaitGroup), make(chan struct{})
			holders.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-over:
						return
					default:
					}
					lease, err := kind.lock(name).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					owner := lease.Owner()
					if kind.name == "permit" {
						owner = lease.PermitIDs()[0]
					}
					locktest.Work(time.Duration(n%3) * 100 * time.Microsecond)
					if err := lease.Release(ctx); errors.Is(err, holdfast.ErrLost) {
						lost[owner] = true
					} else if err != nil {
						t.Error(err)
					}
				}
			})
			for range 400 {
				seen, err := i.Lock(ctx, name)
				if errors.Is(err, inspect.ErrNotLock) {
					continue // no permit is taken
				}
				done(t, err)
				locktest.Work(time.Duration(rnd.IntN(500)) * time.Microsecond)
				did, err := i.Break(ctx, seen)
				done(t, err)
				for _, h := range seen.Holders {
					if did {
						broken[h.Owner] = true
					}
				}
			}
			close(over)
			holders.Wait()
			for owner := range lost {
				if !broken[owner] {
					t.Errorf("%s lost the lock, but Break was called for another owner", owner)
				}
			}
			t.Logf("broken %d times", len(broken))
		})
	}
}

// A waiter gets a lock soon after it was broken. The former holder is told that
// its lease is lost.
func TestBreakWakes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	holder, i := open(t, s.URL())
	waiter, _ := open(t, s.URL())
	done(t, holder.LeasedSemaphore("TestBreakWakes:permits").Set(t.Context(), 1))
	type kind struct {
		name string
		lock func(*holdfast.Client, string) holdfast.Locker
		wait func(*holdfast.Client, string) holdfast.Locker
	}
	mutex := func(c *holdfast.Client, n string) holdfast.Locker { return c.Mutex(n) }
	fair := func(c *holdfast.Client, n string) holdfast.Locker { return c.FairMutex(n) }
	read := func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n).RLocker() }
	write := func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) }
	fenced := func(c *holdfast.Client, n string) holdfast.Locker { return c.FencedMutex(n) }
	permit := func(c *holdfast.Client, n string) holdfast.Locker { return c.LeasedSemaphore(n).Locker(1) }
	for _, k := range []kind{
		{"mutex", mutex, mutex},
		{"fair", fair, fair},
		{"fenced", fenced, fenced},
		{"mutex, then fair", mutex, fair},
		{"read", read, write},
		{"write", write, read},
		{"permits", permit, permit},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			name := "TestBreakWakes:" + k.name
			lease := must(k.lock(holder, name).Lock(t.Context()))(t)
			granted := make(chan *holdfast.Lease, 1)
			go func() {
				defer close(granted)
				next, err := k.wait(waiter, name).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				granted <- next
			}()
			seen := eventually(t, i, name, func(l inspect.Lock) bool { return l.Clients == 1 })
			if !must(i.Break(t.Context(), seen))(t) {
				t.Fatal("not broken")
			}
			next, _ := locktest.Receive(granted, 15*time.Second) // half of the lease that was broken
			if next == nil {
				t.Fatal("the waiter did not get the lock")
			}
			defer next.Release(context.Background())
			if must(i.Break(t.Context(), seen))(t) {
				t.Error("the next one's hold was broken")
			}
			if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("who held it is told %v", err)
			}
			if now := must(i.Lock(t.Context(), name))(t); len(now.Holders) != 1 {
				t.Errorf("the lock is now %+v", now)
			}
		})
	}
}

// Of a semaphore, only the permits that were seen are given back.
func TestBreakPermits(t *testing.T) {
	s := redistest.Shared(t)
	c, i := open(t, s.URL())
	ctx := t.Context()
	sem := c.LeasedSemaphore("TestBreakPermits")
	done(t, sem.Set(ctx, 3))
	first := must(sem.Acquire(ctx, 1))(t)
	seen := must(i.Lock(ctx, "TestBreakPermits"))(t)
	second := must(sem.Acquire(ctx, 2))(t)
	defer second.Release(ctx)
	if !must(i.Break(ctx, seen))(t) {
		t.Fatal("not broken")
	}
	if err := first.Release(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("who held it is told %v", err)
	}
	if n := must(sem.Available(ctx))(t); n != 1 || !second.Valid() {
		t.Errorf("%d permits are free", n)
	}
	if must(i.Break(ctx, seen))(t) {
		t.Error("broken twice")
	}
	if must(i.Break(ctx, inspect.Lock{Name: "TestBreakPermits", Kind: inspect.Semaphore, Holders: []inspect.Holder{{Owner: "x"}}}))(t) {
		t.Error("what is no permit was given back")
	}
}

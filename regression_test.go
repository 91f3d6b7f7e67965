package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Callers that give up all the time do not cost others their leases, nor the
// client its connection every time.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	for name, impatient := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 10*time.Millisecond)
		},
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			c := open(t, p.URL(), steady)
			l := lock(t, t.Context(), c.Mutex("steady"))
			p.Delay(30 * time.Millisecond)
			for start := time.Now(); time.Since(start) < 5*time.Second; {
				ctx, cancel := impatient()
				_, _ = c.Mutex("other").TryLock(ctx)
				cancel()
			}
			if !l.Valid() {
				t.Error("lost on a healthy server")
			}
			if n := p.Count("HELLO"); n > 10 {
				t.Errorf("%d connections", n)
			}
			p.Delay(0)
			release(t, l)
		})
	}
}

// Thousands of callers on a server that is silent: all return in time.
func TestManyDeadlines(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "?timeout=60s", kinds[0]) // for longer than a slow machine takes for all of them
	r.p.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() { _, _ = r.c.Mutex(fmt.Sprint("many:", i)).TryLock(ctx) })
	}
	wg.Wait()
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the last one returned after %v", took)
	}
	r.p.Thaw()
}

// Cancelled long before its deadline.
func TestCancelBeforeDeadline(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, slowToDespair, kinds[0])
	r.p.Freeze()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	_, err := r.m.TryLock(ctx)
	if took := time.Since(start); took > late {
		t.Errorf("returned after %v", took)
	}
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	r.p.Thaw()
}

// A server that says nothing is not the caller's deadline.
func TestOwnTimeoutIsNotTheCallers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var c *holdfast.Client
	eventually(t, 20*time.Second, "the server has answered in so short a time", func() (ok bool) {
		var err error
		c, err = holdfast.Open(t.Context(), s.URL()+"?timeout=200ms", holdfast.Options{RetryTimeout: 300 * time.Millisecond})
		if err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer c.Close()
	s.Pause()
	defer s.Resume()
	for name, take := range map[string]func() (*holdfast.Lease, error){
		"lock": func() (*holdfast.Lease, error) { return c.Mutex("x").Lock(context.Background()) },
		"wait": func() (*holdfast.Lease, error) {
			return c.Mutex("x").TryLock(context.Background(), holdfast.Wait(50*time.Millisecond))
		},
	} {
		if _, err := take(); !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A free lock is had in the shortest of times, also by a client that lets
// others go first.
func TestShortWait(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	l := lock(t, t.Context(), a.Mutex("x"))
	eventually(t, 20*time.Second, "somebody listens, and wants nothing", func() bool {
		_, err := b.Mutex("x").TryLock(t.Context(), holdfast.Wait(20*time.Millisecond))
		return errors.Is(err, holdfast.ErrNotAcquired) // else what it has asked may run later
	})
	release(t, l)
	for range 20 {
		start := time.Now()
		l, err := a.Mutex("x").TryLock(t.Context(), holdfast.Wait(time.Millisecond))
		if errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrNotAcquired) && time.Since(start) > time.Second {
			// In so short a time a busy server may not answer, nor anybody hear of
			// it. What it grants all the same is undone first.
			release(t, lock(t, t.Context(), a.Mutex("x")))
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		release(t, l)
	}
}

// A logger that takes its time does not keep a holder from being told.
func TestSlowLogger(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL(), holdfast.Options{WatchdogTimeout: 2 * time.Second, Logger: slog.New(slowHandler{})})
	l := lock(t, t.Context(), c.Mutex("x"))
	ctx := l.Context()
	p.Freeze()
	defer p.Thaw()
	got := lock(t, t.Context(), open(t, s.URL()).Mutex("x"))
	if l.Valid() {
		t.Error("another has the lock, and the lease is valid")
	}
	select { // who tells it may stand still, but not for as long as the logger
	case <-ctx.Done():
	case <-time.After(slowness - 2*time.Second):
		t.Error("another has the lock, and the holder was not told")
	}
	release(t, got)
}

// slowness is how long a slow logger takes.
const slowness = 5 * time.Second

type slowHandler struct{ slog.Handler }

func (slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (slowHandler) Handle(context.Context, slog.Record) error {
	time.Sleep(slowness)
	return nil
}

// A lease that is granted while the lock is being forced is found out at once,
// not at the next renewal.
func TestForceUnlockBesideTryLock(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	m := open(t, s.URL()).Mutex("x")
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
			eventually(t, 6*time.Second, "the holder is told", func() bool { return !l.Valid() })
		}
		_ = l.Release(t.Context())
	}
}

// The Unlock of somebody who lost the lock does not free it for the next.
func TestSyncLockerAfterLoss(t *testing.T) {
	t.Parallel()
	m := open(t, redistest.Shared(t).URL()).Mutex(name(t))
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

// A script may be stopped in the middle, by a command that the user may not
// run: the lock is refused, and what was written of it goes away.
func TestRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, forbidden := range []string{"time", "pexpire"} {
		s.Do(t, "ACL", "SETUSER", "no-"+forbidden, "on", ">secret", "~*", "&*", "+@all", "-"+forbidden)
		c := open(t, "redis://no-"+forbidden+":secret@"+s.Addr())
		for what, m := range map[string]holdfast.Locker{
			"mutex": c.Mutex("m"), "write": c.RWMutex("w"), "read": c.RWMutex("r").RLocker(),
			"multi": holdfast.Multi(c.Mutex("a"), c.RWMutex("b")),
		} {
			if _, err := m.Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("%s without %s: %v", what, forbidden, err)
			}
		}
		eventually(t, 10*time.Second, "nothing is left without "+forbidden, func() bool { return len(s.Keys(t)) == 0 })
	}
}

// The holder is told at once when its own client frees the lock by force,
// whatever each of them calls it.
func TestForceUnlockByAnyKind(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	each(t, "PF", func(t *testing.T, holder kind) {
		for _, k := range kinds {
			if k.letter != "P" && k.letter != "F" {
				continue
			}
			m := holder.make(c, name(t))
			l := lock(t, t.Context(), m, holdfast.LeaseTime(time.Minute))
			if freed, err := k.make(c, m.Name()).ForceUnlock(t.Context()); !freed || err != nil {
				t.Errorf("forced as %s: %v, %v", k.name, freed, err)
			}
			if l.Valid() || l.Context().Err() == nil {
				t.Errorf("forced as %s, the lease is valid", k.name)
			}
			wantLost(t, l, holdfast.LossForced)
		}
	})
}

// A release waits for no extension that waits for the server, however many were
// there before.
func TestReleaseBehindExtensions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	l := lock(t, t.Context(), open(t, p.URL()).Mutex(name(t)))
	p.Freeze()
	defer p.Thaw()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 {
		wg.Go(func() { _ = l.Extend(t.Context(), time.Minute) })
	}
	time.Sleep(100 * time.Millisecond) // until they are there
	start := time.Now()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	if took := time.Since(start); took > 3*time.Second+late {
		t.Errorf("Release took %v", took)
	}
}

// Who waits behind an extension that waits for the server minds its own context.
func TestContextBehindExtension(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	m := open(t, p.URL()).Mutex(name(t))
	l := lock(t, t.Context(), m)
	p.Freeze()
	defer p.Thaw()
	var wg sync.WaitGroup
	defer wg.Wait()
	long, stop := context.WithCancel(t.Context())
	defer stop()
	wg.Go(func() { _ = l.Extend(long, time.Minute) })
	time.Sleep(100 * time.Millisecond) // until it is there
	var calls sync.WaitGroup
	for what, call := range map[string]func(context.Context) error{
		"Extend":  func(ctx context.Context) error { return l.Extend(ctx, time.Minute) },
		"TryLock": func(ctx context.Context) error { _, err := m.TryLock(ctx); return err },
	} {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(l.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want context.DeadlineExceeded", what, err)
			}
			if took := time.Since(start); took > late {
				t.Errorf("%s took %v with a context of 100ms", what, took)
			}
		})
	}
	calls.Wait()
}

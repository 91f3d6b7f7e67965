package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A rig is a lock on a client whose replies can be lost.
type rig struct {
	locktest.Rig
	m locktest.MutexLike
}

func newRig(t *testing.T, o ...holdfast.Options) *rig {
	t.Helper()
	return newRigOf(t, locktest.Kinds[0], o...)
}

func newRigOf(t *testing.T, k locktest.Kind, o ...holdfast.Options) *rig {
	t.Helper()
	return newRigAt(t, "", k, o...)
}

// newRigAt returns a rig whose client has a query in its URL.
func newRigAt(t *testing.T, query string, k locktest.Kind, o ...holdfast.Options) *rig {
	t.Helper()
	r := &rig{Rig: locktest.NewRig(t, redistest.Start(t), query, o...)}
	r.m = k.Make(r.Client, "rig")
	l := locktest.Lock(t, t.Context(), r.m) // so that the server knows the scripts
	locktest.Release(t, locktest.Lock(t, l.Context(), r.m))
	locktest.Release(t, l)
	return r
}

func (r *rig) has(t *testing.T, want string) {
	t.Helper()
	if got := fmt.Sprint(r.Server.Do(t, "HGETALL", "rig")); got != want {
		t.Errorf("the server has %s, want %s", got, want)
	}
}

// releaseUnheard is release where the reply is lost.
func releaseUnheard(tb testing.TB, stalls *redistest.StallMeter, l *holdfast.Lease) {
	tb.Helper()
	start := time.Now()
	if err := l.Release(context.Background()); err != nil && !locktest.StoodStill(stalls, err, start) {
		tb.Error(err)
	}
}

// Acquired once, although the request ran twice; one release frees it.
func TestAcquireReplyLost(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		r := newRigOf(t, k)
		stalls := redistest.MeterStalls(t, r.Server)
		for name, take := range map[string]func() (*holdfast.Lease, error){
			"lock":     func() (*holdfast.Lease, error) { return r.m.Lock(t.Context()) },
			"try lock": func() (*holdfast.Lease, error) { return r.m.TryLock(t.Context()) },
		} {
			dropped := r.DropNext()
			start := time.Now()
			l, err := take()
			if name == "try lock" && locktest.StoodStill(stalls, err, start) {
				locktest.Eventually(t, 10*time.Second, "what may have been acquired is released", func() bool { return r.Server.Int(t, "EXISTS", "rig") == 0 })
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			<-dropped
			r.has(t, fmt.Sprintf("[%s 1]", l.Owner()))
			locktest.Release(t, l)
			r.has(t, "[]")
		}
	})
}

func TestReenterReplyLost(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		r := newRigOf(t, k)
		outer := locktest.Lock(t, t.Context(), r.m)
		dropped := r.DropNext()
		inner := locktest.Lock(t, outer.Context(), r.m)
		<-dropped
		r.has(t, fmt.Sprintf("[%s 2]", outer.Owner()))
		locktest.Release(t, inner)
		r.has(t, fmt.Sprintf("[%s 1]", outer.Owner()))
		locktest.Release(t, outer)
		r.has(t, "[]")
	})
}

// Released once, although the request ran twice. A lock that another owner holds by
// then is not released.
func TestReleaseReplyLost(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		r := newRigOf(t, k)
		stalls := redistest.MeterStalls(t, r.Server)
		rival := locktest.Open(t, r.Server.URL())
		l := locktest.Lock(t, t.Context(), r.m)
		dropped := r.DropNext()
		taken := make(chan *holdfast.Lease)
		go func() {
			<-dropped // the lock is free, but the caller of Release does not know
			taken <- locktest.Lock(t, t.Context(), k.Make(rival, "rig"))
		}()
		releaseUnheard(t, stalls, l)
		got := <-taken
		r.has(t, fmt.Sprintf("[%s 1]", got.Owner()))
		locktest.Release(t, got)
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("second release: %v", err)
		}
	})
}

func TestRenewReplyLost(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		r := newRigOf(t, k, holdfast.Options{WatchdogTimeout: time.Minute, RenewEvery: locktest.Steady.RenewEvery})
		l := locktest.Lock(t, t.Context(), r.m)
		for range 3 {
			<-r.DropNext() // nothing but renewals goes out
		}
		locktest.AwaitRenewals(t, r.Client, 1)
		if !l.Valid() {
			t.Error("lost by a lost reply")
		}
		r.has(t, fmt.Sprintf("[%s 1]", l.Owner()))
		locktest.Release(t, l)
		r.has(t, "[]")
	})
}

// The caller gives up while its request is under way. What the request acquires is
// released at once, not at the end of the lease.
func TestCancelledAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		for name, take := range map[string]func(context.Context, *rig) (*holdfast.Lease, error){
			"lock":     func(ctx context.Context, r *rig) (*holdfast.Lease, error) { return r.m.Lock(ctx) },
			"try lock": func(ctx context.Context, r *rig) (*holdfast.Lease, error) { return r.m.TryLock(ctx) },
			"wait": func(_ context.Context, r *rig) (*holdfast.Lease, error) {
				return r.m.TryLock(context.Background(), holdfast.Wait(50*time.Millisecond))
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRigAt(t, locktest.PatientQuery, k)
				arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-arrived
					cancel()
				}()
				start := time.Now()
				l, err := take(ctx, r)
				if err == nil {
					t.Fatalf("acquired %v without a reply", l)
				}
				if took := locktest.Took(start); took > 2*locktest.Late { // a moment for the answer included
					t.Errorf("gave up after %v", took)
				}
				if name != "wait" && !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				if errors.Is(err, holdfast.ErrNotAcquired) {
					t.Errorf("%v: reports that another owner has it", err)
				}
				letGo()
				locktest.Eventually(t, 5*time.Second, "free again", func() bool { return r.Server.Int(t, "EXISTS", "rig") == 0 })
			})
		}
	})
}

// The request is delayed on the way and runs when its caller has long given
// up.
func TestLateAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		r := newRigOf(t, k)
		r.Proxy.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less could be over before the request is sent
		defer cancel()
		if _, err := r.m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		r.Proxy.Thaw()
		locktest.Eventually(t, 10*time.Second, "acquire and undo have both run", func() bool {
			return r.Proxy.Count("EVALSHA") > 4 && r.Server.Int(t, "EXISTS", "rig") == 0
		})
		// It stays free: a lock without a holder is not renewed.
		locktest.Release(t, locktest.Lock(t, t.Context(), r.m))
	})
}

// A deadline is kept on a server that does not answer, and success never comes
// after it.
func TestDeadlineIsKept(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, locktest.PatientQuery, locktest.Kinds[0])
	r.Proxy.FreezeReplies()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		l, err := r.m.Lock(ctx)
		if err == nil {
			t.Errorf("acquired %v after the deadline", l)
		}
		if took := locktest.Took(start); took > locktest.Late {
			t.Errorf("returned after %v", took)
		}
		cancel()
	}
	r.Proxy.Thaw()
}

func TestReleaseWithDeadContext(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := locktest.Lock(t, ctx, r.m)
	cancel()
	if err := l.Release(ctx); err != nil {
		t.Errorf("release with a cancelled context: %v", err)
	}
	r.has(t, "[]")
}

// With the server out of reach, a release goes on in the background.
func TestReleaseGoesOn(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		r := newRigOf(t, k)
		l := locktest.Lock(t, t.Context(), r.m)
		r.Disconnect()
		start := time.Now()
		err := l.Release(t.Context())
		if !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("release without a server: %v", err)
		}
		if took := locktest.Took(start); took > 4*time.Second+locktest.Late {
			t.Errorf("took %v", took)
		}
		if r.Server.Int(t, "EXISTS", "rig") != 1 {
			t.Fatal("released although cut off?")
		}
		r.Proxy.Refuse(false)
		locktest.Eventually(t, 10*time.Second, "released in the background", func() bool { return r.Server.Int(t, "EXISTS", "rig") == 0 })
	})
}

// The same for a lease that was extended: in the background for as long as
// that lasts, not only as long as it was taken for.
func TestReleaseGoesOnAfterExtend(t *testing.T) {
	t.Parallel()
	r := newRig(t, locktest.Steady)
	l := locktest.Lock(t, t.Context(), r.m)
	if err := l.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	over := redistest.Outage(locktest.Steady.WatchdogTimeout+5*time.Second, r.Disconnect, func() { r.Proxy.Refuse(false) })
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("release without a server: %v", err)
	}
	<-over
	locktest.Eventually(t, 10*time.Second, "released in the background", func() bool { return r.Server.Int(t, "EXISTS", "rig") == 0 })
}

// One look at a server that does not answer takes as long as one request may.
func TestTryLockOnSilentServer(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "?timeout=5s", locktest.Kinds[0])
	r.Server.Pause()
	defer r.Server.Resume()
	start := time.Now()
	_, err := r.m.TryLock(t.Context())
	if took := locktest.Took(start); !errors.Is(err, holdfast.ErrUnavailable) || took > 5*time.Second+locktest.Late {
		t.Errorf("%v after %v", err, took)
	}
}

// Callers that give up all the time do not cost others their leases, nor the
// client its connection every time.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	for name, impatient := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 10*time.Millisecond)
		},
		"cancelled": func() (context.Context, context.CancelFunc) {
			return locktest.CancelledSoon(context.Background()), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			c := locktest.Open(t, p.URL(), locktest.Steady)
			l := locktest.Lock(t, t.Context(), c.Mutex("steady"))
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
			locktest.Release(t, l)
		})
	}
}

// Thousands of callers on a server that is silent: all return in time.
func TestManyDeadlines(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "?timeout=60s", locktest.Kinds[0]) // for longer than a slow machine takes for all of them
	r.Proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() { _, _ = r.Client.Mutex(fmt.Sprint("many:", i)).TryLock(ctx) })
	}
	wg.Wait()
	if took := locktest.Took(start); took > 30*time.Second {
		t.Errorf("the last one returned after %v", took)
	}
	r.Proxy.Thaw()
}

// Cancelled long before its deadline.
func TestCancelBeforeDeadline(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, locktest.PatientQuery, locktest.Kinds[0])
	arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
	defer letGo()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-arrived
		cancel()
	}()
	start := time.Now()
	_, err := r.m.TryLock(ctx)
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("returned after %v", took)
	}
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A server that says nothing is not the caller's deadline.
func TestOwnTimeoutIsNotTheCallers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var c *holdfast.Client
	locktest.Eventually(t, 20*time.Second, "the server has answered in so short a time", func() (ok bool) {
		var err error
		c, err = holdfast.Open(t.Context(), s.URL()+"?timeout=200ms", &holdfast.Options{RetryTimeout: 300 * time.Millisecond})
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

// A release waits for no extension that waits for the server, however many were
// there before.
func TestReleaseBehindExtensions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	l := locktest.Lock(t, t.Context(), locktest.Open(t, p.URL()).Mutex(locktest.Name(t)))
	p.Freeze()
	defer p.Thaw()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 {
		ctx, there := locktest.Seen(t.Context())
		wg.Go(func() { _ = l.Extend(ctx, time.Minute) })
		<-there
	}
	start := time.Now()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	if took := locktest.Took(start); took > 3*time.Second+locktest.Late {
		t.Errorf("Release took %v", took)
	}
}

// A call that waits behind an extension in progress obeys its own context.
func TestContextBehindExtension(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	m := locktest.Open(t, p.URL()).Mutex(locktest.Name(t))
	l := locktest.Lock(t, t.Context(), m)
	p.Freeze()
	defer p.Thaw()
	var wg sync.WaitGroup
	defer wg.Wait()
	long, stop := context.WithCancel(t.Context())
	defer stop()
	long, there := locktest.Seen(long)
	wg.Go(func() { _ = l.Extend(long, time.Minute) })
	<-there
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
			if took := locktest.Took(start); took > locktest.Late {
				t.Errorf("%s took %v with a context of 100ms", what, took)
			}
		})
	}
	calls.Wait()
}

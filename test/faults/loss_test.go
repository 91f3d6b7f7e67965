package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A hook hears what Release returns.
func TestHookHearsOfLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), locktest.Quick)
	locktest.Each(t, "PSRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(c, locktest.Name(t))
		var heard error
		opt := holdfast.OnRelease(func(_ *holdfast.Lease, err error) { heard = err })
		l := locktest.Lock(t, t.Context(), m, opt)
		s.Do(t, "DEL", m.Name())
		err := l.Release(t.Context())
		if !errors.Is(err, holdfast.ErrLost) || !errors.Is(heard, err) {
			t.Errorf("Release returned %v, the hook heard %v", err, heard)
		}
		heard = nil
		_, err = holdfast.DoValue(t.Context(), m, func(ctx context.Context) (int, error) {
			s.Do(t, "DEL", m.Name())
			<-ctx.Done()
			return 0, nil
		}, opt)
		if !errors.Is(err, holdfast.ErrLost) || !errors.Is(heard, holdfast.ErrLost) {
			t.Errorf("DoValue returned %v, the hook heard %v", err, heard)
		}
	})
	m := c.RWMutex(locktest.Name(t))
	var heard error
	l := locktest.Lock(t, t.Context(), m, holdfast.OnRelease(func(_ *holdfast.Lease, err error) { heard = err }))
	resumed := redistest.Outage(1500*time.Millisecond, s.Pause, s.Resume)
	defer func() { <-resumed }() // before the server is gone
	if err := l.Release(t.Context()); err != nil && !errors.Is(heard, err) {
		t.Errorf("Release returned %v, the hook heard %v", err, heard)
	}
}

// A holder that is cut off must know that it has lost the lock before another owner
// can get it. A rival waits at the server without the proxy. The test compares when
// the holder's context ended with when the rival entered.
func TestToldBeforeAnybodyElse(t *testing.T) {
	for _, test := range []struct {
		name   string
		sever  func(*redistest.Server, *redistest.Proxy)
		rejoin func(*redistest.Server, *redistest.Proxy)
	}{
		{
			"link frozen",
			func(_ *redistest.Server, p *redistest.Proxy) { p.Freeze() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Thaw() },
		},
		{
			// Renewals arrive and extend the key, but the holder gets no reply.
			"replies frozen",
			func(_ *redistest.Server, p *redistest.Proxy) { p.FreezeReplies() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Thaw() },
		},
		{
			"link refused",
			func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(true); p.Cut() },
			func(_ *redistest.Server, p *redistest.Proxy) { p.Refuse(false) },
		},
		{
			"server stopped and resumed",
			func(s *redistest.Server, _ *redistest.Proxy) {
				redistest.Outage(locktest.Steady.WatchdogTimeout+locktest.AWhile, s.Pause, s.Resume)
			},
			func(*redistest.Server, *redistest.Proxy) {},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			o := locktest.Steady
			o.PollInterval = 300 * time.Millisecond
			holder, rival := locktest.Open(t, p.URL(), o), locktest.Open(t, s.URL(), o)
			redistest.MeterStalls(t).Rounds(t, observable, func() error {
				n := locktest.Name(t)
				l := locktest.Lock(t, t.Context(), holder.Mutex(n))
				ctx := l.Context()
				told := make(chan int64, 1)
				context.AfterFunc(ctx, func() { told <- redistest.Now() })
				renewedOnce(t, holder, l)
				if !l.Valid() {
					return errors.New("lost before anything happened")
				}
				test.sever(s, p)
				got := locktest.Lock(t, t.Context(), rival.Mutex(n))
				in := redistest.Now()
				if l.Valid() {
					t.Error("both are valid")
				}
				verdict := toldBeforeRival(t, told, in)
				var lost *holdfast.LostError
				if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) || !errors.As(cause, &lost) || lost.Reason != holdfast.LossExpired {
					t.Errorf("cause %v", cause)
				}
				if got.Token() <= l.Token() {
					t.Errorf("token %d after %d", got.Token(), l.Token())
				}
				test.rejoin(s, p)
				if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("release after a loss: %v", err)
				}
				// Neither the late release nor the undoing of the lost lease may
				// touch the rival.
				locktest.Eventually(t, 20*time.Second, "nothing is released any more", func() bool { return holder.Stats().PendingReleases == 0 })
				renewedOnce(t, rival, got)
				if !got.Valid() {
					t.Error("the rival lost its lock")
				}
				locktest.Release(t, got)
				return verdict
			})
		})
	}
}

// renewedOnce waits until a client has renewed its only lease, or has lost it.
func renewedOnce(t *testing.T, c *holdfast.Client, l *holdfast.Lease) {
	t.Helper()
	before := c.Stats().Renewals
	locktest.Eventually(t, 20*time.Second, "the lease is renewed", func() bool { return c.Stats().Renewals > before || !l.Valid() })
}

// observable is how long this process may stand still in a test that compares two
// moments. It is less than the time between a warning and the end of a lease.
const observable = 100 * time.Millisecond

// toldBeforeRival returns an error if a holder was told after its rival entered.
func toldBeforeRival(t *testing.T, told <-chan int64, in int64) error {
	t.Helper()
	select {
	case at := <-told:
		if at >= in {
			return fmt.Errorf("told %v after the rival got in", time.Duration(at-in))
		}
	case <-time.After(locktest.Late):
		t.Error("not told at all")
	}
	return nil
}

// With the server gone for good there is no rival, but the context ends in time
// nevertheless.
func TestToldWithoutServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), locktest.Quick)
	l := locktest.Lock(t, t.Context(), c.Mutex(locktest.Name(t)))
	ctx := l.Context()
	s.Kill()
	deadline := time.Now().Add(locktest.Quick.WatchdogTimeout) // at the latest: no renewal can have moved it since
	<-ctx.Done()
	if after := locktest.Took(deadline); after > locktest.Late {
		t.Errorf("told %v after the deadline", after)
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release: %v", err)
	}
}

// A lease that was taken away is noticed at the next renewal.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	for name, take := range map[string]func(key string){
		"deleted": func(key string) { s.Do(t, "DEL", key) },
		"flushed": func(string) { s.Do(t, "FLUSHALL") },
		"replaced": func(key string) {
			s.Do(t, "DEL", key)
			s.Do(t, "HSET", key, "somebody:1", "1")
		},
	} {
		key := "taken:" + name
		l := locktest.Lock(t, t.Context(), c.Mutex(key))
		ctx := l.Context()
		take(key)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not told", name)
		}
		var lost *holdfast.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossNotOwner {
			t.Errorf("%s: cause %v", name, context.Cause(ctx))
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s: release: %v", name, err)
		}
		if name == "replaced" && s.Int(t, "EXISTS", key) != 1 {
			t.Error("the new owner's lock is gone")
		}
	}
}

// An extension must not bring back what was lost.
func TestExtendAfterLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), c.Mutex("x"))
	if freed, err := other.Mutex("x").ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	if err := l.Extend(t.Context(), time.Minute); !errors.Is(err, holdfast.ErrLost) || l.Valid() {
		t.Errorf("extended a lost lease: %v, valid %v", err, l.Valid())
	}
	if s.Int(t, "EXISTS", "x") != 0 {
		t.Error("the lock was taken without a holder")
	}
}

func TestLossOfNestedLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	m := c.Mutex("nested")
	outer := locktest.Lock(t, t.Context(), m)
	inner := locktest.Lock(t, outer.Context(), m)
	// Told on its own, not only through the outer one's context.
	apart := locktest.Lock(t, context.WithoutCancel(outer.Context()), m)
	ctx := inner.Context()
	s.Do(t, "DEL", "nested")
	<-ctx.Done()
	<-apart.Context().Done()
	if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
	if _, err := m.Lock(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("entering a lost lock again: %v", err)
	}
	for _, l := range []*holdfast.Lease{inner, apart, outer} {
		if l.Valid() {
			t.Error("valid after the loss")
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("release: %v", err)
		}
	}
}

func init() { workers["hold"] = holdWorker }

// holdWorker holds a lock and says whether it may rely on it.
func holdWorker() {
	c, err := holdfast.Open(context.Background(), os.Getenv("TEST_URL"), &locktest.Steady)
	if err != nil {
		panic(err)
	}
	l, err := c.Mutex(os.Getenv("TEST_NAME")).Lock(context.Background())
	if err != nil {
		panic(err)
	}
	saySure(l)
}

// saySure says, again and again, whether a lease is valid, and at last why its context has
// ended: the time, the token, and the answer.
func saySure(l *holdfast.Lease) {
	ctx := l.Context()
	for {
		now := redistest.Now() // before the question: a stop between the two must not count
		valid := l.Valid()
		fmt.Println(now, l.Token(), valid)
		if !valid {
			<-ctx.Done() // must come on its own
			fmt.Println(redistest.Now(), l.Token(), "cause:", context.Cause(ctx))
			return
		}
		locktest.Work(time.Millisecond)
	}
}

// A process that was stopped for longer than its lease must see, at its first
// look after it was resumed, that the lock is gone.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	n := locktest.Name(t)
	for range 2 {
		w := redistest.Worker(t, "hold", "TEST_URL="+s.URL(), "TEST_NAME="+n)
		for range 20 {
			<-w.Lines()
		}
		w.Pause()
		l := locktest.Lock(t, t.Context(), c.Mutex(n)) // when the lease has run out
		in := redistest.Now()
		w.Resume()
		wantSureUntil(t, w, in, l.Token())
		locktest.Release(t, l)
	}
}

// wantSureUntil reads what the holder of a lease says that was stopped. It is wrong if it is
// sure of its lease after another owner has had it, if its token is not below that of the
// other owner, or if it does not lose its lease.
func wantSureUntil(t *testing.T, w *redistest.Process, another, token int64) {
	t.Helper()
	lost := false
	for line := range w.Lines() {
		f := strings.Fields(line)
		at, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if f[2] == "true" && at > another {
			t.Errorf("the holder was sure of its lease %v after another had one", time.Duration(at-another))
		}
		if old, _ := strconv.ParseInt(f[1], 10, 64); old >= token {
			t.Errorf("the new token %d is not above the old one, %d", token, old)
		}
		lost = lost || f[2] == "cause:" && strings.Contains(line, "lost")
	}
	if !lost {
		t.Error("the context of the stopped holder did not end with a loss")
	}
}

// The error of a lease that could not be renewed has the error of the last
// renewal as its cause, and is not taken for the end of a context. One whose time
// is over has none.
func TestLossHasCause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for what, link := range map[string]struct{ sever, restore func(*redistest.Proxy) }{
		"refused": {func(p *redistest.Proxy) { p.Refuse(true); p.Cut() }, func(p *redistest.Proxy) { p.Refuse(false) }},
		"silent":  {(*redistest.Proxy).Freeze, (*redistest.Proxy).Thaw},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, s.Addr())
			c := locktest.Open(t, p.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: time.Second})
			var err error
			for failed := c.Stats().FailedRenewals; c.Stats().FailedRenewals == failed; link.restore(p) { // a machine that stands still tries none
				l := locktest.Lock(t, t.Context(), holdfast.MultiLocker(c.Mutex(locktest.Name(t)), c.Mutex(locktest.Name(t)+"b")))
				link.sever(p)
				<-l.Context().Done()
				err = context.Cause(l.Context())
			}
			var lost *holdfast.LostError
			if !errors.As(err, &lost) || lost.Reason != holdfast.LossExpired || lost.Cause == nil || !errors.Is(err, lost.Cause) {
				t.Fatalf("%#v", err)
			}
			if !errors.Is(err, holdfast.ErrLost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrClosed) {
				t.Errorf("matches what it is not: %v", lost.Cause)
			}
		})
	}
	c := locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), c.Mutex(locktest.Name(t)), holdfast.LeaseTime(100*time.Millisecond))
	<-l.Context().Done()
	var lost *holdfast.LostError
	if err := context.Cause(l.Context()); !errors.As(err, &lost) || lost.Reason != holdfast.LossExpired || lost.Cause != nil {
		t.Errorf("%#v", err)
	}
}

// The holder of a fixed lease is told within RenewEvery when the server does not
// keep it any more.
func TestFixedLeaseTakenAway(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL())
	told := func(t *testing.T, l *holdfast.Lease, ctx context.Context) {
		t.Helper()
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Second):
			t.Fatal("not told")
		}
		var lost *holdfast.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossNotOwner || l.Valid() {
			t.Errorf("cause %v, valid %v", context.Cause(ctx), l.Valid())
		}
	}
	for _, k := range locktest.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			l := locktest.Lock(t, t.Context(), k.Make(c, k.Name), holdfast.LeaseTime(time.Hour))
			ctx := l.Context()
			locktest.AwaitRenewals(t, c, 2) // verified, and nothing comes of it
			if err := context.Cause(ctx); err != nil {
				t.Fatal(err)
			}
			if freed, err := k.Make(other, k.Name).ForceUnlock(t.Context()); !freed || err != nil {
				t.Fatal(freed, err)
			}
			told(t, l, ctx)
		})
	}
	t.Run("permits", func(t *testing.T) {
		sem := c.LeasedSemaphore("permits")
		if err := sem.Set(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		l, err := sem.Acquire(t.Context(), 2, holdfast.LeaseTime(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		ctx := l.Context()
		if err := other.LeasedSemaphore("permits").ReleaseIDs(t.Context(), l.PermitIDs()[0]); err != nil {
			t.Fatal(err)
		}
		told(t, l, ctx)
	})
}

// Verifying a fixed lease does not let it last any longer.
func TestFixedLeaseNotProlonged(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: 50 * time.Millisecond})
	const lease = 4 * time.Second
	for _, k := range locktest.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			l := locktest.Lock(t, t.Context(), k.Make(c, k.Name), holdfast.LeaseTime(lease))
			granted := time.Now() // at the server, before that
			<-l.Context().Done()
			ttl := time.Duration(s.Int(t, "PTTL", k.Name)) * time.Millisecond
			if end := time.Since(granted) + ttl; end > lease+2*time.Second {
				t.Errorf("it ends %v after it was granted", end)
			}
		})
	}
}

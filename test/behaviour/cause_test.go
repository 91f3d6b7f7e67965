package behaviour_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// The error of a call whose context ends matches the error of the context and its cause.
func TestCauseOfContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	silent := silentServer(t)
	base := locktest.Name(t)
	name := func(kind string) string { return base + ":" + kind }
	work := func(context.Context) error { return nil }
	hold := func(m holdfast.Locker) { locktest.Lock(t, t.Context(), m) }
	hold(other.Mutex(name("mutex")))
	hold(other.FairMutex(name("fair")))
	hold(other.RWMutex(name("rw")))
	if _, err := other.Election(name("election")).Campaign(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	redlock, err := holdfast.NewRedlock([]*holdfast.Client{
		locktest.Open(t, redistest.Start(t).URL()), locktest.Open(t, redistest.Start(t).URL()), locktest.Open(t, redistest.Start(t).URL()),
	}, holdfast.RedlockOptions{LongestLease: time.Hour}) // so new servers do not vote
	if err != nil {
		t.Fatal(err)
	}
	locktest.NewLatch(t, c, name("latch"), 1)
	if err := c.RateLimiter(name("limiter"), holdfast.WithRate(holdfast.Rate{Permits: 1, Per: time.Hour})).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease := locktest.Lock(t, t.Context(), c.Mutex(name("extended")))

	lock := func(m holdfast.Locker) func(context.Context) error {
		return func(ctx context.Context) error { _, err := m.Lock(ctx); return err }
	}
	kinds := func(c *holdfast.Client) map[string]func(context.Context) error {
		return map[string]func(context.Context) error{
			"Lock": lock(c.Mutex(name("mutex"))),
			"TryLock": func(ctx context.Context) error {
				_, err := c.Mutex(name("mutex")).TryLock(ctx, holdfast.Wait(time.Hour))
				return err
			},
			"fair":    lock(c.FairMutex(name("fair"))),
			"write":   lock(c.RWMutex(name("rw"))),
			"read":    func(ctx context.Context) error { _, err := c.RWMutex(name("rw")).RLock(ctx); return err },
			"Multi":   lock(holdfast.MultiLocker(c.Mutex(name("mutex")), c.Mutex(name("free")))),
			"redlock": lock(redlock.Mutex(name("redlock"))),
			"Do":      func(ctx context.Context) error { return c.Mutex(name("mutex")).Do(ctx, work) },
			"DoValue": func(ctx context.Context) error {
				_, err := holdfast.DoValue(ctx, c.Mutex(name("mutex")), func(context.Context) (int, error) { return 1, nil })
				return err
			},
			"semaphore":        func(ctx context.Context) error { return c.Semaphore(name("none")).Acquire(ctx, 1) },
			"leased semaphore": func(ctx context.Context) error { _, err := c.LeasedSemaphore(name("none")).Acquire(ctx, 1); return err },
			"latch":            func(ctx context.Context) error { return c.Latch(name("latch")).Wait(ctx) },
			"limiter":          func(ctx context.Context) error { return c.RateLimiter(name("limiter")).Wait(ctx) },
			"Campaign": func(ctx context.Context) error {
				_, err := c.Election(name("election")).Campaign(ctx, "me")
				return err
			},
			"Lead, waiting": func(ctx context.Context) error { return c.Election(name("election")).Lead(ctx, "me", work) },
			"Lead, returns the cause": func(ctx context.Context) error {
				return c.Election(name("lead")).Lead(ctx, "me", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			},
			"Lead, returns an error": func(ctx context.Context) error {
				return c.Election(name("lead 2")).Lead(ctx, "me", func(ctx context.Context) error { <-ctx.Done(); return errWork })
			},
			"Update": func(ctx context.Context) error {
				bucket := object.NewBucket(c, name("bucket"), object.StringCodec{})
				_, err := bucket.Update(ctx, func(string, bool) (string, error) {
					s.Do(t, "SET", bucket.Name(), time.Now().String()) // always changed by another process
					return "new", nil
				})
				return err
			},
			"Get": func(ctx context.Context) error {
				<-ctx.Done()
				_, _, err := object.NewBucket(c, name("bucket"), object.StringCodec{}).Get(ctx)
				return err
			},
			"Add": func(ctx context.Context) error {
				<-ctx.Done()
				_, err := object.NewAtomicLong(c, name("long")).Add(ctx, 1)
				return err
			},
			"Extend": func(ctx context.Context) error { <-ctx.Done(); return lease.Extend(ctx, time.Minute) },
			"Check":  func(ctx context.Context) error { <-ctx.Done(); _, err := c.Check(ctx); return err },
			"Open":   func(ctx context.Context) error { _, err := holdfast.Open(ctx, silent+"?timeout=1h", nil); return err },
		}
	}
	for kind := range kinds(c) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := locktest.Open(t, s.URL())
			call := kinds(c)[kind]
			stop := errors.New("the program stops")
			ctx, cancel := context.WithCancelCause(t.Context())
			seen, looked := locktest.Seen(ctx)
			called := make(chan error, 1)
			go func() { called <- call(seen) }()
			switch kind {
			case "redlock", "limiter", "Lead, returns the cause", "Lead, returns an error", "Update", "Get", "Add", "Extend", "Check", "Open":
				<-looked
			default:
				locktest.WantWaiting(t, c, called)
			}
			cancel(stop)
			err := <-called
			if !errors.Is(err, context.Canceled) || !errors.Is(err, stop) {
				t.Errorf("canceled: %v", err)
			}
			if kind == "limiter" {
				return // it fails at once if the deadline is too early
			}
			late := errors.New("the shift is over")
			ctx, end := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
			defer end()
			if err = call(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, late) {
				t.Errorf("at the deadline: %v", err)
			}
		})
	}
}

// A call that ends because the lease in its context is lost keeps its own error: the loss is
// not that of its own lease.
func TestCauseIsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL())
	outer, own := c.Mutex(locktest.Name(t)), locktest.Lock(t, t.Context(), c.Mutex(locktest.Name(t)))
	held := other.Mutex(locktest.Name(t))
	locktest.Lock(t, t.Context(), held)
	ctx := locktest.Lock(t, t.Context(), outer).Context()
	waits := locktest.Background(ctx, c.Mutex(held.Name()))
	if _, err := outer.ForceUnlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	var e *holdfast.Error
	err := locktest.Await(t, waits).Err
	if !errors.Is(err, context.Cause(ctx)) || errors.Is(err, holdfast.ErrLost) || !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Name != held.Name() {
		t.Errorf("the call that waits: %v", err)
	}
	if err := own.Extend(ctx, time.Minute); !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Op != "extend" || !own.Valid() {
		t.Errorf("Extend: %v, valid %v", err, own.Valid())
	}
	if err := own.Release(ctx); err != nil {
		t.Error(err)
	}
}

// silentServer returns the URL of a server that accepts connections and never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "redis://" + l.Addr().String()
}

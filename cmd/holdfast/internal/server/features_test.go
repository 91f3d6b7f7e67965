package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// features lists the features of Holdfast. Each is used in a few steps that need the
// scripts, the expiry of keys and the messages of the server.
var features = []struct {
	name string
	uses func(ctx context.Context, c, other *holdfast.Client, name string) error
}{
	{"Mutex", lockers(func(c *holdfast.Client, name string) holdfast.Locker { return c.Mutex(name) })},
	{"FairMutex", lockers(func(c *holdfast.Client, name string) holdfast.Locker { return c.FairMutex(name) })},
	{"FencedMutex", lockers(func(c *holdfast.Client, name string) holdfast.Locker { return c.FencedMutex(name) })},
	{"RWMutex writing", lockers(func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name) })},
	{"RWMutex reading", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		one, err := c.RWMutex(name).RLock(ctx)
		if err != nil {
			return err
		}
		two, err := other.RWMutex(name).RLock(ctx)
		if err != nil {
			return err
		}
		if err := two.Release(ctx); err != nil {
			return err
		}
		return contended(ctx, other, other.RWMutex(name), one)
	}},
	{"Multi", lockers(func(c *holdfast.Client, name string) holdfast.Locker {
		return holdfast.MultiLocker(c.Mutex(name+":1"), c.FairMutex(name+":2"), c.RWMutex(name+":3"))
	})},
	{"LeasedSemaphore", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		if err := c.LeasedSemaphore(name).Set(ctx, 1); err != nil {
			return err
		}
		return lockers(func(c *holdfast.Client, name string) holdfast.Locker { return c.LeasedSemaphore(name).Locker(1) })(ctx, c, other, name)
	}},
	{"Semaphore", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		if _, err := c.Semaphore(name).TrySet(ctx, 1, 0); err != nil {
			return err
		}
		if err := c.Semaphore(name).Acquire(ctx, 1); err != nil {
			return err
		}
		return whileWaiting(other, func() error { return other.Semaphore(name).Acquire(ctx, 1) }, func() error { return c.Semaphore(name).Release(ctx, 1) })
	}},
	{"Latch", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		if _, err := c.Latch(name).TrySet(ctx, 1); err != nil {
			return err
		}
		return whileWaiting(other, func() error { return other.Latch(name).Wait(ctx) }, func() error {
			_, err := c.Latch(name).CountDown(ctx)
			return err
		})
	}},
	{"RateLimiter", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		if err := c.RateLimiter(name).SetRate(ctx, holdfast.Rate{Permits: 1, Per: 100 * time.Millisecond}); err != nil {
			return err
		}
		return errors.Join(c.RateLimiter(name).Wait(ctx), other.RateLimiter(name).Wait(ctx))
	}},
	{"Election", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		lease, err := c.Election(name).Campaign(ctx, "one")
		if err != nil {
			return err
		}
		if l, err := other.Election(name).Leader(ctx); err != nil || l.Name != "one" {
			return fmt.Errorf("the leader is %q: %w", l.Name, err)
		}
		return whileWaiting(other, func() error {
			lease, err := other.Election(name).Campaign(ctx, "two")
			return errors.Join(err, lease.Release(ctx))
		}, func() error { return lease.Release(ctx) })
	}},
	{"IDGenerator", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		return different(ctx, object.NewIDGenerator(c, name).Next, object.NewIDGenerator(other, name).Next)
	}},
	{"TimeID", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		return different(ctx, object.NewTimeID(c, name).Next, object.NewTimeID(other, name).Next)
	}},
	{"AtomicLong", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		add := func(c *holdfast.Client) func(context.Context) (int64, error) {
			return func(ctx context.Context) (int64, error) { return object.NewAtomicLong(c, name).Add(ctx, 1) }
		}
		return different(ctx, add(c), add(other))
	}},
	{"Bucket", func(ctx context.Context, c, other *holdfast.Client, name string) error {
		b := object.NewBucket(c, name, object.StringCodec{})
		if err := b.Set(ctx, "one", time.Minute); err != nil {
			return err
		}
		if ok, err := object.NewBucket(other, name, object.StringCodec{}).CompareAndSwap(ctx, "one", "two"); !ok || err != nil {
			return fmt.Errorf("not swapped: %w", err)
		}
		if v, ok, err := b.GetAndExpire(ctx, time.Second); v != "two" || !ok || err != nil {
			return fmt.Errorf("%q, %v: %w", v, ok, err)
		}
		return b.SetKeepTTL(ctx, "three")
	}},
	{"Object.Expire", onObject(func(ctx context.Context, o *object.Object) error {
		_, err := o.Expire(ctx, time.Minute, object.IfNoTTL)
		return err
	})},
	{"Object.TTL", onObject(func(ctx context.Context, o *object.Object) error { _, err := o.TTL(ctx); return err })},
	{"Object.Copy", onObject(func(ctx context.Context, o *object.Object) error {
		_, err := o.Copy(ctx, o.Name()+":copy")
		return err
	})},
	{"Object.Rename", onObject(func(ctx context.Context, o *object.Object) error { return o.Rename(ctx, o.Name()+":other") })},
	{"Object.Move", onObject(func(ctx context.Context, o *object.Object) error { _, err := o.Move(ctx, 1); return err })},
	{"Object.Touch", onObject(func(ctx context.Context, o *object.Object) error { _, err := o.Touch(ctx); return err })},
	{"Object.Unlink", onObject(func(ctx context.Context, o *object.Object) error { _, err := o.Unlink(ctx); return err })},
	{"Object.MemoryUse", onObject(func(ctx context.Context, o *object.Object) error { _, err := o.MemoryUse(ctx); return err })},
	{"Object.IdleTime", onObject(func(ctx context.Context, o *object.Object) error { _, err := o.IdleTime(ctx); return err })},
	{"Object.Dump", onObject(func(ctx context.Context, o *object.Object) error {
		dump, err := o.Dump(ctx)
		return errors.Join(err, o.RestoreReplace(ctx, dump, 0))
	})},
	{"Object.Listen", func(ctx context.Context, c, _ *holdfast.Client, name string) error {
		long := object.NewAtomicLong(c, name)
		if err := long.Store(ctx, 1); err != nil {
			return err
		}
		o := long.Object()
		go func() {
			redistest.Poll(20*time.Second, func() bool { return listens(ctx, c, "__keyspace@0__:"+o.Name()) })
			_, _ = o.Expire(ctx, 50*time.Millisecond)
		}()
		for e, err := range o.Listen(ctx) {
			if err == nil && e.Kind != object.EventExpired {
				err = fmt.Errorf("%s", e.Kind)
			}
			return err
		}
		return errors.New("no event")
	}},
	{"Check", func(ctx context.Context, c, _ *holdfast.Client, name string) error {
		found, err := c.Check(ctx, name)
		if len(found) > 0 && found[0].Severity == holdfast.SeverityDanger {
			return errors.New(found[0].String())
		}
		return err
	}},
}

// lockers returns the steps for a lock: it excludes others, wakes a waiter, and
// expires with its lease.
func lockers(lock func(*holdfast.Client, string) holdfast.Locker) func(context.Context, *holdfast.Client, *holdfast.Client, string) error {
	return func(ctx context.Context, c, other *holdfast.Client, name string) error {
		held, err := lock(c, name).Lock(ctx)
		if err != nil {
			return err
		}
		if err := contended(ctx, other, lock(other, name), held); err != nil {
			return err
		}
		if _, err = lock(c, name).Lock(ctx, holdfast.LeaseTime(200*time.Millisecond)); err != nil {
			return err
		}
		return passes(ctx, lock(other, name)) // after the first lease has expired
	}
}

// contended checks that the lock is held until the lease is released, and that a
// waiter then gets it.
func contended(ctx context.Context, c *holdfast.Client, l holdfast.Locker, held *holdfast.Lease) error {
	if _, err := l.TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
		return fmt.Errorf("two owners hold the lock: %w", err)
	}
	return whileWaiting(c, func() error { return passes(ctx, l) }, func() error { return held.Release(ctx) })
}

func passes(ctx context.Context, l holdfast.Locker) error {
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// whileWaiting calls do during a wait of a client, which do ends. Only a message can end the wait
// in time, because the clients of these tests poll once per minute.
func whileWaiting(c *holdfast.Client, wait, do func() error) error {
	waited := make(chan error, 1)
	go func() { waited <- wait() }()
	if !redistest.Poll(20*time.Second, func() bool { return c.Stats().Waiting > 0 }) {
		return errors.New("the call does not wait")
	}
	return errors.Join(do(), <-waited)
}

// listens reports whether a client has subscribed to a channel.
func listens(ctx context.Context, c *holdfast.Client, channel string) bool {
	r, err := c.Driver().Do(ctx, driver.Call{Script: listeners, Keys: []string{"listeners"}, Args: []string{channel}})
	return err == nil && r.Int > 0
}

var listeners = driver.NewScript("listeners", "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]")

func different(ctx context.Context, next ...func(context.Context) (int64, error)) error {
	seen := make(map[int64]bool)
	for i := range 10 {
		n, err := next[i%len(next)](ctx)
		if err != nil {
			return err
		}
		if seen[n] {
			return fmt.Errorf("%d twice", n)
		}
		seen[n] = true
	}
	return nil
}

func onObject(f func(context.Context, *object.Object) error) func(context.Context, *holdfast.Client, *holdfast.Client, string) error {
	return func(ctx context.Context, c, _ *holdfast.Client, name string) error {
		a := object.NewAtomicLong(c, name)
		return errors.Join(a.Store(ctx, 1), f(ctx, a.Object()))
	}
}

// The embedded server has all features.
func TestEmbeddedFeatures(t *testing.T) {
	t.Parallel()
	s := start(t, server.Embedded)
	c, other := open(t, s), open(t, s)
	for _, f := range features {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if err := f.uses(t.Context(), c, other, f.name); err != nil {
				t.Error(err)
			}
		})
	}
}

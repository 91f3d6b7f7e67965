package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A library acquires a lock once. It returns nil if the lock is held.
type library func(ctx context.Context, name string, ttl time.Duration) (release func(context.Context) error, err error)

// libraries are those that a fleet may use side by side while it migrates.
func libraries(t *testing.T, s *redistest.Server) map[string]library {
	open := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 20 * time.Second})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := locktest.Open(t, s.URL())
	rs, locker := redsync.New(goredis.NewPool(open())), redislock.New(open())
	return map[string]library{
		"holdfast": func(ctx context.Context, name string, ttl time.Duration) (func(context.Context) error, error) {
			lease, err := c.Mutex(name).TryLock(ctx, holdfast.LeaseTime(ttl))
			if errors.Is(err, holdfast.ErrNotAcquired) {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
			return lease.Release, nil
		},
		"redsync": func(ctx context.Context, name string, ttl time.Duration) (func(context.Context) error, error) {
			m := rs.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(1))
			if err := m.TryLockContext(ctx); errors.As(err, new(*redsync.ErrTaken)) || err != nil && strings.Contains(err.Error(), "taken") {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, nil
		},
		"redislock": func(ctx context.Context, name string, ttl time.Duration) (func(context.Context) error, error) {
			l, err := locker.Obtain(ctx, name, ttl, nil)
			if errors.Is(err, redislock.ErrNotObtained) || err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") { // a hash: Holdfast holds it
				return nil, nil
			} else if err != nil {
				return nil, err
			}
			return l.Release, nil
		},
	}
}

// While a fleet migrates, clients of several libraries use one lock: they exclude each other,
// and each gets it.
func TestMigration(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var inside bytes.Buffer
	recorder := redistest.NewRecorder(&inside)
	visits := make(map[string]*atomic.Int32)
	var wg sync.WaitGroup
	for name, acquire := range libraries(t, s) {
		n := new(atomic.Int32)
		visits[name] = n
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					release, err := acquire(t.Context(), "order", time.Minute)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					if release == nil {
						locktest.Work(time.Millisecond)
						continue
					}
					leave := recorder.Enter("order", name)
					locktest.Work(time.Millisecond)
					leave()
					if err := release(t.Context()); err != nil {
						t.Errorf("%s: release: %v", name, err)
					}
					n.Add(1)
					locktest.Work(3 * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	locktest.CheckExclusive(t, &inside, len(visits))
	for name, n := range visits {
		t.Logf("%s: %d", name, n.Load())
		if n.Load() == 0 {
			t.Errorf("%s has never got the lock", name)
		}
	}
}

// A client of one library dies with the lock. A client of another gets it when the lease is
// over, and not before.
func TestMigrationAfterDeath(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := libraries(t, s)
	const ttl = time.Second
	for dead, die := range all {
		for next, acquire := range all {
			t.Run(dead+" then "+next, func(t *testing.T) {
				t.Parallel()
				name := locktest.Name(t)
				before := time.Now()
				if release, err := die(t.Context(), name, ttl); release == nil || err != nil {
					t.Fatal(release == nil, err)
				}
				locktest.Eventually(t, 20*time.Second, "it is granted", func() bool {
					release, err := acquire(t.Context(), name, time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					if release == nil {
						return false
					}
					if held := time.Since(before); held < ttl {
						t.Errorf("granted after %v", held)
					}
					if err := release(t.Context()); err != nil {
						t.Error(err)
					}
					return true
				})
			})
		}
	}
}

// The code of docs/from-redsync.md and docs/from-redislock.md does the same in both libraries.
func TestFrom(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Open(t, s.URL())
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: 20 * time.Second})
	defer c.Close()
	rs, locker := redsync.New(goredis.NewPool(c)), redislock.New(c)
	calls := map[string]func() error{
		"redsync":          func() error { return chargeWithRedsync(t.Context(), rs) },
		"redislock":        func() error { return chargeWithRedislock(t.Context(), locker) },
		"mutex":            func() error { return chargeWithMutex(t.Context(), client) },
		"lease":            func() error { return chargeWithLease(t.Context(), client) },
		"redsync, try":     func() error { return tryWithRedsync(t.Context(), rs) },
		"redislock, try":   func() error { return onceWithRedislock(t.Context(), locker) },
		"mutex, try":       func() error { return tryWithMutex(t.Context(), client) },
		"lease, try":       func() error { return onceWithLease(t.Context(), client) },
		"redislock, mixed": func() error { _, err := obtain(t.Context(), locker, "other", time.Second); return err },
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, holder := range []string{"string", "hash"} {
		if holder == "string" {
			s.Do(t, "SET", "order:42", "token", "PX", "60000")
		} else {
			s.Do(t, "DEL", "order:42")
			defer locktest.Release(t, locktest.Lock(t, t.Context(), client.Mutex("order:42")))
		}
		for _, name := range []string{"redsync, try", "redislock, try", "mutex, try", "lease, try"} {
			if holder == "hash" && name == "redislock, try" {
				continue // see obtain
			}
			if err := calls[name](); !errors.Is(err, errBusy) {
				t.Errorf("held as a %s: %s: %v", holder, name, err)
			}
		}
	}
	if _, err := obtain(t.Context(), locker, "order:42", time.Second); !errors.Is(err, redislock.ErrNotObtained) {
		t.Errorf("obtain: %v", err)
	}
}

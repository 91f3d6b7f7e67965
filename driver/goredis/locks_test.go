package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/goredis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// locker returns a Holdfast client on a client of go-redis.
func locker(t *testing.T, client redis.UniversalClient, o holdfast.Options) *holdfast.Client {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	d, err := goredis.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	c, err := holdfast.New(d, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Two clients pass locks to each other, by messages and not by polling.
func TestLocks(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) func() redis.UniversalClient{
		"single": func(t *testing.T) func() redis.UniversalClient {
			s := redistest.Start(t)
			return func() redis.UniversalClient { return single(s.Addr()) }
		},
		"sentinels": func(t *testing.T) func() redis.UniversalClient {
			s := redistest.StartSentinels(t)
			for _, w := range s.Sentinels() { // no failover here, also if the machine stands still
				w.Do(t, "SENTINEL", "SET", s.MasterName(), "down-after-milliseconds", "60000")
			}
			return func() redis.UniversalClient { return sentinels(s) }
		},
		"cluster": func(t *testing.T) func() redis.UniversalClient {
			c := redistest.StartCluster(t, calm)
			return func() redis.UniversalClient { return cluster(c) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := start(t)
			a := locker(t, open(), holdfast.Options{PollInterval: time.Minute})
			b := locker(t, open(), holdfast.Options{PollInterval: time.Minute})
			for i := range 10 {
				pass(t, a, b, fmt.Sprint("lock", i))
			}
		})
	}
}

// pass has b take a lock while a holds it, and then has a release it.
func pass(t *testing.T, a, b *holdfast.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	held, err := a.Mutex(name).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Mutex(name).TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("%s: taken by two: %v", name, err)
	}
	taken := make(chan error, 1)
	go func() {
		lease, err := b.Mutex(name).Lock(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		taken <- err
	}()
	locktest.WantWaiting(t, b, taken)
	if err := held.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := <-taken; err != nil {
		t.Errorf("%s: not passed on: %v", name, err)
	}
}

// A lock outlives the master it was granted by, and can be taken from the next.
func TestLocksAcrossFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	a := locker(t, cluster(c), holdfast.Options{RetryTimeout: 20 * time.Second})
	b := locker(t, cluster(c), holdfast.Options{RetryTimeout: 20 * time.Second})
	lease, err := a.Mutex("lock").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := c.MasterOf("lock")
	old.Kill()
	c.AwaitFailover(old)
	locktest.Eventually(t, soon, "the new master answers", func() bool { // b may not have found the new master yet
		_, err = b.Mutex("lock").TryLock(t.Context(), holdfast.Wait(2*time.Second))
		return !errors.Is(err, holdfast.ErrUnavailable)
	})
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("taken by two: %v", err)
	}
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the lease is over: %v", context.Cause(lease.Context()))
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	pass(t, b, a, "lock")
}

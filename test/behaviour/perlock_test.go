package behaviour_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// ttlOf returns the TTL of a key at the server.
func ttlOf(t *testing.T, s *redistest.Server, key string) time.Duration {
	t.Helper()
	return time.Duration(s.Int(t, "PTTL", key)) * time.Millisecond
}

// WatchdogTimeout applies to a lock or to a call, for every kind. Others of the same
// client keep the timeout of the client.
func TestWatchdogTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	const short = 5 * time.Second
	want := func(t *testing.T, key string, most time.Duration) {
		t.Helper()
		if ttl := ttlOf(t, s, key); ttl > most || ttl < most/3 {
			t.Errorf("the TTL is %v, want at most %v", ttl, most)
		}
	}
	opt := holdfast.WatchdogTimeout(short)
	locktest.Each(t, "PSFRW", func(t *testing.T, k locktest.Kind) {
		name := locktest.Name(t)
		l := locktest.Lock(t, t.Context(), k.Make(c, name), opt)
		want(t, name, short)
		locktest.Release(t, l)
		locktest.Release(t, locktest.Lock(t, t.Context(), k.Make(c, name)))
		l = locktest.Lock(t, t.Context(), k.Make(c, name))
		want(t, name, 30*time.Second)
		locktest.Release(t, l)
	})
	e := c.Election(locktest.Name(t), opt)
	l := locktest.Campaign(t, t.Context(), e, "me")
	want(t, e.Name(), short)
	locktest.Release(t, l)
	m := holdfast.MultiLocker(c.Mutex(locktest.Name(t)), c.Mutex(locktest.Name(t)))
	l = locktest.Lock(t, t.Context(), m, opt)
	for _, p := range l.Parts() {
		want(t, p.Name(), short)
	}
	locktest.Release(t, l)

	// The last of both options applies.
	mutex := c.Mutex(locktest.Name(t), holdfast.LeaseTime(time.Second))
	l = locktest.Lock(t, t.Context(), mutex, opt)
	locktest.Outlast(t, c, time.Second)
	if !l.Valid() {
		t.Error("WatchdogTimeout does not override LeaseTime")
	}
	locktest.Release(t, l)
	mutex = c.Mutex(locktest.Name(t), opt)
	l = locktest.Lock(t, t.Context(), mutex, holdfast.LeaseTime(300*time.Millisecond))
	<-l.Context().Done()
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("LeaseTime does not override WatchdogTimeout: %v", err)
	}
	for what, d := range map[string]time.Duration{"a forgotten unit": 5, "no time": 0, "a negative time": -time.Second, "an endless time": 1<<63 - 1} {
		if _, err := mutex.Lock(t.Context(), holdfast.WatchdogTimeout(d)); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The servers of a Redlock must know the longest lease.
func TestWatchdogTimeoutOfRedlock(t *testing.T) {
	t.Parallel()
	var clients []*holdfast.Client
	for range 3 {
		clients = append(clients, locktest.Open(t, redistest.Start(t).URL(), holdfast.Options{WatchdogTimeout: time.Second}))
	}
	r, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Mutex("x").Lock(t.Context(), holdfast.WatchdogTimeout(2*time.Second))
	if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "LongestLease") {
		t.Errorf("a lease that is longer than the servers know: %v", err)
	}
}

// A strict client refuses a timeout that the skew of clocks would use up.
func TestWatchdogTimeoutAndSkew(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL(), holdfast.Options{ClockSkew: time.Second})
	if _, err := c.Mutex("x").Lock(t.Context(), holdfast.WatchdogTimeout(3*time.Second)); !errors.Is(err, holdfast.ErrInvalid) {
		t.Error(err)
	}
}

// Every object of a client with a prefix is at the server under the prefix and its name,
// and calls itself by its name.
func TestNamePrefix(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{NamePrefix: "shop:", Anonymous: true})
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	held := func(key string) {
		t.Helper()
		info, err := inspect.New(c.Driver()).Lock(ctx, key)
		if err != nil || len(info.Holders) == 0 {
			t.Errorf("%s: %+v, %v", key, info, err)
		}
	}
	locktest.Each(t, "PSFRW", func(t *testing.T, k locktest.Kind) {
		m := k.Make(c, "order")
		l := locktest.Lock(t, ctx, m)
		inner := locktest.Lock(t, l.Context(), m) // entered again, by the name
		defer func() {
			_ = inner.Release(ctx)
			_ = l.Release(ctx)
		}()
		held("shop:order")
		if n, err := m.HoldCount(inner.Context()); n != 2 || err != nil {
			t.Errorf("hold count %d, %v", n, err)
		}
		if m.Name() != "order" || l.Name() != "order" {
			t.Errorf("the names are %q and %q", m.Name(), l.Name())
		}
		rival := locktest.Open(t, s.URL(), holdfast.Options{Anonymous: true})
		if k.Letter == "R" {
			return
		}
		if l, err := rival.Mutex("order").TryLock(ctx); err != nil {
			t.Errorf("without the prefix: %v", err)
		} else {
			locktest.Release(t, l)
		}
		_, err := rival.Mutex("shop:order").TryLock(ctx)
		if !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("with the prefix in the name: %v", err)
		}
		_, err = k.Make(c, "order").TryLock(ctx)
		var failed *holdfast.Error
		if !errors.Is(err, holdfast.ErrNotAcquired) || !errors.As(err, &failed) || failed.Name != "order" {
			t.Errorf("the error does not have the name of the lock: %v", err)
		}
		if _, err := m.ForceUnlock(ctx); err != nil {
			t.Error(err)
		}
		var lost *holdfast.LostError
		if err := context.Cause(inner.Context()); !errors.As(err, &lost) || lost.Name != "order" {
			t.Errorf("the loss does not have the name of the lock: %v", err)
		}
	})
	multi := holdfast.MultiLocker(c.Mutex("a"), c.Mutex("b"))
	l := locktest.Lock(t, ctx, multi)
	if multi.Name() != "a+b" || l.Name() != "a+b" || l.Parts()[1].Name() != "b" {
		t.Errorf("the names are %q, %q and %q", multi.Name(), l.Name(), l.Parts()[1].Name())
	}
	held("shop:b")
	locktest.Release(t, l)
	e := c.Election("leader")
	l = locktest.Campaign(t, ctx, e, "me")
	held("shop:leader")
	locktest.Release(t, l)
	must(c.Semaphore("sem").TrySet(ctx, 1, 0))
	must(c.LeasedSemaphore("leased").TrySet(ctx, 1, 0))
	must(c.Latch("latch").TrySet(ctx, 1))
	must(c.RateLimiter("limiter").TrySetRate(ctx, holdfast.Rate{Permits: 1, Per: time.Second}))
	must(object.NewAtomicLong(c, "long").Add(ctx, 1))
	must(object.NewIDGenerator(c, "ids").Next(ctx))
	must(object.NewTimeID(c, "times").Next(ctx))
	b := object.NewBucket(c, "bucket", object.StringCodec{})
	must(nil, b.Set(ctx, "v", 0))
	if err := b.Object().Rename(ctx, "renamed"); err != nil {
		t.Error(err)
	}
	must(c.Check(ctx, "order"))
	for _, key := range s.Keys(t) {
		if !strings.Contains(key, "shop:") {
			t.Errorf("a key without the prefix: %s", key)
		}
	}
	for _, key := range []string{"shop:sem", "shop:leased", "shop:latch", "shop:limiter", "shop:long", "shop:ids", "shop:times", "shop:renamed"} {
		if s.Int(t, "EXISTS", key) != 1 && s.Int(t, "EXISTS", "{"+key+"}:config") != 1 {
			t.Errorf("%s does not exist", key)
		}
	}
	for _, prefix := range []string{"a\n", "\xff", "redisson_lock_queue:", "a{", "holdfast:", strings.Repeat("x", 600)} {
		if _, err := holdfast.Open(context.Background(), s.URL(), &holdfast.Options{NamePrefix: prefix}); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("prefix %.20q: %v", prefix, err)
		}
	}
	if _, err := c.Mutex("").Lock(ctx); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("an empty name: %v", err)
	}
}

// The names of the votes of a Redlock have the prefixes of its clients.
func TestNamePrefixOfRedlock(t *testing.T) {
	t.Parallel()
	var clients []*holdfast.Client
	var servers []*redistest.Server
	o := locktest.Quick
	o.NamePrefix = "shop:"
	for range 3 {
		s := redistest.Start(t)
		servers = append(servers, s)
		clients = append(clients, locktest.Open(t, s.URL(), o))
	}
	r, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{NodeTimeout: o.WatchdogTimeout / 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		locktest.AwaitVoter(t, s, o.WatchdogTimeout)
	}
	l := locktest.Lock(t, t.Context(), r.Mutex("order"))
	defer locktest.Release(t, l)
	votes := int64(0)
	for _, s := range servers {
		votes += s.Int(t, "EXISTS", "shop:order")
	}
	if votes < 2 || l.Name() != "order" {
		t.Errorf("%d votes for the key, the name is %q", votes, l.Name())
	}
	if _, err := r.Mutex("order").TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Error(err)
	}
}

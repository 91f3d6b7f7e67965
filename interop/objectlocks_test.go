package interop_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// Go can inspect a lock that Java holds as an object without changing it, and can delete it.
// The deletion wakes the waiters.
func TestLockOfJavaAsObject(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		ctx, r := t.Context(), newFixture(t, release)
		n := name(t)
		mutex, golang := r.java.get(t, "getLock", n), goobject.Of(r.golang.Mutex(n))
		gives(t, false)(golang.Exists(ctx))
		mutex.do(t, n, "lock", 1, "MINUTES")
		gives(t, true)(golang.Exists(ctx))
		gives(t, true)(golang.Touch(ctx))
		if ttl := must[time.Duration](t)(golang.TTL(ctx)); ttl < 30*time.Second || ttl > time.Minute {
			t.Errorf("%v left", ttl)
		}
		if use := must[int64](t)(golang.MemoryUse(ctx)); use < 1 {
			t.Errorf("%d bytes", use)
		}
		_, err := golang.Expire(ctx, time.Second)
		fails(t, err, holdfast.ErrUnsupported)
		_, err = golang.Persist(ctx)
		fails(t, err, holdfast.ErrUnsupported)
		_, err = golang.Move(ctx, 1)
		fails(t, err, holdfast.ErrUnsupported)
		fails(t, golang.Rename(ctx, n+":2"), holdfast.ErrUnsupported)
		if !mutex.do(t, n, "isHeldByCurrentThread").Bool() {
			t.Error("Java does not hold the lock any more")
		}

		waits := threadWaits(t, peer(t, release), n+" waits", inQueue)
		waiter := mutex.Go(n+" waits", "lock")
		awaitWaiting(t, waits, waiter)
		gives(t, true)(golang.Delete(ctx))
		within(t, 10*time.Second, waiter)
		if mutex.do(t, n, "isHeldByCurrentThread").Bool() || !mutex.do(t, n, "isLocked").Bool() {
			t.Error("the lock is not that of the waiter")
		}
	})
}

// If Redisson changes a lock as an object while Go holds it, Go's renewals repair it, or the
// holder notices the loss.
func TestLockOfGoAsObject(t *testing.T) {
	r := newFixture(t, interop.Current)
	r.golang = open(t, r.server.URL(), holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 300 * time.Millisecond})
	for _, test := range []struct {
		name  string
		do    func(t *testing.T, lock object)
		stays bool
	}{
		{"expire", func(t *testing.T, lock object) { lock.says(t, true, "expire", 4, "SECONDS") }, true},
		{"clearExpire", func(t *testing.T, lock object) { lock.says(t, true, "clearExpire") }, true},
		{"rename", func(t *testing.T, lock object) { lock.do(t, "", "rename", name(t)) }, false},
		{"move", func(t *testing.T, lock object) { lock.says(t, true, "move", 2) }, false},
		{"unlink", func(t *testing.T, lock object) { lock.says(t, true, "unlink") }, false},
		{"delete", func(t *testing.T, lock object) { lock.says(t, true, "delete") }, false},
		{"forceUnlock", func(t *testing.T, lock object) { lock.says(t, true, "forceUnlock") }, false},
	} {
		for _, k := range kinds {
			if k.name != "mutex" && k.name != "fair" && k.name != "fenced" && k.name != "write" && k.name != "read" {
				continue
			}
			t.Run(test.name+" "+k.name, func(t *testing.T) {
				t.Parallel()
				ctx, n := t.Context(), name(t)
				l, err := k.golang(r.golang, n).Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				test.do(t, k.java(t, r.java, n))
				if !test.stays {
					select {
					case <-l.Context().Done():
						fails(t, context.Cause(l.Context()), holdfast.ErrLost)
					case <-time.After(2 * slack):
						t.Error("the holder did not notice the loss")
					}
					fails(t, l.Release(ctx), holdfast.ErrLost)
					return
				}
				locktest.Eventually(t, 2*slack, "the lease was not changed", func() bool {
					ttl := r.server.Int(t, "PTTL", n)
					return ttl > 4500 && ttl <= 6000
				})
				fails(t, l.Release(ctx), nil)
				if !newJava(t, r.java, k, n, n).TryLock(t, 0, 0) {
					t.Error("Java cannot acquire the lock")
				}
			})
		}
	}
}

// Redisson sets the TTL of the token counter to the lease time when it acquires a fenced lock
// as part of a multi lock (B11). The next grant of Holdfast removes this TTL, so that tokens
// keep rising.
func TestTokensAfterMultiLock(t *testing.T) {
	t.Parallel()
	ctx, r, n := t.Context(), newFixture(t, interop.Current), name(t)
	golang := r.golang.FencedMutex(n)
	multi := r.java.get(t, "getMultiLock", []any{r.java.get(t, "getFencedLock", n)})
	multi.do(t, n, "lock", 40, "SECONDS")
	multi.do(t, n, "unlock")
	counter := "redisson_lock_token:{" + n + "}"
	if ttl := r.server.Int(t, "PTTL", counter); ttl <= 0 {
		t.Errorf("the TTL of the counter is %d ms, and Redisson should have set it", ttl)
	}
	token := func() int64 {
		t.Helper()
		l := must[*holdfast.Lease](t)(golang.Lock(ctx))
		defer func() { fails(t, l.Release(ctx), nil) }()
		return l.Token()
	}
	before := token()
	if ttl := r.server.Int(t, "PTTL", counter); ttl != -1 {
		t.Errorf("the TTL of the counter is %d ms, want none", ttl)
	}
	if after := token(); after <= before {
		t.Errorf("the token is %d after %d", after, before)
	}
}

// To Java an election is a fenced lock. Java can inspect it and wait for it.
func TestElectionAsLock(t *testing.T) {
	t.Parallel()
	ctx, r, n := t.Context(), newFixture(t, interop.Current), name(t)
	java, golang := r.java.get(t, "getFencedLock", n), r.golang.Election(n)
	l, err := golang.Campaign(ctx, "go:1")
	if err != nil {
		t.Fatal(err)
	}
	java.says(t, true, "isLocked")
	java.says(t, false, "tryLock")
	if token := java.do(t, "", "getToken").Int(); token != l.Token() {
		t.Errorf("Java sees the term %d, and Go %d", token, l.Token())
	}
	wakes(t, threadWaits(t, peer(t, interop.Current), n, inQueue), func() error { return java.Do(n, "lock").Err() }, func() { fails(t, l.Release(ctx), nil) })
	// A holder in Java is not a leader, but it excludes others.
	gives(t, holdfast.Leader{})(golang.Leader(ctx))
	_, err = golang.TryCampaign(ctx, "go:2")
	fails(t, err, holdfast.ErrNotAcquired)
	java.do(t, n, "unlock")
	again, err := golang.Campaign(ctx, "go:3")
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= l.Token() {
		t.Errorf("term %d after %d", again.Token(), l.Token())
	}
	java.says(t, true, "forceUnlock")
	locktest.Eventually(t, 2*slack, "there is no leader", func() bool {
		leader, err := golang.Leader(ctx)
		return err == nil && leader == holdfast.Leader{}
	})
}

// To Java an id generator is a map.
func TestTimeIDAsMap(t *testing.T) {
	t.Parallel()
	ctx, r, n := t.Context(), newFixture(t, interop.Current), name(t)
	id, err := goobject.NewTimeID(r.golang, n).Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	java := r.java.get(t, "getMap", n, codec(t, peer(t, interop.Current), "org.redisson.client.codec.StringCodec"))
	sec, seq := java.long(t, "get", "sec"), java.long(t, "get", "seq")
	if got := sec<<32 | seq; got != id {
		t.Errorf("Java reads %d, want %d", got, id)
	}
}

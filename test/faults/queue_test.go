package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// queueLength returns how many clients queue for a name.
func queueLength(t *testing.T, s *redistest.Server, name string) int {
	t.Helper()
	return int(s.Int(t, "ZCARD", "holdfast:queue:{"+name+"}"))
}

// awaitQueue waits until so many clients queue for a name.
func awaitQueue(t *testing.T, s *redistest.Server, name string, n int) {
	t.Helper()
	locktest.Eventually(t, 10*time.Second, fmt.Sprint(n, " clients queue"), func() bool { return queueLength(t, s, name) == n })
}

// Calls that give up while the server is silent leave nothing in the queue, however long that
// lasts. So a release is not lost on them: the next client gets the lock at once.
func TestGivenUpDuringOutage(t *testing.T) {
	t.Parallel()
	s, name := redistest.Start(t), locktest.Name(t)
	holder, live := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	held := locktest.Lock(t, t.Context(), holder.Mutex(name), holdfast.WatchdogTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	const silent = 10
	var calls sync.WaitGroup
	for range silent {
		c := locktest.Open(t, s.URL(), holdfast.Options{RetryTimeout: time.Second, WatchdogTimeout: time.Second})
		calls.Go(func() {
			if _, err := c.Mutex(name).Lock(ctx); err == nil {
				t.Error("a call got a lock that is held")
			}
		})
	}
	awaitQueue(t, s, name, silent)
	// Longer than their leases, and than a quarter of RetryTimeout.
	over := redistest.Outage(7*time.Second, s.Pause, s.Resume)
	calls.Wait()
	<-over
	locktest.Eventually(t, 20*time.Second, "no client queues", func() bool { return queueLength(t, s, name) == 0 })
	next := locktest.Background(t.Context(), live.Mutex(name))
	awaitQueue(t, s, name, 1)
	locktest.Release(t, held)
	locktest.Release(t, locktest.EnteredAfter(t, 2*time.Second, next))
}

// A holder that dies is replaced soon after its lease, also if the first clients in the queue
// have died with it, and however many wait.
func TestHolderAndFirstDie(t *testing.T) {
	t.Parallel()
	s, name := redistest.Start(t), locktest.Name(t)
	const lease, waiters = 3 * time.Second, 20
	rig := locktest.NewRig(t, s, "", holdfast.Options{WatchdogTimeout: lease})
	locktest.Lock(t, t.Context(), rig.Client.Mutex(name))
	first := locktest.NewRig(t, s, "", holdfast.Options{WatchdogTimeout: lease})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = first.Client.Mutex(name).Lock(ctx) }()
	awaitQueue(t, s, name, 1)
	got := make(chan error, waiters)
	for range waiters {
		c := locktest.Open(t, s.URL(), holdfast.Options{WatchdogTimeout: lease})
		go func() {
			l, err := c.Mutex(name).Lock(ctx)
			if err == nil {
				err = l.Release(ctx)
			}
			got <- err
		}()
	}
	awaitQueue(t, s, name, 1+waiters)
	locktest.AwaitRenewals(t, rig.Client, 2) // all have looked before
	first.Proxy.Freeze()                     // it seems to listen
	rig.Proxy.Freeze()
	start := time.Now()
	for range waiters {
		if err, ok := locktest.Receive(got, 30*time.Second); !ok || err != nil {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	}
	if took := locktest.Took(start); took > lease+5*time.Second { // and a grant to the one that is frozen
		t.Errorf("all had it after %v", took)
	}
}

// Entries of clients that are gone do not fill the queue.
func TestQueueFullOfDead(t *testing.T) {
	t.Parallel()
	s, name := redistest.Start(t), locktest.Name(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL(), holdfast.Options{MaxQueue: 2})
	held := locktest.Lock(t, t.Context(), c.Mutex(name))
	s.Do(t, "ZADD", "holdfast:queue:{"+name+"}", "1", "d0:1", "2", "d1:1", "3", "d2:7:fenced")
	next := locktest.Background(t.Context(), other.Mutex(name))
	locktest.Eventually(t, 5*time.Second, "the call queues", func() bool { return queueLength(t, s, name) <= 2 })
	locktest.Release(t, held)
	locktest.Release(t, locktest.EnteredAfter(t, 5*time.Second, next))
}

// A client without a right to the queue frees all that it holds when it is closed.
func TestCloseWithoutQueueRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	keys, channels, commands := check.Rule("", "app:", 0, false)
	rights := slices.DeleteFunc(slices.Concat(keys, channels, commands), queueRights["both"])
	s.Do(t, slices.Concat([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret", "resetchannels"}, rights)...)
	for kind, lock := range queueKinds {
		c, err := holdfast.Open(t.Context(), "redis://limited:secret@"+s.Addr(), &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for _, key := range s.Strings(t, "KEYS", "*") {
			if !strings.HasPrefix(key, "holdfast:client:") && !strings.HasPrefix(key, "redisson_lock_token:") {
				if left := s.Int(t, "PTTL", key); left > 0 {
					t.Errorf("%s: %s is left for %d ms", kind, key, left)
				}
			}
		}
		s.Do(t, "FLUSHALL")
	}
}

// A pause of the server just after a hand-off costs no lease.
func TestPauseAfterHandOff(t *testing.T) {
	t.Parallel()
	s, name := redistest.Start(t), locktest.Name(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	for round := range 3 {
		held := locktest.Lock(t, t.Context(), a.Mutex(name))
		next := locktest.Background(t.Context(), b.Mutex(name))
		awaitQueue(t, s, name, 1)
		locktest.Work(850 * time.Millisecond)
		start := time.Now()
		locktest.Release(t, held)
		lease := locktest.EnteredAfter(t, 5*time.Second, next)
		<-redistest.Outage(1700*time.Millisecond, s.Pause, s.Resume)
		locktest.Eventually(t, 20*time.Second, "the lease is renewed or lost", func() bool {
			return !lease.Valid() || time.Until(lease.Deadline()) > 10*time.Second
		})
		if !lease.Valid() && locktest.Stalled(start) < 200*time.Millisecond {
			t.Errorf("round %d: the lease is lost", round)
		}
		_ = lease.Release(t.Context())
	}
}

// A user that may publish, and not read the keys of a lock, grants nothing. It cannot make a
// client send many requests either.
func TestForgedGrants(t *testing.T) {
	t.Parallel()
	s, name := redistest.Start(t), locktest.Name(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	m := a.FencedMutex(name)
	held := locktest.Lock(t, t.Context(), m)
	next := locktest.Background(t.Context(), b.FencedMutex(name))
	awaitQueue(t, s, name, 1)
	entry := s.Strings(t, "ZRANGE", "holdfast:queue:{"+name+"}", "0", "-1")[0]
	owner := strings.TrimSuffix(entry, ":fenced")
	if client, number, _ := strings.Cut(owner, ":"); client != b.ID() || len(number) < 14 {
		t.Fatalf("the owner is %q", owner)
	}
	channel := "holdfast:queue:{" + name + "}:" + b.ID()
	// The name of the owner is read from a key here. A grant of another entry has no effect even
	// then.
	asked := locktest.Calls(t, s, "evalsha")
	s.Do(t, "PUBLISH", channel, owner+" 9007199254740990 3000 1")
	locktest.Eventually(t, 10*time.Second, "the client asks the server", func() bool { return locktest.Calls(t, s, "evalsha") > asked })
	if len(next) > 0 {
		t.Fatal("a grant of another entry gave the lock")
	}
	before := locktest.Calls(t, s, "evalsha")
	for n := range 2000 {
		for _, text := range []string{fmt.Sprintf("%s:%d 9007199254740990 60000 1", b.ID(), n), "", "first 3600000", "x", owner[:len(owner)-1] + " 1 1 1"} {
			s.Do(t, "PUBLISH", channel, text)
		}
	}
	if len(next) > 0 {
		t.Fatal("a forged message gave the lock")
	}
	if n := locktest.Calls(t, s, "evalsha") - before; n > 1000 {
		t.Errorf("10,000 messages made the client send %d requests", n)
	}
	token := held.Token()
	locktest.Release(t, held)
	got := locktest.EnteredAfter(t, 5*time.Second, next)
	if got.Token() != token+1 {
		t.Errorf("token %d after %d", got.Token(), token)
	}
	locktest.Release(t, got)
}

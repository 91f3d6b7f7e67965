package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// A server that refuses a release must not have done a part of it, since the caller
// will release again. A new user of Redis 7 has no rights for channels by default.
func TestRefusedReleaseAddsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels")
	c := locktest.Open(t, "redis://mute:secret@"+s.Addr())
	t.Run("semaphore", func(t *testing.T) {
		s.Do(t, "SET", "sem", "1")
		err := c.Semaphore("sem").Release(t.Context(), 1)
		if free := s.Do(t, "GET", "sem"); errors.Is(err, holdfast.ErrRefused) && free != "1" {
			t.Errorf("%v; and %v permits are free", err, free)
		}
	})
	t.Run("set", func(t *testing.T) {
		_, err := c.Semaphore("new").TrySet(t.Context(), 5, 0)
		if free := s.Do(t, "GET", "new"); errors.Is(err, holdfast.ErrRefused) && free != nil {
			t.Errorf("%v; and %v permits are free", err, free)
		}
	})
	t.Run("latch", func(t *testing.T) {
		s.Do(t, "SET", "latch", "1")
		_, err := c.Latch("latch").CountDown(t.Context())
		if n := s.Do(t, "GET", "latch"); errors.Is(err, holdfast.ErrRefused) && n != "1" {
			t.Errorf("%v; and the count is %v", err, n)
		}
	})
	t.Run("leased", func(t *testing.T) {
		sem := locktest.Open(t, s.URL()).LeasedSemaphore("leased")
		if err := sem.Set(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		l, err := sem.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		err = c.LeasedSemaphore("leased").ReleaseIDs(t.Context(), l.PermitIDs()...)
		if free := s.Do(t, "GET", "leased"); errors.Is(err, holdfast.ErrRefused) && free != "0" {
			t.Errorf("%v; and %v permits are free", err, free)
		}
	})
	t.Run("election", func(t *testing.T) {
		_, err := c.Election("e").TryCampaign(t.Context(), "me")
		if n := s.Int(t, "EXISTS", "e"); errors.Is(err, holdfast.ErrRefused) && n != 0 {
			t.Errorf("%v; and the lock exists", err)
		}
	})
}

// A user without the right to one channel loses only the messages on that
// channel: a waiter there polls, and all others are woken.
func TestForbiddenChannel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels", "&redisson_lock__channel:{good*")
	log := new(locktest.Buffer)
	limited := locktest.Open(t, "redis://limited:secret@"+s.Addr(), holdfast.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	other := locktest.Open(t, s.URL())
	// A waiter that gets no message looks once a second: 100 turns would take
	// more than the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	blocked, err := other.Mutex("bad").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	polled := make(chan error, 1)
	go func() {
		_, err := limited.Mutex("bad").Lock(ctx) // it cannot announce a release there
		polled <- err
	}()
	mentions := func() int { return strings.Count(log.String(), "redisson_lock__channel:{bad}") }
	locktest.Eventually(t, 20*time.Second, "the log names the channel", func() bool { return mentions() > 0 })
	for i := range 100 {
		if i == 50 {
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		name := fmt.Sprint("good", i%3)
		held, err := other.Mutex(name).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			l, err := limited.Mutex(name).Lock(ctx)
			if err == nil {
				err = l.Release(ctx)
			}
			got <- err
		}()
		locktest.Eventually(t, 20*time.Second, "a channel that is allowed is subscribed", func() bool {
			return slices.Contains(s.Channels(t), "redisson_lock__channel:{"+name+"}")
		})
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
	}
	if err := blocked.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-polled; err != nil {
		t.Errorf("the waiter on a channel that is refused: %v", err)
	}
	if n := mentions(); n != 1 || !strings.Contains(log.String(), "NOPERM") {
		t.Errorf("the channel is named %d times in the log: %s", n, log.String())
	}
}

// A script that is stopped in the middle loses no permit.
func TestForbiddenCommandsLoseNoPermit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, forbidden := range []string{"set", "decrby", "incrby", "get", "pexpire"} {
		s.Do(t, "ACL", "SETUSER", "no-"+forbidden, "on", ">secret", "~*", "&*", "+@all", "-"+forbidden)
		c := locktest.Open(t, "redis://no-"+forbidden+":secret@"+s.Addr())
		s.Do(t, "SET", "sem", "5")
		before, _ := locktest.Executed(t, s)
		if err := c.Semaphore("sem").TryAcquire(t.Context(), 1); err != nil {
			locktest.Eventually(t, 20*time.Second, "it is undone, or that is refused time and again", func() bool {
				scripts, _ := locktest.Executed(t, s)
				return c.Stats().PendingReleases == 0 || scripts >= before+4
			})
			if free := s.Do(t, "GET", "sem"); free != "5" {
				t.Errorf("without %s: %v; and %v of 5 permits are free", forbidden, err, free)
			}
		}
	}
}

// A client that may not use a semaphore's marks does not trouble the server for
// minutes after each refusal.
func TestRefusedPermitsAreNotUndoneForEver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "narrow", "on", ">secret", "~app:*", "&*", "+@all")
	p := redistest.NewProxy(t, s.Addr())
	sem := locktest.Open(t, "redis://narrow:secret@"+p.Addr()).Semaphore("app:sem")
	const calls = 500
	for range calls {
		if err := sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrRefused) {
			t.Fatal(err)
		}
	}
	locktest.Eventually(t, 20*time.Second, "the undoing of each was refused twice", func() bool { return p.Total() >= 3*calls })
	p.ResetCounts()
	const span = 5 * time.Second
	if redistest.Poll(span, func() bool { return p.Total() > calls }) {
		t.Errorf("%d requests within %v, after the undoing of %d calls was refused twice", p.Total(), span, calls)
	}
	t.Logf("%d requests within %v", p.Total(), span)
}

// Servers that cannot or will not serve: each has its own error, and nothing
// is lost.
func TestUnwillingServers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{RetryTimeout: 500 * time.Millisecond})
	refuse := func(what string, key string, want error, code string) {
		t.Helper()
		for method, take := range map[string]func(context.Context, ...holdfast.LockOption) (*holdfast.Lease, error){
			"Lock": c.Mutex(key).Lock, "TryLock": c.Mutex(key).TryLock,
		} {
			start := time.Now()
			_, err := take(t.Context())
			var e *driver.Error
			if !errors.Is(err, want) || !errors.As(err, &e) || e.Code != code {
				t.Errorf("%s, %s: %v, want %v and %s", what, method, err, want, code)
			}
			if errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%s, %s: %v looks as if the lock were held", what, method, err)
			}
			if took := locktest.Took(start); took > 5*time.Second {
				t.Errorf("%s, %s: took %v", what, method, took)
			}
		}
	}
	s.Do(t, "SET", "string", "precious")
	refuse("another type", "string", holdfast.ErrRefused, "WRONGTYPE")
	_, err := c.Mutex("string").TryLock(t.Context())
	if want := "holds data of another type: use another name, or check which program writes the key"; err == nil || !strings.HasSuffix(err.Error(), want) || strings.Count(err.Error(), "type") != 1 {
		t.Errorf("another type: %v", err)
	}
	s.Do(t, "HSET", "hash", "precious", "data")
	for what, call := range map[string]func() error{
		"foreign hash": func() error { _, err := c.Mutex("hash").ForceUnlock(t.Context()); return err },
		"no number":    func() error { _, err := object.NewAtomicLong(c, "string").Add(t.Context(), 1); return err },
		"no id":        func() error { _, err := object.NewIDGenerator(c, "string").Next(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, holdfast.ErrRefused) || strings.Count(err.Error(), "use another name, or check which program writes the key") != 1 || strings.Contains(err.Error(), "delete") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := s.Do(t, "GET", "string"); got != "precious" {
		t.Errorf("the key is now %v", got)
	}
	if _, err := c.Mutex("string").State(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("State of another type: %v", err)
	}

	held := locktest.Lock(t, t.Context(), c.Mutex("held"))
	nested := locktest.Lock(t, held.Context(), c.Mutex("held"))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	refuse("out of memory", "k", holdfast.ErrRefused, "OOM")
	if _, err := c.Mutex("held").Lock(held.Context()); !errors.Is(err, holdfast.ErrRefused) || !held.Valid() {
		t.Errorf("re-entry out of memory: %v, valid %v", err, held.Valid())
	}
	locktest.Release(t, nested)
	locktest.Release(t, held) // works although nothing else does
	if s.Int(t, "EXISTS", "held") != 0 {
		t.Error("still locked")
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")

	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	refuse("read-only", "k", holdfast.ErrUnavailable, "READONLY")
	s.Do(t, "REPLICAOF", "NO", "ONE")
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("k")))

	s.Do(t, "ACL", "SETUSER", "default", "resetkeys", "~mine:*")
	refuse("not allowed", "k", holdfast.ErrRefused, "NOPERM")
}

// Another program overwrites the key of a held lock with a value of another type. The lock is
// lost, whichever call of the lease finds out, and the value stays.
func TestOverwrittenLock(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL())
	sem := c.LeasedSemaphore("permits", holdfast.WithPermits(3))
	type taken = func(context.Context, ...holdfast.LockOption) (*holdfast.Lease, error)
	locks := map[string]taken{
		"mutex": c.Mutex("mutex").Lock, "fenced": c.FencedMutex("fenced").Lock, "fair": c.FairMutex("fair").Lock,
		"write": c.RWMutex("write").Lock, "read": c.RWMutex("read").RLocker().Lock,
		"multi": holdfast.MultiLocker(c.Mutex("multi"), c.Mutex("multi2")).Lock,
		"permits": func(ctx context.Context, opts ...holdfast.LockOption) (*holdfast.Lease, error) {
			return sem.Acquire(ctx, 1, opts...)
		},
	}
	for key, lock := range locks {
		overwrite := func(l *holdfast.Lease) {
			t.Helper()
			for _, k := range s.Keys(t) {
				if kind := s.Do(t, "TYPE", k); strings.Contains(k, key) && (kind == "hash" || kind == "zset") {
					s.Do(t, "SET", k, "precious")
				}
			}
			if !l.Valid() {
				t.Errorf("%s: the lease is not valid, although no call can know", key)
			}
		}
		l, err := lock(t.Context())
		if err != nil {
			t.Fatal(key, err)
		}
		overwrite(l)
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrRefused) {
			t.Errorf("%s: Release: %v", key, err)
		}
		if key == "permits" { // permits are not entered again
			continue
		}
		if s.Do(t, "GET", key) != "precious" {
			t.Errorf("%s: the value has changed", key)
		}
		for _, k := range s.Keys(t) {
			s.Do(t, "DEL", k)
		}
		if l, err = lock(t.Context()); err != nil {
			t.Fatal(key, err)
		}
		nested, err := lock(l.Context())
		if err != nil {
			t.Fatal(key, err)
		}
		overwrite(l)
		if _, err := lock(l.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s: re-entry: %v", key, err)
		}
		for _, l := range []*holdfast.Lease{nested, l} {
			if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%s: Release of a nested lease: %v", key, err)
			}
		}
	}
}

// A server that is read-only for a while, as in a failover, is waited for.
func TestPassingTrouble(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("x")))
	redistest.Outage(300*time.Millisecond, func() { s.Do(t, "REPLICAOF", "127.0.0.1", "1") }, func() { s.Do(t, "REPLICAOF", "NO", "ONE") })
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("x")))
	s.Do(t, "SCRIPT", "FLUSH")
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("x")))
	redistest.Outage(300*time.Millisecond, s.Stop, s.Restart)
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("x")))
}

// A script may be stopped in the middle, by a command that the user may not
// run: the lock is refused, and what was written of it goes away.
func TestRefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, forbidden := range []string{"time", "pexpire"} {
		s.Do(t, "ACL", "SETUSER", "no-"+forbidden, "on", ">secret", "~*", "&*", "+@all", "-"+forbidden)
		c := locktest.Open(t, "redis://no-"+forbidden+":secret@"+s.Addr())
		for what, m := range map[string]holdfast.Locker{
			"mutex": c.Mutex("m"), "write": c.RWMutex("w"), "read": c.RWMutex("r").RLocker(),
			"multi": holdfast.MultiLocker(c.Mutex("a"), c.RWMutex("b")),
		} {
			if _, err := m.Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("%s without %s: %v", what, forbidden, err)
			}
		}
		locktest.Eventually(t, 10*time.Second, "nothing is left without "+forbidden, func() bool { return len(s.Keys(t)) == 0 })
	}
}

// One bad key among 21 costs no lease on the others, whatever is wrong with it.
func TestBadKeyCostsNoOther(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, s *redistest.Server)
		lost  bool // the bad one
	}{
		{"absurd TTL", func(t *testing.T, s *redistest.Server) { s.Do(t, "PEXPIRE", "victim", "9000000000000000000") }, false},
		{"no right", func(t *testing.T, s *redistest.Server) { s.Do(t, "ACL", "SETUSER", "worker", "resetkeys", "~ok:*") }, true},
		{"wrong type", func(t *testing.T, s *redistest.Server) {
			s.Do(t, "DEL", "victim")
			s.Do(t, "SET", "victim", "precious")
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
			c := locktest.Open(t, "redis://worker:secret@"+s.Addr(), holdfast.Options{WatchdogTimeout: 8 * time.Second, RenewEvery: 300 * time.Millisecond})
			victim := locktest.Lock(t, t.Context(), c.Mutex("victim"))
			var others []*holdfast.Lease
			for i := range 20 {
				others = append(others, locktest.Lock(t, t.Context(), c.Mutex(fmt.Sprint("ok:", i))))
			}
			test.spoil(t, s)
			spoilt := time.Now()
			if test.lost {
				select {
				case <-victim.Context().Done():
				case <-time.After(30 * time.Second):
					t.Fatal("the lease on the bad key is not lost")
				}
			}
			for _, l := range append(others, victim) {
				if test.lost && l == victim {
					continue
				}
				locktest.Eventually(t, 30*time.Second, "a renewal", func() bool {
					if err := context.Cause(l.Context()); err != nil {
						t.Fatalf("%s: %v", l.Name(), err)
					}
					return l.Deadline().After(spoilt.Add(8 * time.Second)) // sent after it was spoilt
				})
			}
		})
	}
}

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A kind is a kind of lock that both sides have.
type kind struct {
	name   string
	since  interop.Release // the earliest release that has it
	java   func(tb testing.TB, r *redisson, name string) object
	golang func(c *holdfast.Client, name string) holdfast.Locker
}

func getter(method string) func(testing.TB, *redisson, string) object {
	return func(tb testing.TB, r *redisson, name string) object { return r.get(tb, method, name) }
}

func side(method string) func(testing.TB, *redisson, string) object {
	return func(tb testing.TB, r *redisson, name string) object {
		return r.get(tb, "getReadWriteLock", name).keep(tb, method)
	}
}

var kinds = []kind{
	{"mutex", interop.Era, getter("getLock"), func(c *holdfast.Client, n string) holdfast.Locker { return c.Mutex(n) }},
	{"fair", interop.Era, getter("getFairLock"), func(c *holdfast.Client, n string) holdfast.Locker { return c.FairMutex(n) }},
	{"write", interop.Era, side("writeLock"), func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) }},
	{"read", interop.Era, side("readLock"), func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n).RLocker() }},
	{"fenced", interop.Current, getter("getFencedLock"), func(c *holdfast.Client, n string) holdfast.Locker { return c.FencedMutex(n) }},
	{"spin", interop.Current, getter("getSpinLock"), func(c *holdfast.Client, n string) holdfast.Locker {
		return c.Mutex(n, holdfast.Poll(holdfast.Backoff{}))
	}},
	{"non-reentrant", interop.Current, getter("getNonReentrantLock"), func(c *holdfast.Client, n string) holdfast.Locker {
		return c.Mutex(n, holdfast.NonReentrant())
	}},
	{"multi", interop.Era, func(tb testing.TB, r *redisson, n string) object {
		return r.get(tb, "getMultiLock", []any{r.get(tb, "getLock", n+":1"), r.get(tb, "getFairLock", n+":2")})
	}, func(c *holdfast.Client, n string) holdfast.Locker {
		return holdfast.MultiLocker(c.Mutex(n+":1"), c.FairMutex(n+":2"))
	}},
}

// kindOf returns the kind with a name.
func kindOf(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

// exclusive runs a test for each kind that has one owner at a time.
func exclusive(t *testing.T, release interop.Release, f func(t *testing.T, k kind)) {
	for _, k := range kinds {
		if k.name != "read" && (release == interop.Current || k.since == interop.Era) {
			t.Run(k.name, func(t *testing.T) { t.Parallel(); f(t, k) })
		}
	}
}

// releases runs a test with each release of Redisson.
func releases(t *testing.T, f func(t *testing.T, release interop.Release)) {
	for _, r := range []interop.Release{interop.Current, interop.Era} {
		t.Run(string(r), func(t *testing.T) { f(t, r) })
	}
}

// A party is an owner of a lock on one of the sides: a thread or a context.
type party interface {
	// Lock acquires the lock and returns the time, in nanoseconds of redistest.Now. A
	// lease of 0 is renewed.
	Lock(tb testing.TB, lease time.Duration) (entered int64)
	// TryLock waits for the lock for at most the given time.
	TryLock(tb testing.TB, wait, lease time.Duration) bool
	// Unlock releases the lock and returns the time at which it began.
	Unlock(tb testing.TB) (left int64)
	// Owner returns the owner id of the party while it holds the lock.
	Owner(tb testing.TB) string
}

// javaParty is a thread.
type javaParty struct {
	client *redisson
	lock   object
	thread string
}

func newJava(tb testing.TB, r *redisson, k kind, name, thread string) party {
	return &javaParty{r, k.java(tb, r, name), thread}
}

func (p *javaParty) Lock(tb testing.TB, lease time.Duration) int64 {
	tb.Helper()
	if lease == 0 {
		return p.lock.do(tb, p.thread, "lock").Ended()
	}
	return p.lock.do(tb, p.thread, "lock", lease.Milliseconds(), "MILLISECONDS").Ended()
}

func (p *javaParty) TryLock(tb testing.TB, wait, lease time.Duration) bool {
	tb.Helper()
	if lease == 0 {
		lease = -time.Millisecond // Redisson's value for a renewed lease
	}
	return p.lock.do(tb, p.thread, "tryLock", wait.Milliseconds(), lease.Milliseconds(), "MILLISECONDS").Bool()
}

func (p *javaParty) Unlock(tb testing.TB) int64 {
	tb.Helper()
	return p.lock.do(tb, p.thread, "unlock").Began()
}

func (p *javaParty) Owner(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprint(p.client.ID, ":", p.client.Do(p.thread, "getId").Owner)
}

// goParty is a chain of contexts.
type goParty struct {
	client *holdfast.Client
	lock   holdfast.Locker
	leases []*holdfast.Lease
}

func newGo(c *holdfast.Client, k kind, name string) party {
	return &goParty{client: c, lock: k.golang(c, name)}
}

func (p *goParty) context() context.Context {
	if len(p.leases) > 0 {
		return p.leases[len(p.leases)-1].Context()
	}
	return context.Background()
}

func options(lease time.Duration) []holdfast.LockOption {
	if lease == 0 {
		return nil
	}
	return []holdfast.LockOption{holdfast.LeaseTime(lease)}
}

func (p *goParty) Lock(tb testing.TB, lease time.Duration) int64 {
	tb.Helper()
	l, err := p.lock.Lock(p.context(), options(lease)...)
	entered := redistest.Now()
	if err != nil {
		tb.Fatal(err)
	}
	p.leases = append(p.leases, l)
	return entered
}

func (p *goParty) TryLock(tb testing.TB, wait, lease time.Duration) bool {
	tb.Helper()
	l, err := p.lock.TryLock(p.context(), append(options(lease), holdfast.Wait(wait))...)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false
	}
	if 0 < wait && wait < time.Second && errors.Is(err, holdfast.ErrUnavailable) {
		return false // a busy server may not answer in such a short time
	}
	if err != nil {
		tb.Fatal(err)
	}
	p.leases = append(p.leases, l)
	return true
}

func (p *goParty) Unlock(tb testing.TB) int64 {
	tb.Helper()
	l := p.leases[len(p.leases)-1]
	p.leases = p.leases[:len(p.leases)-1]
	left := redistest.Now()
	if err := l.Release(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return left
}

func (p *goParty) Owner(testing.TB) string { return p.leases[len(p.leases)-1].Owner() }

// A fixture is a server with a client of each side.
type fixture struct {
	server *redistest.Server
	java   *redisson
	golang *holdfast.Client
}

// newFixture returns a fixture on the shared server.
func newFixture(tb testing.TB, release interop.Release) *fixture {
	tb.Helper()
	s := redistest.One(tb)
	return &fixture{s, join(tb, peer(tb, release), interop.Single(s.Addr())), open(tb, s.URL())}
}

// bothWays runs a test with Java first and with Go first.
func (r *fixture) bothWays(t *testing.T, k kind, f func(t *testing.T, name string, first, second party)) {
	t.Run("Java first", func(t *testing.T) {
		n := name(t)
		f(t, n, newJava(t, r.java, k, n, n), newGo(r.golang, k, n))
	})
	t.Run("Go first", func(t *testing.T) {
		n := name(t)
		f(t, n, newGo(r.golang, k, n), newJava(t, r.java, k, n, n))
	})
}

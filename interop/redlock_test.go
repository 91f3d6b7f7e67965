package interop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A votes is three independent servers with clients of both sides.
type votes struct {
	servers []*redistest.Server
	sites   []site
	locks   *holdfast.Redlock
}

// longest is the longest lease. A restarted server does not vote for this long.
const longest = 6 * time.Second

func newVotes(t *testing.T, release interop.Release) *votes {
	t.Helper()
	var v votes
	var clients []*holdfast.Client
	for range 3 {
		s := redistest.Start(t)
		java := interop.Single(s.Addr()).With("lockWatchdogTimeout", longest.Milliseconds()).
			With("singleServerConfig.timeout", 5000).With("singleServerConfig.retryAttempts", 0) // otherwise a dead server would take a minute
		here := site{join(t, peer(t, release), java), open(t, s.URL(), holdfast.Options{WatchdogTimeout: longest})}
		v.servers, v.sites, clients = append(v.servers, s), append(v.sites, here), append(clients, here.golang)
	}
	var err error
	if v.locks, err = holdfast.NewRedlock(clients, holdfast.RedlockOptions{NodeTimeout: longest / 2}); err != nil {
		t.Fatal(err)
	}
	for _, s := range v.servers {
		locktest.AwaitVoter(t, s, longest)
	}
	return &v
}

// kind returns the lock that needs a majority of the servers.
func (v *votes) kind() kind {
	return kind{name: "redlock", java: func(tb testing.TB, _ *redisson, n string) object {
		var locks []any
		for _, s := range v.sites {
			locks = append(locks, s.java.get(tb, "getLock", n))
		}
		return v.sites[0].java.get(tb, "getRedLock", locks)
	}, golang: func(_ *holdfast.Client, n string) holdfast.Locker { return v.locks.Mutex(n) }}
}

// fixture returns a fixture for bothWays.
func (v *votes) fixture() *fixture {
	return &fixture{v.servers[0], v.sites[0].java, v.sites[0].golang}
}

// Both sides need a majority of the servers for a name and use the same key on them. A holder
// of one side excludes the other side, also while a server is down.
func TestRedlock(t *testing.T) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		v := newVotes(t, release)
		meet := func(t *testing.T, n string, first, second party) {
			inTurn(t, first, second, v.waits, 20*time.Second)
			for _, s := range v.servers {
				locktest.Eventually(t, 10*time.Second, "nothing is left", func() bool { return !s.Running() || len(left(t, s, n)) == 0 })
			}
		}
		t.Run("minority", v.minority)
		t.Run("all up", func(t *testing.T) { v.fixture().bothWays(t, v.kind(), meet) })
		t.Run("all up, many", func(t *testing.T) { v.compete(t, 20) })
		v.servers[2].Kill()
		t.Run("one down", func(t *testing.T) { v.fixture().bothWays(t, v.kind(), meet) })
		t.Run("one down, many", func(t *testing.T) { v.compete(t, 5) })
	})
}

// waits returns a function that reports whether the next call of a party waits. A goroutine
// then listens to the first server, to which nothing else listens.
func (v *votes) waits(tb testing.TB, p party) func() bool {
	tb.Helper()
	if _, ok := p.(*javaParty); ok {
		return partyWaits(tb, p)
	}
	r, n := v.fixture(), p.(*goParty).lock.Name()
	locktest.Eventually(tb, 30*time.Second, "the last subscription has ended", func() bool { return r.listeners(tb, n) == 0 })
	return func() bool { return r.listeners(tb, n) > 0 }
}

func (v *votes) compete(t *testing.T, rounds int) {
	n := name(t)
	compete(t, rounds, func() object { return v.kind().java(t, nil, n) }, func() holdfast.Locker { return v.kind().golang(nil, n) })
}

// minority checks that a key on one server does not exclude a party, and that keys on two
// servers exclude all parties.
func (v *votes) minority(t *testing.T) {
	n := name(t)
	parties := []party{newJava(t, nil, v.kind(), n, n), newGo(nil, v.kind(), n)}
	for i, s := range v.sites[:2] {
		plain := newJava(t, s.java, kindOf("mutex"), n, n+"plain")
		plain.Lock(t, 0)
		defer plain.Unlock(t)
		wait := []time.Duration{5 * time.Second, time.Second}[i] // the first attempt succeeds
		for _, p := range parties {
			if got := p.TryLock(t, wait, 0); got != (i == 0) {
				t.Errorf("%T got the lock: %v, while it is held on %d of 3", p, got, i+1)
			} else if got {
				p.Unlock(t)
			}
		}
	}
}

// Redisson counts the vote of a restarted server that has lost the lock. Holdfast does not.
func TestRedlockForgotten(t *testing.T) {
	t.Parallel()
	v := newVotes(t, interop.Current)
	n := name(t)
	holder := newJava(t, nil, v.kind(), n, n)
	holder.Lock(t, 0)
	for _, s := range v.servers[:2] {
		s.Restart()
	}
	_, err := v.locks.Mutex(n).TryLock(t.Context(), holdfast.Wait(time.Second))
	if !errors.Is(err, holdfast.ErrNotAcquired) && !errors.Is(err, holdfast.ErrUnavailable) {
		t.Errorf("with one vote that counts: %v", err)
	}
	if !newJava(t, nil, v.kind(), n, n+"other").TryLock(t, 15*time.Second, 0) {
		t.Error("Redisson did not grant the lock to another thread")
	}
}

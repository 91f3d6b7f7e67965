package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// partName returns the name of the i-th part of a multi lock.
func partName(n string, i int) string { return fmt.Sprint(n, ":", i) }

// A mixture lists the kinds of the parts of a multi lock in order.
type mixture []string

var mixtures = []mixture{
	{"mutex", "mutex"},
	{"mutex", "fair"},
	{"fair", "write"},
	{"read", "mutex"},
	{"fenced", "mutex", "fair"},
}

// kind returns the multi lock as a kind of lock.
func (m mixture) kind() kind {
	return kind{name: strings.Join(m, "+"), since: interop.Era, java: func(tb testing.TB, r *redisson, n string) object {
		var parts []any
		for i, part := range m {
			parts = append(parts, kindOf(part).java(tb, r, partName(n, i)))
		}
		return r.get(tb, "getMultiLock", parts)
	}, golang: func(c *holdfast.Client, n string) holdfast.Locker {
		var parts []holdfast.Locker
		for i, part := range m {
			parts = append(parts, kindOf(part).golang(c, partName(n, i)))
		}
		return holdfast.MultiLocker(parts...)
	}}
}

// rival returns the kind of lock that excludes the i-th part.
func (m mixture) rival(i int) kind {
	if m[i] == "read" {
		return kindOf("write")
	}
	return kindOf(m[i])
}

// everyMixture runs a test with each mixture that both sides have.
func everyMixture(t *testing.T, f func(t *testing.T, r *fixture, m mixture)) {
	releases(t, func(t *testing.T, release interop.Release) {
		for _, m := range mixtures {
			if release == interop.Era && slices.Contains(m, "fenced") {
				continue
			}
			t.Run(m.kind().name, func(t *testing.T) {
				t.Parallel()
				f(t, newFixture(t, release), m)
			})
		}
	})
}

// left returns the keys that contain a name, except the counter of fencing tokens, which
// remains, and keys that Redisson is about to delete.
func left(tb testing.TB, s *redistest.Server, name string) []string {
	tb.Helper()
	keys := s.Strings(tb, "KEYS", "*"+name+"*")
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool {
		return strings.HasPrefix(key, "redisson_lock_token:") || strings.HasPrefix(key, "redisson_unlock_latch:")
	})
}

// enters waits for a lock in the background.
func enters(tb testing.TB, p party) <-chan int64 {
	ch := make(chan int64, 1)
	go func() { ch <- p.Lock(tb, 0) }()
	return ch
}

// soon waits for an entry that must happen soon.
func soon(tb testing.TB, limit time.Duration, ch <-chan int64) int64 {
	tb.Helper()
	select {
	case at := <-ch:
		return at
	case <-time.After(limit):
		tb.Fatalf("no entry within %v", limit)
		panic("unreachable")
	}
}

// inTurn checks that the first party excludes the second, whether that waits or not, and
// that the second enters soon after the first has left. The function waits returns another,
// which reports whether the next call of a party waits.
func inTurn(t *testing.T, first, second party, waits func(tb testing.TB, p party) func() bool, limit time.Duration) {
	t.Helper()
	first.Lock(t, 0)
	for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
		if second.TryLock(t, wait, 0) {
			t.Fatalf("both are inside after waiting %v", wait)
		}
	}
	asleep := waits(t, second)
	ch := enters(t, second)
	awaitWaiting(t, asleep, ch)
	first.Unlock(t)
	soon(t, limit, ch)
	second.Unlock(t)
}

// A multi lock of one side excludes that of the other side. Its release wakes the other
// side. No keys remain at the end.
func TestMulti(t *testing.T) {
	everyMixture(t, func(t *testing.T, r *fixture, m mixture) {
		r.bothWays(t, m.kind(), func(t *testing.T, n string, first, second party) {
			inTurn(t, first, second, partyWaits, 8*time.Second)
			locktest.Eventually(t, 5*time.Second, "nothing is left", func() bool { return len(left(t, r.server, n)) == 0 })
		})
	})
}

// If the other side holds one part, a multi lock is not acquired and holds none of the other
// parts. A held multi lock excludes each part.
func TestMultiAllOrNothing(t *testing.T) {
	everyMixture(t, func(t *testing.T, r *fixture, m mixture) {
		for i := range m {
			for _, multi := range []string{"Java", "Go"} {
				t.Run(fmt.Sprint(multi, " without part ", i), func(t *testing.T) {
					n := name(t)
					all, part := newJava(t, r.java, m.kind(), n, n), newGo(r.golang, m.rival(i), partName(n, i))
					if multi == "Go" {
						all, part = newGo(r.golang, m.kind(), n), newJava(t, r.java, m.rival(i), partName(n, i), n)
					}
					part.Lock(t, 0)
					before := left(t, r.server, n)
					for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
						if all.TryLock(t, wait, 0) {
							t.Fatalf("acquired a held part after waiting %v", wait)
						}
						locktest.Eventually(t, 5*time.Second, "nothing is left of the attempt", func() bool {
							return slices.Equal(left(t, r.server, n), before)
						})
					}
					waits := partyWaits(t, all)
					ch := enters(t, all)
					awaitWaiting(t, waits, ch)
					part.Unlock(t)
					soon(t, 8*time.Second, ch)
					if part.TryLock(t, 0, 0) {
						t.Error("acquired a part of the held multi lock")
					}
					all.Unlock(t)
					// A queue entry of an attempt may be removed a moment later.
					locktest.Eventually(t, 5*time.Second, "the part is free afterwards", func() bool { return part.TryLock(t, 0, 0) })
					part.Unlock(t)
				})
			}
		}
	})
}

// A lease time applies to all parts. The other side enters when it is over.
func TestMultiLease(t *testing.T) {
	const lease = 5 * time.Second
	m := mixture{"mutex", "fair", "read", "write"}
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		r := newFixture(t, release)
		r.bothWays(t, m.kind(), func(t *testing.T, n string, first, second party) {
			t.Parallel()
			began := redistest.Now() // the lease may begin before the answer
			first.Lock(t, lease)
			for i := range m {
				if ttl := r.server.Int(t, "PTTL", partName(n, i)); ttl <= 0 || ttl > lease.Milliseconds() {
					t.Errorf("part %d has %d ms left of %v", i, ttl, lease)
				}
			}
			after := time.Duration(soon(t, lease+20*time.Second, enters(t, second)) - began)
			if after < lease-time.Second {
				t.Errorf("the other side entered after %v of a lease of %v", after, lease)
			}
			second.Unlock(t)
		})
	})
}

// With a lease time, Redisson also sets the TTL of the counter of a fenced part, so that the
// tokens restart when it is over (B11). Holdfast does not change the counter.
func TestMultiLeaseOnCounter(t *testing.T) {
	t.Parallel()
	r := newFixture(t, interop.Current)
	m := mixture{"fenced", "mutex"}
	counter := func(n string) string { return "redisson_lock_token:{" + partName(n, 0) + "}" }
	for what, c := range map[string]struct {
		side   func(n string) party
		expire bool
	}{
		"Java": {func(n string) party { return newJava(t, r.java, m.kind(), n, n) }, true},
		"Go":   {func(n string) party { return newGo(r.golang, m.kind(), n) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			n := name(t)
			p := c.side(n)
			p.Lock(t, 20*time.Second)
			if ttl := r.server.Int(t, "PTTL", counter(n)); (ttl > 0) != c.expire {
				t.Errorf("the TTL of the counter is %d ms", ttl)
			}
			p.Unlock(t)
		})
	}
}

// Each side renews all parts of its multi lock.
func TestMultiRenewed(t *testing.T) {
	m := mixture{"mutex", "fair", "read", "write"}
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		s := redistest.One(t)
		r := &fixture{
			s,
			join(t, peer(t, release), interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdog.Milliseconds())),
			open(t, s.URL(), holdfast.Options{WatchdogTimeout: watchdog}),
		}
		r.bothWays(t, m.kind(), func(t *testing.T, n string, first, second party) {
			t.Parallel()
			first.Lock(t, 0)
			var keys []string
			for i := range m {
				keys = append(keys, partName(n, i))
			}
			awaitLeases(t, r.server, keys...)
			for i := range m {
				if r.server.Int(t, "PTTL", partName(n, i)) <= 0 {
					t.Errorf("part %d was not renewed", i)
				}
			}
			if second.TryLock(t, 0, 0) {
				t.Error("both are inside")
			}
			first.Unlock(t)
		})
	})
}

// The locks that a killed Redisson process held or waited for are free when its leases are
// over.
func TestMultiKilled(t *testing.T) {
	t.Parallel()
	s := redistest.One(t)
	p := ownPeer(t, interop.Current)
	java := join(t, p, interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdog.Milliseconds()))
	golang := open(t, s.URL())
	names := make(map[string]mixture)
	for _, m := range mixtures[:3] {
		n := name(t)
		names[n] = m
		newJava(t, java, m.kind(), n, n).Lock(t, 0)
		waits := threadWaits(t, p, n+"waiter", inQueue)
		awaitWaiting(t, waits, m.kind().java(t, java, n).Go(n+"waiter", "lock"))
	}
	p.Kill()
	for n, m := range names {
		g := newGo(golang, m.kind(), n)
		soon(t, 30*time.Second, enters(t, g))
		g.Unlock(t)
		locktest.Eventually(t, 20*time.Second, "nothing is left", func() bool { return len(left(t, s, n)) == 0 })
	}
}

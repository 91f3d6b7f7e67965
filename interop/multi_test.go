package interop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// kindNamed returns one of kinds.
// partName is the name of the i-th part of a multi lock.
func partName(n string, i int) string { return fmt.Sprint(n, ":", i) }

// A mixture is the kinds of the parts of a multi lock, in order.
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
		return holdfast.Multi(parts...)
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
func everyMixture(t *testing.T, f func(t *testing.T, r *room, m mixture)) {
	releases(t, func(t *testing.T, release interop.Release) {
		for _, m := range mixtures {
			if release == interop.Era && slices.Contains(m, "fenced") {
				continue
			}
			t.Run(m.kind().name, func(t *testing.T) {
				t.Parallel()
				f(t, newRoom(t, release), m)
			})
		}
	})
}

// left are the keys that have to do with a name, but for the counter of fencing
// tokens, which stays, and what Redisson is about to delete.
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

// soon waits for an entry that is due.
func soon(tb testing.TB, limit time.Duration, ch <-chan int64) int64 {
	tb.Helper()
	select {
	case at := <-ch:
		return at
	case <-time.After(limit):
		tb.Fatalf("not let in within %v", limit)
		panic("unreachable")
	}
}

// inTurn sees that the second is kept out by the first, whether it waits or
// not, and let in soon after that has left.
func inTurn(t *testing.T, first, second party, limit time.Duration) {
	t.Helper()
	first.Lock(t, 0)
	for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
		if second.TryLock(t, wait, 0) {
			t.Fatalf("both are inside after waiting %v", wait)
		}
	}
	ch := enters(t, second)
	time.Sleep(100 * time.Millisecond) // it waits by now, most likely
	first.Unlock(t)
	soon(t, limit, ch)
	second.Unlock(t)
}

// A multi lock of either side keeps the other's out, which is let in by its
// release, and nothing is left in the end.
func TestMulti(t *testing.T) {
	everyMixture(t, func(t *testing.T, r *room, m mixture) {
		r.bothWays(t, m.kind(), func(t *testing.T, n string, first, second party) {
			inTurn(t, first, second, 8*time.Second)
			eventually(t, 5*time.Second, "nothing is left", func() bool { return len(left(t, r.server, n)) == 0 })
		})
	})
}

// One part that the other side holds by itself keeps a multi lock out, which
// then has none of the others; and is itself kept out by a multi lock.
func TestMultiAllOrNothing(t *testing.T) {
	everyMixture(t, func(t *testing.T, r *room, m mixture) {
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
							t.Fatalf("has what is held after waiting %v", wait)
						}
						eventually(t, 5*time.Second, "nothing is left of the attempt", func() bool {
							return slices.Equal(left(t, r.server, n), before)
						})
					}
					ch := enters(t, all)
					time.Sleep(100 * time.Millisecond) // it waits by now, most likely
					part.Unlock(t)
					soon(t, 8*time.Second, ch)
					if part.TryLock(t, 0, 0) {
						t.Error("has what the multi lock holds")
					}
					all.Unlock(t)
					// What an attempt of it has left in a queue may be taken back a moment later.
					eventually(t, 5*time.Second, "the part is free afterwards", func() bool { return part.TryLock(t, 0, 0) })
					part.Unlock(t)
				})
			}
		}
	})
}

// A lease time counts for all parts, and the other side is let in when it is
// over.
func TestMultiLease(t *testing.T) {
	const lease = 5 * time.Second
	m := mixture{"mutex", "fair", "read", "write"}
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		r := newRoom(t, release)
		r.bothWays(t, m.kind(), func(t *testing.T, n string, first, second party) {
			t.Parallel()
			began := redistest.Now() // the lease may be older than the answer
			first.Lock(t, lease)
			for i := range m {
				if ttl := r.server.Int(t, "PTTL", partName(n, i)); ttl <= 0 || ttl > lease.Milliseconds() {
					t.Errorf("part %d has %d ms left of %v", i, ttl, lease)
				}
			}
			after := time.Duration(soon(t, lease+20*time.Second, enters(t, second)) - began)
			if after < lease-time.Second {
				t.Errorf("the other side was let in after %v of a lease of %v", after, lease)
			}
			second.Unlock(t)
		})
	})
}

// With a lease time, Redisson sets the TTL of a fenced part's counter as well, so
// that the tokens begin anew when it is over (B11). Ours leaves the counter alone.
func TestMultiLeaseOnCounter(t *testing.T) {
	t.Parallel()
	r := newRoom(t, interop.Current)
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

// A multi lock is renewed by either side, all parts of it.
func TestMultiRenewed(t *testing.T) {
	m := mixture{"mutex", "fair", "read", "write"}
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		s := redistest.One(t)
		r := &room{
			s,
			join(t, peer(t, release), interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdog.Milliseconds())),
			open(t, s.URL(), holdfast.Options{WatchdogTimeout: watchdog}),
		}
		r.bothWays(t, m.kind(), func(t *testing.T, n string, first, second party) {
			t.Parallel()
			first.Lock(t, 0)
			time.Sleep(watchdog + time.Second)
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

// What a killed process of Redisson has held, and what it has waited for, ends
// with its leases.
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
		m.kind().java(t, java, n).Go(n+"waiter", "lock")
	}
	time.Sleep(time.Second) // until all wait, most likely
	p.Kill()
	for n, m := range names {
		g := newGo(golang, m.kind(), n)
		soon(t, 30*time.Second, enters(t, g))
		g.Unlock(t)
		eventually(t, 20*time.Second, "nothing is left", func() bool { return len(left(t, s, n)) == 0 })
	}
}

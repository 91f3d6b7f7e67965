package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A lease has the same duration on both sides. The sides handle nested leases differently,
// but neither side affects the other.
func TestLeaseTimes(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newFixture(t, release)
		r.bothWays(t, k, func(t *testing.T, name string, p, _ party) {
			wantTTL := func(what string, want time.Duration) {
				t.Helper()
				if got := r.ttl(t, name); got > want || got < want-slack {
					t.Errorf("%s: it lasts %v, want %v", what, got, want)
				}
			}
			const watchdog, short, long = 30 * time.Second, 20 * time.Second, 40 * time.Second
			p.Lock(t, 0)
			wantTTL("renewed", watchdog)
			p.Unlock(t)
			p.Lock(t, long)
			wantTTL("fixed", long)
			defer p.Unlock(t)
			if k.name == "non-reentrant" {
				return
			}
			again, left := long, 10*time.Second
			if _, java := p.(*javaParty); java {
				again, left = short, short // the last lease applies, now and later
				if k.name == "write" {
					again = long + short
				}
			}
			p.Lock(t, short)
			wantTTL("entered again", again)
			r.server.Do(t, "PEXPIRE", name, "10000")
			p.Unlock(t)
			wantTTL("left once", left)
		})
	})
}

const watchdog = 6 * time.Second // long enough for a busy machine to renew in

// awaitLeases waits until the leases that keys have now are over. A key that is not renewed is
// then gone.
func awaitLeases(tb testing.TB, s *redistest.Server, keys ...string) {
	tb.Helper()
	var last int64
	for _, key := range keys {
		last = max(last, locktest.Expiry(tb, s, key))
	}
	locktest.Eventually(tb, time.Minute, "the leases are over", func() bool { return locktest.ServerTime(tb, s) > last })
}

// While one side renews a lock, the other waits for it.
func TestRenewed(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		r := newFixtureWith(t, release, holdfast.Options{WatchdogTimeout: watchdog})
		ms := r.meetings(t, owned(release))
		owners, names := make([]string, len(ms)), make([]string, len(ms))
		entered := make([]<-chan visit, len(ms))
		for i, m := range ms {
			m.first.Lock(t, 0)
			owners[i], names[i] = m.first.Owner(t), m.name
			entered[i] = r.visits(t, m.kind, m.name, m.second)
		}
		for range 2 {
			awaitLeases(t, r.server, names...)
		}
		for i, m := range ms {
			r.wantHolder(t, m.name, owners[i], 1)
			if ttl := r.ttl(t, m.name); ttl > watchdog {
				t.Errorf("%s: it lasts %v, longer than the watchdog time", m.title, ttl)
			}
			select {
			case <-entered[i]:
				t.Fatalf("%s: the second has entered", m.title)
			default:
			}
			next(t, m.name, entered[i], m.first.Unlock(t)).Unlock(t)
		}
	})
}

// A lock that is not renewed expires without a message, and the other side enters at once. A
// late unlock gets an error and changes nothing.
func TestFixedLeases(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		// A renewed lock would be renewed before this lease ends. A waiter that does not know
		// the end of the lease would check too late for this test.
		r := newFixtureWith(t, release, holdfast.Options{WatchdogTimeout: watchdog, PollInterval: time.Minute})
		except := []string(nil)
		if release == interop.Era {
			except = append(except, "fair") // its threads may sleep forever without a message
		}
		ms := r.meetings(t, owned(release, except...))
		began := make([]int64, len(ms))
		entered := make([]<-chan visit, len(ms))
		for i, m := range ms {
			m.first.Lock(t, 0) // so that it has renewed a lock before
			m.first.Unlock(t)
			began[i] = redistest.Now()
			m.first.Lock(t, watchdog)
			entered[i] = r.visits(t, m.kind, m.name, m.second)
		}
		for i, m := range ms {
			next(t, m.name, entered[i], began[i]+int64(watchdog))
			lateUnlock(t, m.first)
			r.wantHolder(t, m.name, m.second.Owner(t), 1)
			m.second.Unlock(t)
		}
	})
}

// lateUnlock unlocks a lock that has expired.
func lateUnlock(t *testing.T, p party) {
	t.Helper()
	switch p := p.(type) {
	case *javaParty:
		wantMonitorError(t, p.lock.Do(p.thread, "unlock"))
	case *goParty:
		if err := p.leases[0].Release(context.Background()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("releasing %s: %v, want ErrLost", p.lock.Name(), err)
		}
	}
}

package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A lease lasts as long at either side. Where the two differ, in what happens
// to it inside of another, neither harms the other.
func TestLeaseTimes(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newRoom(t, release)
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
				again, left = short, short // the last lease, now and again
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

// What one side renews, the other waits for, however long that takes.
func TestRenewed(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		r := newRoomWith(t, release, holdfast.Options{WatchdogTimeout: watchdog})
		ms := r.meetings(t, owned(release))
		owners := make([]string, len(ms))
		entered := make([]<-chan visit, len(ms))
		for i, m := range ms {
			m.first.Lock(t, 0)
			owners[i] = m.first.Owner(t)
			entered[i] = r.visits(t, m.kind, m.name, m.second)
		}
		time.Sleep(2*watchdog + watchdog/6)
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

// What nobody renews ends, no message tells of it, and the other side is in
// at once. Whoever comes late to unlock it is told, and changes nothing.
func TestFixedLeases(t *testing.T) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		// One that was renewed would be before it ends. A waiter that did not know
		// the end would not look before the test has failed.
		r := newRoomWith(t, release, holdfast.Options{WatchdogTimeout: watchdog, PollInterval: time.Minute})
		except := []string(nil)
		if release == interop.Era {
			except = append(except, "fair") // a thread of it may sleep for ever where nobody calls it
		}
		ms := r.meetings(t, owned(release, except...))
		began := make([]int64, len(ms))
		entered := make([]<-chan visit, len(ms))
		for i, m := range ms {
			m.first.Lock(t, 0) // so that it has renewed one before, and knows
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

// lateUnlock is what a party does that does not know that it was too slow.
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

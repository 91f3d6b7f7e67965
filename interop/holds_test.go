package interop_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/interop"
)

// A view is the state of a lock as one side reports it to one of its owners.
type view struct {
	locked bool
	mine   int // hold count of the owner that asks
	ttl    time.Duration
}

type viewer interface{ view(tb testing.TB) view }

func (p *javaParty) view(tb testing.TB) view {
	tb.Helper()
	ask := func(method string) interop.Answer { return p.lock.do(tb, p.thread, method) }
	v := view{ask("isLocked").Bool(), int(ask("getHoldCount").Int()), time.Duration(ask("remainTimeToLive").Int()) * time.Millisecond}
	if held := ask("isHeldByCurrentThread").Bool(); held != (v.mine > 0) {
		tb.Errorf("Redisson counts %d holds, and isHeldByCurrentThread is %v", v.mine, held)
	}
	return v
}

func (p *goParty) view(tb testing.TB) view {
	tb.Helper()
	ctx, lock := context.WithoutCancel(p.context()), p.lock.(visible)
	ttl, err := locktest.ObjectOf(lock).TTL(ctx)
	if errors.Is(err, holdfast.ErrNotFound) {
		ttl, err = -2*time.Millisecond, nil // the value of PTTL, which Redisson returns
	}
	return view{must[bool](tb)(lock.IsLocked(ctx)), must[int](tb)(lock.HoldCount(ctx)), must[time.Duration](tb)(ttl, err)}
}

// holder returns the owner of a lock according to Holdfast.
func holder(tb testing.TB, l holdfast.Locker) (owner string, holds int) {
	tb.Helper()
	ctx := context.Background()
	if rw, ok := l.(*holdfast.RWMutex); ok {
		s := must[holdfast.RWState](tb)(rw.State(ctx))
		return s.Writer.Owner, s.Writer.Holds
	}
	s := must[holdfast.State](tb)(l.(interface {
		State(context.Context) (holdfast.State, error)
	}).State(ctx))
	return s.Owner, s.Holds
}

// Each entry counts on the server, and both sides report the same count.
func TestHolds(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newFixture(t, release)
		r.bothWays(t, k, func(t *testing.T, name string, first, second party) {
			var owner string
			check := func(holds int) {
				t.Helper()
				r.wantHolder(t, name, owner, holds)
				for _, p := range []party{first, second} {
					want := view{locked: holds > 0}
					if p == first {
						want.mine = holds
					}
					left := r.ttl(t, name)
					got := p.(viewer).view(t)
					if r.ttl(t, name) > left { // it was renewed in the meantime
						left, got = r.ttl(t, name), p.(viewer).view(t)
					}
					if gap := left - got.ttl; gap < 0 || gap > slack {
						t.Errorf("%T reports a remaining time of %v, the server %v", p, got.ttl, left)
					}
					if got.ttl = 0; got != want {
						t.Errorf("%T reports %+v, want %+v", p, got, want)
					}
				}
				if holds == 0 {
					return
				}
				if o, n := holder(t, k.golang(r.golang, name)); o != owner || n != holds {
					t.Errorf("Holdfast reports owner %s with %d holds, want %s and %d", o, n, owner, holds)
				}
				_, number, _ := strings.Cut(owner, ":")
				_, javas := first.(*javaParty)
				if held := k.java(t, r.java, name).do(t, "", "isHeldByThread", thread(t, number)).Bool(); held != javas {
					t.Errorf("Redisson reports that its thread %s holds the lock: %v", number, held)
				}
				if second.TryLock(t, 0, 0) {
					t.Errorf("both hold the lock")
				}
			}
			first.Lock(t, 0)
			owner = first.Owner(t)
			check(1)
			first.Lock(t, 0)
			check(2)
			first.Unlock(t)
			check(1)
			first.Unlock(t)
			check(0)
			second.Lock(t, 0)
			r.wantHolder(t, name, second.Owner(t), 1)
			second.Unlock(t)
		})
	}, "non-reentrant")
}

// A thread that does not hold the lock cannot affect its holder, even if it uses the number
// of a lease as its thread number.
func TestStrangersUnlock(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r, n := newFixture(t, release), name(t)
		holder := newGo(r.golang, k, n).(*goParty)
		holds := 2
		if k.name == "non-reentrant" {
			holds = 1
		}
		for range holds {
			holder.Lock(t, 0)
		}
		owner := holder.Owner(t)
		_, number, _ := strings.Cut(owner, ":")
		lock := k.java(t, r.java, n)
		wantMonitorError(t, lock.Do("", "unlock"))
		wantMonitorError(t, lock.keep(t, "unlockAsync", thread(t, number)).Do("", "get"))
		r.wantHolder(t, n, owner, holds)
		lease := holder.leases[0]
		end, ttl := lease.Deadline(), r.ttl(t, n) // in this order, because it may be renewed in between
		if !lease.Valid() || ttl < time.Until(end) {
			t.Errorf("the lease is valid: %v, with %v left on the server", lease.Valid(), ttl)
		}
		for range holds {
			holder.Unlock(t)
		}
		r.wantHolder(t, n, owner, 0)
	})
}

// The holder of a lock that is not re-entrant cannot acquire it again, and still holds it
// after the attempt.
func TestNonReentrant(t *testing.T) {
	t.Parallel()
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == "non-reentrant" })]
	r := newFixture(t, interop.Current)
	r.bothWays(t, k, func(t *testing.T, name string, first, second party) {
		first.Lock(t, 0)
		owner := first.Owner(t)
		switch p := first.(type) {
		case *javaParty:
			wantMonitorError(t, p.lock.Do(p.thread, "lock"))
			wantMonitorError(t, p.lock.Do(p.thread, "tryLock"))
			wantMonitorError(t, p.lock.Do(p.thread, "tryLock", 1, "SECONDS"))
		case *goParty:
			for _, lock := range []func(context.Context, ...holdfast.LockOption) (*holdfast.Lease, error){p.lock.Lock, p.lock.TryLock} {
				if _, err := lock(p.context()); !errors.Is(err, holdfast.ErrReentrant) {
					t.Errorf("second acquisition: %v, want ErrReentrant", err)
				}
			}
		}
		r.wantHolder(t, name, owner, 1)
		if second.TryLock(t, 0, 0) {
			t.Error("both sides hold the lock")
		}
		entered := r.visits(t, k, name, second)
		next(t, name, entered, first.Unlock(t)).Unlock(t)
	})
}

var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+`)

// For any name of a lock, both sides use the same keys and channels.
func TestNames(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newFixture(t, release)
		more, kept := 1, 0 // number of keys and channels of a waiter, and of keys that remain
		switch k.name {
		case "spin":
			more = 0 // a spin lock polls and does not subscribe
		case "fair":
			more = 3 // its channel, the queue and its time limit
		case "fenced":
			kept = 1 // the counter
		}
		for title, n := range map[string]string{
			"braces":  "names:{" + k.name + string(release) + "}:c",
			"unicode": "имя 锁 🔒 é " + k.name + string(release),
			"spaces":  " a name  with spaces " + k.name + string(release),
		} {
			traces := func() (all []string) {
				for _, key := range append(r.server.Keys(t), r.server.Channels(t)...) {
					// The latter store Redisson's answers to unlock.
					if strings.Contains(key, n) && !strings.HasPrefix(key, "holdfast:") && !strings.HasPrefix(key, "redisson_unlock_latch:") {
						all = append(all, ids.ReplaceAllString(key, "OWNER"))
					}
				}
				return all
			}
			// busy returns the keys and channels while one party holds the lock and one waits.
			busy := func(holder, waiter, other party) (seen []string) {
				locktest.Eventually(t, 10*time.Second, "nothing is left", func() bool { return len(traces()) <= kept })
				holder.Lock(t, 0)
				if other.TryLock(t, 0, 0) {
					t.Error("both sides hold the lock")
				}
				held := traces()
				entered := r.visits(t, k, n, waiter)
				locktest.Eventually(t, 10*time.Second, "a party waits", func() bool { seen = traces(); return len(seen) >= len(held)+more })
				next(t, n, entered, holder.Unlock(t)).Unlock(t)
				return seen
			}
			t.Run(title, func(t *testing.T) {
				java := newJava(t, r.java, k, n, n)
				golang := newGo(r.golang, k, n)
				// The second party has another client, because goroutines of one client wait
				// inside the client.
				want := busy(java, newJava(t, r.java, k, n, n+"waiter"), golang)
				// With grants, a waiter listens on the channel of its client only.
				c := open(t, r.server.URL(), holdfast.Options{WakeAll: true})
				got := busy(golang, newGo(c, k, n), java)
				if !slices.Equal(got, want) {
					t.Errorf("keys and channels of Holdfast %q, of Redisson %q", got, want)
				}
				r.wantHolder(t, n, "", 0)
			})
		}
	})
}

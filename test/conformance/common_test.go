package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are the contract that all kinds of locks share, drawn
// from Redisson's own tests. The number in a test's name is its id.

// nearAndFar runs a test for a contender in the holder's client, where the two
// queue, and for one in another, where they meet at the server.
func nearAndFar(t *testing.T, holder *holdfast.Client, test func(t *testing.T, c *holdfast.Client)) {
	t.Helper()
	t.Run("same client", func(t *testing.T) { test(t, holder) })
	t.Run("other client", func(t *testing.T) { test(t, locktest.Open(t, redistest.Shared(t).URL())) })
}

// look asks the server for the owner of m and how often it holds it. Of several
// readers it returns one.
func look(tb testing.TB, m locktest.MutexLike) (owner string, holds int) {
	tb.Helper()
	var p holdfast.RWHolder
	var err error
	switch m := m.(type) {
	case interface {
		State(context.Context) (holdfast.State, error)
	}:
		var st holdfast.State
		st, err = m.State(context.Background())
		p.Owner, p.Holds = st.Owner, st.Holds
	case *holdfast.RWMutex:
		var st holdfast.RWState
		st, err = m.State(context.Background())
		p = st.Writer
	case interface {
		State(context.Context) (holdfast.RWState, error)
	}:
		var st holdfast.RWState
		if st, err = m.State(context.Background()); len(st.Readers) > 0 {
			p = st.Readers[0]
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return p.Owner, p.Holds
}

// isReader reports whether m is the lock of readers.
func isReader(m locktest.MutexLike) bool {
	_, rw := m.(interface {
		State(context.Context) (holdfast.RWState, error)
	})
	_, writer := m.(*holdfast.RWMutex)
	return rw && !writer
}

// expiry returns the moment at which a key expires, in milliseconds of the
// server's clock.
func expiry(tb testing.TB, s *redistest.Server, key string) int64 {
	tb.Helper()
	return locktest.Expiry(tb, s, key)
}

func TestCM01TakeAndGiveBack(t *testing.T) {
	locktest.Each(t, "PFSR", func(t *testing.T, k locktest.Kind) {
		s := redistest.Shared(t)
		m := k.Make(locktest.Open(t, s.URL()), locktest.Name(t))
		for range 2 {
			l := locktest.Lock(t, t.Context(), m)
			if !l.Valid() || s.Int(t, "EXISTS", m.Name()) != 1 {
				t.Error("not held after Lock")
			}
			locktest.Release(t, l)
			if l.Valid() || s.Int(t, "EXISTS", m.Name()) != 0 {
				t.Error("held after Release")
			}
		}
	})
}

func TestCM02IsLocked(t *testing.T) {
	locktest.Each(t, "PFSGR", func(t *testing.T, k locktest.Kind) {
		m := k.Make(locktest.Open(t, redistest.Shared(t).URL()), locktest.Name(t))
		if locktest.Locked(t, m) {
			t.Error("locked before Lock")
		}
		l := locktest.Lock(t, t.Context(), m)
		if !locktest.Locked(t, m) {
			t.Error("not locked while held")
		}
		locktest.Release(t, l)
		if locktest.Locked(t, m) {
			t.Error("locked after Release")
		}
	})
}

func TestCM03IsLockedAskedByOthers(t *testing.T) {
	locktest.Each(t, "PFSGR", func(t *testing.T, k locktest.Kind) {
		url := redistest.Shared(t).URL()
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		others := []locktest.MutexLike{m, k.Make(locktest.Open(t, url), m.Name())}
		ask := func(want bool) {
			locktest.Parallel(len(others), func(i int) {
				if is, err := others[i].IsLocked(t.Context()); is != want || err != nil {
					t.Errorf("IsLocked asked by other %d: %v, %v, want %v", i, is, err, want)
				}
			})
		}
		l := locktest.Lock(t, t.Context(), m)
		ask(true)
		locktest.Release(t, l)
		ask(false)
	})
}

func TestCM04HeldByMe(t *testing.T) {
	locktest.Each(t, "PFSGR", func(t *testing.T, k locktest.Kind) {
		m := k.Make(locktest.Open(t, redistest.Shared(t).URL()), locktest.Name(t))
		if locktest.HoldCount(t, t.Context(), m) != 0 {
			t.Error("held before Lock")
		}
		l := locktest.Lock(t, t.Context(), m)
		if locktest.HoldCount(t, l.Context(), m) == 0 || !l.Valid() {
			t.Error("not held between Lock and Release")
		}
		locktest.Release(t, l)
		if locktest.HoldCount(t, l.Context(), m) != 0 || l.Valid() {
			t.Error("held after Release")
		}
	})
}

func TestCM05HeldByMeAskedByOthers(t *testing.T) {
	locktest.Each(t, "PFSGR", func(t *testing.T, k locktest.Kind) {
		url := redistest.Shared(t).URL()
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		other := k.Make(locktest.Open(t, url), m.Name())
		l := locktest.Lock(t, t.Context(), m)
		check := func(when string) {
			t.Helper()
			if locktest.HoldCount(t, t.Context(), m) != 0 || locktest.HoldCount(t, holdfast.Detach(l.Context()), m) != 0 {
				t.Errorf("%s, a context without the lease holds the lock", when)
			}
			if locktest.HoldCount(t, l.Context(), other) != 0 {
				t.Errorf("%s, another client holds the lock", when)
			}
		}
		check("before Release")
		locktest.Release(t, l)
		check("after Release")
	})
}

func TestCM06TakeTwiceGiveBackOnce(t *testing.T) {
	locktest.Each(t, "PFSG", func(t *testing.T, k locktest.Kind) {
		url := redistest.Shared(t).URL()
		m := k.Make(locktest.Open(t, url), locktest.Name(t))
		other := k.Make(locktest.Open(t, url), m.Name())
		outer := locktest.Lock(t, t.Context(), m)
		inner := locktest.Lock(t, outer.Context(), m)
		locktest.Release(t, inner)
		locktest.WantRefused(t, m)
		locktest.WantRefused(t, other)
		if !outer.Valid() || inner.Valid() {
			t.Errorf("after one Release of two: outer lease valid %v, inner %v", outer.Valid(), inner.Valid())
		}
		locktest.Release(t, outer)
		locktest.WantFree(t, other)
		locktest.WantFree(t, m)
	})
}

func TestCM07HoldCount(t *testing.T) {
	locktest.Each(t, "PFSRW", func(t *testing.T, k locktest.Kind) {
		s := redistest.Shared(t)
		m := k.Make(locktest.Open(t, s.URL()), locktest.Name(t))
		count := func(ctx context.Context, want int) {
			t.Helper()
			if n := locktest.HoldCount(t, ctx, m); n != want {
				t.Errorf("HoldCount is %d, want %d", n, want)
			}
			if _, n := look(t, m); n != want {
				t.Errorf("State has %d holds, want %d", n, want)
			}
		}
		count(t.Context(), 0)
		l := locktest.Lock(t, t.Context(), m)
		count(l.Context(), 1)
		locktest.Release(t, l)
		count(l.Context(), 0)

		outer := locktest.Lock(t, t.Context(), m)
		count(outer.Context(), 1)
		inner := locktest.Lock(t, outer.Context(), m)
		count(inner.Context(), 2)
		field := outer.Owner()
		if k.Letter == "W" {
			field += ":write"
		}
		if n := s.Int(t, "HGET", m.Name(), field); n != 2 {
			t.Errorf("the server counts %d holds, want 2", n)
		}
		locktest.Release(t, inner)
		count(outer.Context(), 1)
		locktest.Release(t, outer)
		count(outer.Context(), 0)
	})
}

// Only a holder has a lease to release. So a non-owner is a former holder whose
// lease is over, and which may not know that.
func TestCM08ReleaseByNonOwner(t *testing.T) {
	locktest.Each(t, "PFSGR", func(t *testing.T, k locktest.Kind) {
		s := redistest.Shared(t)
		a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
		for _, tt := range []struct {
			owner string
			take  func(t *testing.T, name string) *holdfast.Lease // from the current holder
			why   holdfast.LossReason
		}{
			{"another client", func(t *testing.T, name string) *holdfast.Lease {
				m := k.Make(b, name)
				_, _ = m.ForceUnlock(t.Context())
				return locktest.Lock(t, t.Context(), m)
			}, holdfast.LossNotOwner},
			{"the same client", func(t *testing.T, name string) *holdfast.Lease {
				m := k.Make(a, name)
				_, _ = m.ForceUnlock(t.Context())
				return locktest.Lock(t, t.Context(), m)
			}, holdfast.LossForced},
			{"a Java thread", func(t *testing.T, name string) *holdfast.Lease {
				s.Do(t, "DEL", name)
				s.Do(t, "HSET", name, "0b1f1c4e-8d5c-4b0e-9d5e-2f6d9f0c7a11:57", "2")
				s.Do(t, "PEXPIRE", name, "30000")
				return nil
			}, holdfast.LossNotOwner},
		} {
			t.Run(tt.owner, func(t *testing.T) {
				m := k.Make(a, locktest.Name(t))
				old := locktest.Lock(t, t.Context(), m)
				owner := tt.take(t, m.Name())
				hash, ends := s.Strings(t, "HGETALL", m.Name()), expiry(t, s, m.Name())
				locktest.WantLost(t, old, tt.why)
				locktest.WantRefused(t, k.Rival(a, m.Name()))
				if now := s.Strings(t, "HGETALL", m.Name()); !slices.Equal(now, hash) {
					t.Errorf("the hash of %s was %q and is %q", tt.owner, hash, now)
				}
				if now := expiry(t, s, m.Name()); now != ends {
					t.Errorf("the lease of %s lasts %d ms longer", tt.owner, now-ends)
				}
				if owner != nil {
					if !owner.Valid() {
						t.Error("the new owner's lease is not valid")
					}
					locktest.Release(t, owner)
				}
			})
		}
		t.Run("twice", func(t *testing.T) {
			m := k.Make(a, locktest.Name(t))
			old := locktest.Lock(t, t.Context(), m)
			locktest.Release(t, old)
			owner := locktest.Lock(t, t.Context(), m)
			locktest.Release(t, old)
			locktest.WantRefused(t, k.Rival(a, m.Name()))
			locktest.Release(t, owner)
		})
	})
}

// Redisson's fair lock takes this release without a word.
func TestCM09ReleaseAfterExpiry(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFSGW", func(t *testing.T, k locktest.Kind) {
		s := redistest.Shared(t)
		m := k.Make(locktest.Open(t, s.URL()), locktest.Name(t))
		other := k.Make(locktest.Open(t, s.URL()), m.Name())
		expired := func() *holdfast.Lease {
			l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(100*time.Millisecond))
			locktest.Eventually(t, 5*time.Second, "the lease expires", func() bool {
				return s.Int(t, "EXISTS", m.Name()) == 0
			})
			return l
		}
		gone := expired()
		locktest.Release(t, locktest.Lock(t, t.Context(), other))
		locktest.WantLost(t, gone, holdfast.LossExpired)

		gone = expired()
		owner := locktest.Lock(t, t.Context(), other)
		locktest.WantLost(t, gone, holdfast.LossExpired)
		locktest.WantRefused(t, m)
		if !owner.Valid() {
			t.Error("the new owner's lease is not valid")
		}
		locktest.Release(t, owner)
	})
}

func TestCM10ForceUnlock(t *testing.T) {
	locktest.Each(t, "PFSGRW", func(t *testing.T, k locktest.Kind) {
		url := redistest.Shared(t).URL()
		a, b := locktest.Open(t, url), locktest.Open(t, url)
		for _, tt := range []struct {
			by     string
			client *holdfast.Client
			why    holdfast.LossReason
		}{
			{"the holder's client", a, holdfast.LossForced},
			{"another client", b, holdfast.LossNotOwner},
		} {
			t.Run(tt.by, func(t *testing.T) {
				m := k.Make(a, locktest.Name(t))
				l := locktest.Lock(t, t.Context(), m)
				ctx := l.Context()
				waiter := locktest.Background(t.Context(), k.Rival(b, m.Name()))
				locktest.AwaitWaiting(t, b, 1)
				fresh := k.Make(tt.client, m.Name())
				if freed, err := fresh.ForceUnlock(t.Context()); !freed || err != nil {
					t.Fatalf("ForceUnlock of a held lock: %v, %v", freed, err)
				}
				if cause := context.Cause(ctx); tt.client == a && !errors.Is(cause, holdfast.ErrLost) {
					t.Errorf("the cause of the holder's context is %v, want ErrLost", cause)
				}
				locktest.Release(t, locktest.Entered(t, waiter))
				locktest.WantLost(t, l, tt.why)
				locktest.WantFree(t, m)
				if freed, err := fresh.ForceUnlock(t.Context()); freed || err != nil {
					t.Errorf("ForceUnlock of a free lock: %v, %v", freed, err)
				}
			})
		}
	})
}

// briefLease is how long the lock lasts that is not released in afterExpiry.
const briefLease = 500 * time.Millisecond

// afterExpiry checks that a waiter gets a lock that is never released as soon
// as its lease ends at the server, and not before.
func afterExpiry(t *testing.T, k locktest.Kind, take func(t *testing.T, m locktest.MutexLike, lease holdfast.LockOption) locktest.Outcome) {
	t.Helper()
	s := redistest.Shared(t)
	holder := locktest.Open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		const lease = 10 * time.Second
		m := k.Make(c, locktest.Name(t))
		old := locktest.Lock(t, t.Context(), k.Make(holder, m.Name()), holdfast.LeaseTime(briefLease))
		ends := expiry(t, s, m.Name())
		got := take(t, m, holdfast.LeaseTime(lease))
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if old.Valid() {
			t.Error("both leases are valid")
		}
		// A key lives through the millisecond in which it expires.
		after := expiry(t, s, m.Name()) - lease.Milliseconds() - ends
		if after < 0 || after > k.Late.Milliseconds() {
			t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, k.Late)
		}
		locktest.Release(t, got.Lease)
	})
}

func TestCM11WaiterEntersWhenLeaseEnds(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFSGW", func(t *testing.T, k locktest.Kind) {
		afterExpiry(t, k, func(t *testing.T, m locktest.MutexLike, lease holdfast.LockOption) locktest.Outcome {
			return locktest.AwaitAfter(t, briefLease, locktest.Background(t.Context(), m, lease))
		})
	})
}

func TestCM12TimedTryGivesUp(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFS", func(t *testing.T, k locktest.Kind) {
		holder := locktest.Open(t, redistest.Shared(t).URL())
		l := locktest.Lock(t, t.Context(), k.Make(holder, locktest.Name(t)))
		nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
			const wait = time.Second
			start := time.Now()
			_, err := k.Make(c, l.Name()).TryLock(t.Context(), holdfast.Wait(wait))
			took, ran := time.Since(start), locktest.Took(start)
			if !locktest.TimedOut(err) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want ErrNotAcquired and no context's error", err)
			}
			if took < wait || ran > wait+locktest.Late {
				t.Errorf("gave up after %v, want %v", took, wait)
			}
		})
		if !l.Valid() {
			t.Error("the holder's lease is not valid")
		}
		locktest.Release(t, l)
	})
}

func TestCM13TimedTryOutlivesLease(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFSG", func(t *testing.T, k locktest.Kind) {
		afterExpiry(t, k, func(t *testing.T, m locktest.MutexLike, lease holdfast.LockOption) locktest.Outcome {
			l, err := m.TryLock(t.Context(), lease, holdfast.Wait(briefLease+locktest.Late))
			return locktest.Outcome{Lease: l, Err: err}
		})
	})
}

func TestCM14HolderIsClosed(t *testing.T) {
	locktest.Each(t, "PFSGW", func(t *testing.T, k locktest.Kind) {
		s := redistest.Shared(t)
		c := locktest.Open(t, s.URL())
		l := locktest.Lock(t, t.Context(), k.Make(c, locktest.Name(t)))
		ctx := l.Context()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) || !errors.Is(cause, holdfast.ErrClosed) {
			t.Errorf("the cause of the lease's context is %v, want ErrLost and ErrClosed", cause)
		}
		locktest.WantFree(t, k.Make(locktest.Open(t, s.URL()), l.Name()))
	})
}

func init() {
	workers["holder"] = func() {
		ctx := context.Background()
		c, err := holdfast.Open(ctx, os.Getenv("URL"), &locktest.Steady)
		if err != nil {
			panic(err)
		}
		i := slices.IndexFunc(locktest.Kinds, func(k locktest.Kind) bool { return k.Name == os.Getenv("KIND") })
		l, err := locktest.Kinds[i].Make(c, os.Getenv("NAME")).Lock(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Owner())
		select {} // until killed
	}
}

func TestCM14HolderIsKilled(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFSGW", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		s := redistest.Shared(t)
		m := k.Make(locktest.Open(t, s.URL()), locktest.Name(t))
		p := redistest.Worker(t, "holder", "URL="+locktest.Address(t, s.URL()), "NAME="+m.Name(), "KIND="+k.Name)
		owner := <-p.Lines()
		locktest.WantRenewed(t, s, m.Name())
		if got, _ := look(t, m); got != owner || owner == "" {
			t.Fatalf("the owner is %q, want %q", got, owner)
		}
		const lease = 10 * time.Second
		ends := expiry(t, s, m.Name()) // or later, since it is renewed until the holder is dead
		waiter := locktest.Background(t.Context(), m, holdfast.LeaseTime(lease))
		p.Kill()
		ttl, last := s.Int(t, "PTTL", m.Name()), expiry(t, s, m.Name())
		if got, _ := look(t, m); got == owner { // if the machine stood still, the waiter may be in
			if ttl > locktest.Steady.WatchdogTimeout.Milliseconds() {
				t.Errorf("the lock outlives its holder by %d ms, more than the watchdog time", ttl)
			}
			ends = last
		}
		l := locktest.EnteredAfter(t, locktest.Steady.WatchdogTimeout, waiter)
		if after := expiry(t, s, m.Name()) - lease.Milliseconds() - ends; after < 0 || after > k.Late.Milliseconds() {
			t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, k.Late)
		}
		locktest.Release(t, l)
	})
}

func TestCM18UninterruptibleWait(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFSG", func(t *testing.T, k locktest.Kind) {
		holder := openHeard(t)
		uninterruptible := func(t *testing.T, c *holdfast.Client) {
			m := k.Make(c, locktest.Name(t))
			l := locktest.Lock(t, t.Context(), k.Make(holder, m.Name()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// A waiter that is cancelled before it knows that the lock is held reports
			// less. Waiters in the holder's client know it, unless they queue at the
			// server. In another client, the first one asks for both.
			both := k.Letter == "F"
			answered := make(chan struct{}, 1)
			deaf := locktest.Background(context.WithValue(context.WithoutCancel(ctx), heardKey{}, answered), m)
			if c != holder || both {
				wasAnswered(t, answered)
			}
			answered = make(chan struct{}, 1)
			keen := locktest.Background(context.WithValue(ctx, heardKey{}, answered), m)
			if both {
				wasAnswered(t, answered)
			}
			locktest.AwaitWaiting(t, c, 2)
			cancel()
			err := locktest.Await(t, keen).Err
			if !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("a cancelled wait returned %v, want ErrNotAcquired and context.Canceled", err)
			}
			locktest.WantWaiting(t, c, deaf)
			locktest.Release(t, l)
			locktest.Release(t, locktest.Entered(t, deaf))
		}
		t.Run("same client", func(t *testing.T) { uninterruptible(t, holder) })
		t.Run("other client", func(t *testing.T) { uninterruptible(t, openHeard(t)) })
	})
}

// A heardDriver says when a call was answered, in the channel that its context
// carries.
type heardDriver struct{ driver.Driver }

type heardKey struct{}

func (d heardDriver) tell(ctx context.Context) {
	if ch, ok := ctx.Value(heardKey{}).(chan struct{}); ok {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (d heardDriver) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	defer d.tell(ctx)
	return d.Driver.Do(ctx, call)
}

func (d heardDriver) DoAcked(ctx context.Context, calls []driver.Call, replicas int, timeout time.Duration) []driver.Result {
	defer d.tell(ctx)
	return d.Driver.DoAcked(ctx, calls, replicas, timeout)
}

// openHeard returns a client of the shared server that tells of answers.
func openHeard(t *testing.T) *holdfast.Client {
	t.Helper()
	config, err := rueidis.ParseURL(locktest.Enduring(redistest.Shared(t).URL()))
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := holdfast.New(heardDriver{d}, &holdfast.Options{Replication: holdfast.Replication{Timeout: 5 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// wasAnswered waits until a call was answered.
func wasAnswered(t *testing.T, answered <-chan struct{}) {
	t.Helper()
	select {
	case <-answered:
	case <-time.After(20 * time.Second):
		t.Fatal("the server was not asked")
	}
}

func TestCM19ServerStopped(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFSG", func(t *testing.T, k locktest.Kind) {
		for _, tt := range []struct {
			server       string
			harm, repair func(*redistest.Server)
		}{
			{"stopped", (*redistest.Server).Stop, (*redistest.Server).Restart},
			{"silent", (*redistest.Server).Pause, (*redistest.Server).Resume},
		} {
			t.Run(tt.server, func(t *testing.T) {
				s := redistest.Start(t)
				m := k.Make(locktest.Open(t, s.URL()), locktest.Name(t))
				locktest.WantFree(t, k.Make(locktest.Open(t, locktest.Enduring(s.URL())), m.Name()))
				tt.harm(s)
				for _, wait := range []time.Duration{0, time.Second} {
					start := time.Now()
					_, err := m.TryLock(t.Context(), holdfast.Wait(wait))
					if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrNotAcquired) {
						t.Errorf("TryLock with a wait of %v: error %v, want ErrUnavailable", wait, err)
					}
					if took := locktest.Took(start); took > wait+5*time.Second {
						t.Errorf("TryLock with a wait of %v took %v", wait, took)
					}
				}
				tt.repair(s) // grants of the failed tries are undone
				locktest.Release(t, locktest.Entered(t, locktest.Background(t.Context(), m)))
			})
		}
	})
}

func TestCM23CancelledTryIsUndone(t *testing.T) {
	t.Parallel()
	locktest.Each(t, "PFG", func(t *testing.T, k locktest.Kind) {
		s := redistest.Start(t)
		proxy := redistest.NewProxy(t, s.Addr())
		c := locktest.Open(t, locktest.Enduring(proxy.URL()), holdfast.Options{RenewEvery: 100 * time.Millisecond, RetryTimeout: time.Second})
		m := k.Make(c, locktest.Name(t))
		locktest.WantFree(t, m) // so that the server knows the scripts

		arrived, pass := proxy.HoldReply(redistest.Command("EVALSHA"))
		defer pass()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		try := make(chan locktest.Outcome, 1)
		go func() {
			l, err := m.TryLock(ctx)
			try <- locktest.Outcome{Lease: l, Err: err}
		}()
		<-arrived
		if s.Int(t, "EXISTS", m.Name()) != 1 {
			t.Fatal("the lock was not taken at the server")
		}
		cancel()
		if o := locktest.Await(t, try); !errors.Is(o.Err, context.Canceled) {
			t.Errorf("a cancelled TryLock returned %v, want context.Canceled", o.Err)
		}
		locktest.Eventually(t, 5*time.Second, "the lock is free", func() bool {
			return s.Int(t, "EXISTS", m.Name()) == 0
		})
		pass()
		locktest.AwaitSettled(t, c)
		var more []string
		stop := s.Monitor(t, func(command string) {
			if strings.Contains(command, m.Name()) {
				more = append(more, command)
			}
		})
		other := locktest.Lock(t, t.Context(), k.Make(c, "Test:"+strings.TrimPrefix(locktest.Name(t), "Test")))
		locktest.AwaitRenewals(t, c, 3)
		stop()
		if len(more) > 0 {
			t.Errorf("the client does not leave the lock alone: %q", more)
		}
		locktest.Release(t, other)
		if s.Int(t, "EXISTS", m.Name()) != 0 {
			t.Error("the lock was taken again")
		}
	})
}

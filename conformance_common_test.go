package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are the contract that all kinds of locks share, drawn
// from Redisson's own tests. The number in a test's name is its id.

// A mutexLike is a lock of any kind that can be looked at.
type mutexLike interface {
	holdfast.Locker
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// A kind is a lock to which the contract applies.
type kind struct {
	letter string // which tests are for it, see each
	name   string
	late   time.Duration // after an expiry a waiter may come that late
	make   func(c *holdfast.Client, name string) mutexLike
}

// late is how late things may be that are awaited: the machine may be busy, or
// stand still for two seconds. Who is not told and looks at intervals is later.
const late = 4 * time.Second

// aWhile is how long to watch that nothing happens.
const aWhile = 500 * time.Millisecond

var kinds = []kind{
	{"P", "push", late, func(c *holdfast.Client, name string) mutexLike {
		return c.Mutex(name)
	}},
	{"S", "poll", late + 128*time.Millisecond, func(c *holdfast.Client, name string) mutexLike {
		return c.Mutex(name, holdfast.Poll(holdfast.Backoff{}))
	}},
	{"F", "fair", late, func(c *holdfast.Client, name string) mutexLike {
		return c.FairMutex(name)
	}},
	{"P", "fenced", late, func(c *holdfast.Client, name string) mutexLike {
		return c.FencedMutex(name)
	}},
	{"R", "read", late, func(c *holdfast.Client, name string) mutexLike {
		return c.RWMutex(name).RLocker()
	}},
	{"W", "write", late, func(c *holdfast.Client, name string) mutexLike {
		return c.RWMutex(name)
	}},
}

// each runs a test for the kinds with the given letters: P plain, S spin,
// F fair, R and W the sides of a read/write lock.
func each(t *testing.T, letters string, test func(t *testing.T, k kind)) {
	t.Helper()
	for _, k := range kinds {
		if strings.Contains(letters, k.letter) {
			t.Run(k.name, func(t *testing.T) { test(t, k) })
		}
	}
}

// rival makes a lock that whoever holds one of this kind keeps out: readers do
// not keep each other out.
func (k kind) rival(c *holdfast.Client, name string) mutexLike {
	if k.letter == "R" {
		return c.RWMutex(name)
	}
	return k.make(c, name)
}

// nearAndFar runs a test for a contender in the holder's client, where the two
// queue, and for one in another, where they meet at the server.
func nearAndFar(t *testing.T, holder *holdfast.Client, test func(t *testing.T, c *holdfast.Client)) {
	t.Helper()
	t.Run("same client", func(t *testing.T) { test(t, holder) })
	t.Run("other client", func(t *testing.T) { test(t, open(t, redistest.Shared(t).URL())) })
}

// parallel runs f in n goroutines and waits for their end.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// An outcome is what a call that takes a lock has returned.
type outcome struct {
	lease *holdfast.Lease
	err   error
}

// background locks m in another goroutine.
func background(ctx context.Context, m holdfast.Locker, opts ...holdfast.Option) <-chan outcome {
	ch := make(chan outcome, 1)
	go func() {
		l, err := m.Lock(ctx, opts...)
		ch <- outcome{l, err}
	}()
	return ch
}

// await returns what a call in the background has returned, or ends the test.
// Its time is less than a waiter lets pass that has heard no message.
func await(tb testing.TB, ch <-chan outcome) outcome {
	tb.Helper()
	return awaitAfter(tb, 0, ch)
}

// awaitAfter is await for a call that is to return after d.
func awaitAfter(tb testing.TB, d time.Duration, ch <-chan outcome) outcome {
	tb.Helper()
	select {
	case o := <-ch:
		return o
	case <-time.After(d + late):
		tb.Fatal("still waiting")
		return outcome{}
	}
}

// entered is await for a call that has to succeed.
func entered(tb testing.TB, ch <-chan outcome) *holdfast.Lease {
	tb.Helper()
	return enteredAfter(tb, 0, ch)
}

// enteredAfter is awaitAfter for a call that has to succeed.
func enteredAfter(tb testing.TB, d time.Duration, ch <-chan outcome) *holdfast.Lease {
	tb.Helper()
	o := awaitAfter(tb, d, ch)
	if o.err != nil {
		tb.Fatal(o.err)
	}
	return o.lease
}

// locked asks m whether it is.
func locked(tb testing.TB, m mutexLike) bool {
	tb.Helper()
	is, err := m.IsLocked(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return is
}

// holds returns how often the owner in ctx holds m, whether ctx is done or not.
func holds(tb testing.TB, ctx context.Context, m mutexLike) int {
	tb.Helper()
	n, err := m.HoldCount(context.WithoutCancel(ctx))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// look asks the server for the owner of m and how often it holds it. Of several
// readers it returns one.
func look(tb testing.TB, m mutexLike) (owner string, holds int) {
	tb.Helper()
	var p holdfast.Party
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
	case *holdfast.RLocker:
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

// inVain reports whether one has not got what it has waited for until its time
// was over. If it has asked just then, a server that stands still may not have
// answered.
func inVain(err error) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable)
}

// wantRefused checks that somebody else cannot have m.
func wantRefused(tb testing.TB, m holdfast.Locker) {
	tb.Helper()
	l, err := m.TryLock(context.Background())
	if !errors.Is(err, holdfast.ErrNotAcquired) {
		tb.Errorf("TryLock of a held lock: error %v, want ErrNotAcquired", err)
	}
	if err == nil {
		release(tb, l)
	}
}

// wantFree checks that anybody can have m.
func wantFree(tb testing.TB, m holdfast.Locker) {
	tb.Helper()
	l, err := m.TryLock(context.Background())
	if err != nil {
		tb.Errorf("TryLock of a free lock: %v", err)
		return
	}
	release(tb, l)
}

// wantLost checks that releasing l says that it was lost, and why.
func wantLost(tb testing.TB, l *holdfast.Lease, why holdfast.LossReason) {
	tb.Helper()
	err := l.Release(context.Background())
	var lost *holdfast.LostError
	if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &lost) {
		tb.Errorf("Release of a lost lease: error %v, want ErrLost", err)
	} else if lost.Reason != why {
		tb.Errorf("lease lost because %q, want %q", lost.Reason, why)
	}
	if l.Valid() {
		tb.Error("a lost lease is valid")
	}
}

// expiry returns the moment at which a key expires, in milliseconds of the
// server's clock.
func expiry(tb testing.TB, s *redistest.Server, key string) int64 {
	tb.Helper()
	// Some servers read the clock for every command of a script: both readings
	// have to be of one millisecond.
	return s.Int(tb, "EVAL", `
		local function ms()
			local t = redis.call('time')
			return t[1] * 1000 + math.floor(t[2] / 1000)
		end
		local now, ttl
		repeat now, ttl = ms(), redis.call('pttl', KEYS[1]) until ms() == now
		return now + ttl`, "1", key)
}

// A section is what a lock protects. It notices when two are in it at once.
type section struct {
	name     string
	recorder *redistest.Recorder
	recorded bytes.Buffer
	count    int // not atomic, on purpose: who overlaps loses an increment
	reads    atomic.Int64
}

func newSection(name string) *section {
	s := &section{name: name}
	s.recorder = redistest.NewRecorder(&s.recorded)
	return s
}

// read spends some time in the section, perhaps together with other readers.
func (s *section) read(l *holdfast.Lease, inside time.Duration) {
	iv := redistest.Interval{Name: s.name, Owner: l.Owner(), Enter: redistest.Now(), Shared: true}
	time.Sleep(inside)
	iv.Leave = redistest.Now()
	s.recorder.Record(iv)
	s.reads.Add(1)
}

// visit spends some time in the section.
func (s *section) visit(l *holdfast.Lease, inside time.Duration) {
	leave := s.recorder.Enter(s.name, l.Owner())
	n := s.count
	time.Sleep(inside)
	s.count = n + 1
	leave()
}

// check checks that there were so many visits, one after the other unless both
// are of readers.
func (s *section) check(tb testing.TB, visits int) {
	tb.Helper()
	ivs, err := redistest.ReadIntervals(&s.recorded)
	if err != nil {
		tb.Fatal(err)
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		tb.Error(err)
	}
	if counted := s.count + int(s.reads.Load()); len(ivs) != visits || counted != visits {
		tb.Errorf("%d visits recorded and %d counted, want %d", len(ivs), counted, visits)
	}
}

func TestCM01TakeAndGiveBack(t *testing.T) {
	each(t, "PFSR", func(t *testing.T, k kind) {
		s := redistest.Shared(t)
		m := k.make(open(t, s.URL()), name(t))
		for range 2 {
			l := lock(t, t.Context(), m)
			if !l.Valid() || s.Int(t, "EXISTS", m.Name()) != 1 {
				t.Error("not held after Lock")
			}
			release(t, l)
			if l.Valid() || s.Int(t, "EXISTS", m.Name()) != 0 {
				t.Error("held after Release")
			}
		}
	})
}

func TestCM02IsLocked(t *testing.T) {
	each(t, "PFSGR", func(t *testing.T, k kind) {
		m := k.make(open(t, redistest.Shared(t).URL()), name(t))
		if locked(t, m) {
			t.Error("locked before Lock")
		}
		l := lock(t, t.Context(), m)
		if !locked(t, m) {
			t.Error("not locked while held")
		}
		release(t, l)
		if locked(t, m) {
			t.Error("locked after Release")
		}
	})
}

func TestCM03IsLockedAskedByOthers(t *testing.T) {
	each(t, "PFSGR", func(t *testing.T, k kind) {
		url := redistest.Shared(t).URL()
		m := k.make(open(t, url), name(t))
		others := []mutexLike{m, k.make(open(t, url), m.Name())}
		ask := func(want bool) {
			parallel(len(others), func(i int) {
				if is, err := others[i].IsLocked(t.Context()); is != want || err != nil {
					t.Errorf("IsLocked asked by other %d: %v, %v, want %v", i, is, err, want)
				}
			})
		}
		l := lock(t, t.Context(), m)
		ask(true)
		release(t, l)
		ask(false)
	})
}

func TestCM04HeldByMe(t *testing.T) {
	each(t, "PFSGR", func(t *testing.T, k kind) {
		m := k.make(open(t, redistest.Shared(t).URL()), name(t))
		if holds(t, t.Context(), m) != 0 {
			t.Error("held before Lock")
		}
		l := lock(t, t.Context(), m)
		if holds(t, l.Context(), m) == 0 || !l.Valid() {
			t.Error("not held between Lock and Release")
		}
		release(t, l)
		if holds(t, l.Context(), m) != 0 || l.Valid() {
			t.Error("held after Release")
		}
	})
}

func TestCM05HeldByMeAskedByOthers(t *testing.T) {
	each(t, "PFSGR", func(t *testing.T, k kind) {
		url := redistest.Shared(t).URL()
		m := k.make(open(t, url), name(t))
		other := k.make(open(t, url), m.Name())
		l := lock(t, t.Context(), m)
		check := func(when string) {
			t.Helper()
			if holds(t, t.Context(), m) != 0 || holds(t, holdfast.Detach(l.Context()), m) != 0 {
				t.Errorf("%s, a context without the lease holds the lock", when)
			}
			if holds(t, l.Context(), other) != 0 {
				t.Errorf("%s, another client holds the lock", when)
			}
		}
		check("before Release")
		release(t, l)
		check("after Release")
	})
}

func TestCM06TakeTwiceGiveBackOnce(t *testing.T) {
	each(t, "PFSG", func(t *testing.T, k kind) {
		url := redistest.Shared(t).URL()
		m := k.make(open(t, url), name(t))
		other := k.make(open(t, url), m.Name())
		outer := lock(t, t.Context(), m)
		inner := lock(t, outer.Context(), m)
		release(t, inner)
		wantRefused(t, m)
		wantRefused(t, other)
		if !outer.Valid() || inner.Valid() {
			t.Errorf("after one Release of two: outer lease valid %v, inner %v", outer.Valid(), inner.Valid())
		}
		release(t, outer)
		wantFree(t, other)
		wantFree(t, m)
	})
}

func TestCM07HoldCount(t *testing.T) {
	each(t, "PFSRW", func(t *testing.T, k kind) {
		s := redistest.Shared(t)
		m := k.make(open(t, s.URL()), name(t))
		count := func(ctx context.Context, want int) {
			t.Helper()
			if n := holds(t, ctx, m); n != want {
				t.Errorf("HoldCount is %d, want %d", n, want)
			}
			if _, n := look(t, m); n != want {
				t.Errorf("State has %d holds, want %d", n, want)
			}
		}
		count(t.Context(), 0)
		l := lock(t, t.Context(), m)
		count(l.Context(), 1)
		release(t, l)
		count(l.Context(), 0)

		outer := lock(t, t.Context(), m)
		count(outer.Context(), 1)
		inner := lock(t, outer.Context(), m)
		count(inner.Context(), 2)
		field := outer.Owner()
		if k.letter == "W" {
			field += ":write"
		}
		if n := s.Int(t, "HGET", m.Name(), field); n != 2 {
			t.Errorf("the server counts %d holds, want 2", n)
		}
		release(t, inner)
		count(outer.Context(), 1)
		release(t, outer)
		count(outer.Context(), 0)
	})
}

// Only a holder has something to release, so a non-owner is somebody whose
// lease is over and who may not know it.
func TestCM08ReleaseByNonOwner(t *testing.T) {
	each(t, "PFSGR", func(t *testing.T, k kind) {
		s := redistest.Shared(t)
		a, b := open(t, s.URL()), open(t, s.URL())
		for _, tt := range []struct {
			owner string
			take  func(t *testing.T, name string) *holdfast.Lease // from whoever has it
			why   holdfast.LossReason
		}{
			{"another client", func(t *testing.T, name string) *holdfast.Lease {
				m := k.make(b, name)
				_, _ = m.ForceUnlock(t.Context())
				return lock(t, t.Context(), m)
			}, holdfast.LossNotOwner},
			{"the same client", func(t *testing.T, name string) *holdfast.Lease {
				m := k.make(a, name)
				_, _ = m.ForceUnlock(t.Context())
				return lock(t, t.Context(), m)
			}, holdfast.LossForced},
			{"a Java thread", func(t *testing.T, name string) *holdfast.Lease {
				s.Do(t, "DEL", name)
				s.Do(t, "HSET", name, "0b1f1c4e-8d5c-4b0e-9d5e-2f6d9f0c7a11:57", "2")
				s.Do(t, "PEXPIRE", name, "30000")
				return nil
			}, holdfast.LossNotOwner},
		} {
			t.Run(tt.owner, func(t *testing.T) {
				m := k.make(a, name(t))
				old := lock(t, t.Context(), m)
				owner := tt.take(t, m.Name())
				hash, ends := s.Strings(t, "HGETALL", m.Name()), expiry(t, s, m.Name())
				wantLost(t, old, tt.why)
				wantRefused(t, k.rival(a, m.Name()))
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
					release(t, owner)
				}
			})
		}
		t.Run("twice", func(t *testing.T) {
			m := k.make(a, name(t))
			old := lock(t, t.Context(), m)
			release(t, old)
			owner := lock(t, t.Context(), m)
			release(t, old)
			wantRefused(t, k.rival(a, m.Name()))
			release(t, owner)
		})
	})
}

// Redisson's fair lock takes this release without a word.
func TestCM09ReleaseAfterExpiry(t *testing.T) {
	t.Parallel()
	each(t, "PFSGW", func(t *testing.T, k kind) {
		s := redistest.Shared(t)
		m := k.make(open(t, s.URL()), name(t))
		other := k.make(open(t, s.URL()), m.Name())
		expired := func() *holdfast.Lease {
			l := lock(t, t.Context(), m, holdfast.LeaseTime(100*time.Millisecond))
			eventually(t, 5*time.Second, "the lease expires", func() bool {
				return s.Int(t, "EXISTS", m.Name()) == 0
			})
			return l
		}
		gone := expired()
		release(t, lock(t, t.Context(), other))
		wantLost(t, gone, holdfast.LossExpired)

		gone = expired()
		owner := lock(t, t.Context(), other)
		wantLost(t, gone, holdfast.LossExpired)
		wantRefused(t, m)
		if !owner.Valid() {
			t.Error("the new owner's lease is not valid")
		}
		release(t, owner)
	})
}

func TestCM10ForceUnlock(t *testing.T) {
	each(t, "PFSGRW", func(t *testing.T, k kind) {
		url := redistest.Shared(t).URL()
		a, b := open(t, url), open(t, url)
		for _, tt := range []struct {
			by     string
			client *holdfast.Client
			why    holdfast.LossReason
		}{
			{"the holder's client", a, holdfast.LossForced},
			{"another client", b, holdfast.LossNotOwner},
		} {
			t.Run(tt.by, func(t *testing.T) {
				m := k.make(a, name(t))
				l := lock(t, t.Context(), m)
				ctx := l.Context()
				waiter := background(t.Context(), k.rival(b, m.Name()))
				time.Sleep(50 * time.Millisecond) // until it waits, most likely
				fresh := k.make(tt.client, m.Name())
				if freed, err := fresh.ForceUnlock(t.Context()); !freed || err != nil {
					t.Fatalf("ForceUnlock of a held lock: %v, %v", freed, err)
				}
				if cause := context.Cause(ctx); tt.client == a && !errors.Is(cause, holdfast.ErrLost) {
					t.Errorf("the cause of the holder's context is %v, want ErrLost", cause)
				}
				release(t, entered(t, waiter))
				wantLost(t, l, tt.why)
				wantFree(t, m)
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
func afterExpiry(t *testing.T, k kind, take func(t *testing.T, m mutexLike, lease holdfast.Option) outcome) {
	t.Helper()
	s := redistest.Shared(t)
	holder := open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		const lease = 10 * time.Second
		m := k.make(c, name(t))
		old := lock(t, t.Context(), k.make(holder, m.Name()), holdfast.LeaseTime(briefLease))
		ends := expiry(t, s, m.Name())
		got := take(t, m, holdfast.LeaseTime(lease))
		if got.err != nil {
			t.Fatal(got.err)
		}
		if old.Valid() {
			t.Error("both leases are valid")
		}
		// A key lives through the millisecond in which it expires.
		after := expiry(t, s, m.Name()) - lease.Milliseconds() - ends
		if after < 0 || after > k.late.Milliseconds() {
			t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, k.late)
		}
		release(t, got.lease)
	})
}

func TestCM11WaiterEntersWhenLeaseEnds(t *testing.T) {
	t.Parallel()
	each(t, "PFSGW", func(t *testing.T, k kind) {
		afterExpiry(t, k, func(t *testing.T, m mutexLike, lease holdfast.Option) outcome {
			return awaitAfter(t, briefLease, background(t.Context(), m, lease))
		})
	})
}

func TestCM12TimedTryGivesUp(t *testing.T) {
	t.Parallel()
	each(t, "PFS", func(t *testing.T, k kind) {
		holder := open(t, redistest.Shared(t).URL())
		l := lock(t, t.Context(), k.make(holder, name(t)))
		nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
			const wait = time.Second
			start := time.Now()
			_, err := k.make(c, l.Name()).TryLock(t.Context(), holdfast.Wait(wait))
			took := time.Since(start)
			if !inVain(err) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want ErrNotAcquired and no context's error", err)
			}
			if took < wait || took > wait+late {
				t.Errorf("gave up after %v, want %v", took, wait)
			}
		})
		if !l.Valid() {
			t.Error("the holder's lease is not valid")
		}
		release(t, l)
	})
}

func TestCM13TimedTryOutlivesLease(t *testing.T) {
	t.Parallel()
	each(t, "PFSG", func(t *testing.T, k kind) {
		afterExpiry(t, k, func(t *testing.T, m mutexLike, lease holdfast.Option) outcome {
			l, err := m.TryLock(t.Context(), lease, holdfast.Wait(briefLease+late))
			return outcome{l, err}
		})
	})
}

func TestCM14HolderIsClosed(t *testing.T) {
	each(t, "PFSGW", func(t *testing.T, k kind) {
		s := redistest.Shared(t)
		c := open(t, s.URL())
		l := lock(t, t.Context(), k.make(c, name(t)))
		ctx := l.Context()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) || !errors.Is(cause, holdfast.ErrClosed) {
			t.Errorf("the cause of the lease's context is %v, want ErrLost and ErrClosed", cause)
		}
		wantFree(t, k.make(open(t, s.URL()), l.Name()))
	})
}

func init() {
	workers["holder"] = func() {
		ctx := context.Background()
		c, err := holdfast.Open(ctx, os.Getenv("URL"), mortal)
		if err != nil {
			panic(err)
		}
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == os.Getenv("KIND") })
		l, err := kinds[i].make(c, os.Getenv("NAME")).Lock(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Owner())
		select {} // until killed
	}
}

func TestCM14HolderIsKilled(t *testing.T) {
	t.Parallel()
	each(t, "PFSGW", func(t *testing.T, k kind) {
		t.Parallel()
		s := redistest.Shared(t)
		m := k.make(open(t, s.URL()), name(t))
		p := redistest.Worker(t, "holder", "URL="+address(t, s.URL()), "NAME="+m.Name(), "KIND="+k.name)
		owner := <-p.Lines()
		time.Sleep(mortal.WatchdogTimeout + aWhile) // more than it would last without renewal
		if got, _ := look(t, m); got != owner || owner == "" {
			t.Fatalf("the owner is %q, want %q", got, owner)
		}
		const lease = 10 * time.Second
		ends := expiry(t, s, m.Name()) // or later, since it is renewed until the holder is dead
		waiter := background(t.Context(), m, holdfast.LeaseTime(lease))
		p.Kill()
		ttl, last := s.Int(t, "PTTL", m.Name()), expiry(t, s, m.Name())
		if got, _ := look(t, m); got == owner { // if the machine stood still, the waiter may be in
			if ttl > mortal.WatchdogTimeout.Milliseconds() {
				t.Errorf("the lock outlives its holder by %d ms, more than the watchdog time", ttl)
			}
			ends = last
		}
		l := enteredAfter(t, mortal.WatchdogTimeout, waiter)
		if after := expiry(t, s, m.Name()) - lease.Milliseconds() - ends; after < 0 || after > k.late.Milliseconds() {
			t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, k.late)
		}
		release(t, l)
	})
}

// contend lets every mutex be locked that often, all at the same time.
func contend(t *testing.T, ms []mutexLike, rounds int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sec := newSection(ms[0].Name())
	parallel(len(ms), func(i int) {
		for range rounds {
			l, err := ms[i].Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if _, shared := ms[i].(*holdfast.RLocker); shared {
				sec.read(l, time.Millisecond)
			} else {
				sec.visit(l, time.Millisecond)
			}
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	sec.check(t, len(ms)*rounds)
	if locked(t, ms[0]) {
		t.Error("locked in the end")
	}
}

// clients returns n mutexes of one name, each of a client of its own. Every
// fourth is a rival.
func clients(t *testing.T, k kind, n int) []mutexLike {
	t.Helper()
	url, name := redistest.Shared(t).URL(), name(t)
	ms := make([]mutexLike, n)
	for i := range ms {
		if c := open(t, url); i%4 == 0 {
			ms[i] = k.rival(c, name)
		} else {
			ms[i] = k.make(c, name)
		}
	}
	return ms
}

func TestCM15OneClient(t *testing.T) {
	each(t, "PFSGRW", func(t *testing.T, k kind) {
		c := open(t, redistest.Shared(t).URL())
		m := k.make(c, name(t))
		contend(t, append(slices.Repeat([]mutexLike{m}, 14), k.rival(c, m.Name())), 1)
	})
}

func TestCM16SixteenClients(t *testing.T) {
	each(t, "PFSGRW", func(t *testing.T, k kind) {
		contend(t, clients(t, k, 16), often(100))
	})
}

func TestCM17HundredClients(t *testing.T) {
	each(t, "PFSGRW", func(t *testing.T, k kind) {
		contend(t, clients(t, k, often(100)), 1)
	})
}

func TestCM18UninterruptibleWait(t *testing.T) {
	t.Parallel()
	each(t, "PFSG", func(t *testing.T, k kind) {
		holder := openHeard(t)
		uninterruptible := func(t *testing.T, c *holdfast.Client) {
			m := k.make(c, name(t))
			l := lock(t, t.Context(), k.make(holder, m.Name()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// Whoever is cancelled before it knows that the lock is held says less.
			// Those of the holder's client know it, unless they queue at the server.
			// In another client, the first one asks for both.
			both := k.letter == "F"
			answered := make(chan struct{}, 1)
			deaf := background(context.WithValue(context.WithoutCancel(ctx), heardKey{}, answered), m)
			if c != holder || both {
				wasAnswered(t, answered)
			}
			answered = make(chan struct{}, 1)
			keen := background(context.WithValue(ctx, heardKey{}, answered), m)
			if both {
				wasAnswered(t, answered)
			}
			time.Sleep(50 * time.Millisecond) // until both wait, most likely
			cancel()
			err := await(t, keen).err
			if !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("a cancelled wait returned %v, want ErrNotAcquired and context.Canceled", err)
			}
			select {
			case o := <-deaf:
				t.Fatalf("the wait without cancellation has ended: %v", o.err)
			case <-time.After(200 * time.Millisecond):
			}
			release(t, l)
			release(t, entered(t, deaf))
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
	config, err := rueidis.ParseURL(enduring(redistest.Shared(t).URL()))
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := holdfast.New(heardDriver{d}, holdfast.Options{Replication: holdfast.Replication{Timeout: 5 * time.Second}})
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
		t.Fatal("nobody has asked the server")
	}
}

func TestCM19ServerStopped(t *testing.T) {
	t.Parallel()
	each(t, "PFSG", func(t *testing.T, k kind) {
		for _, tt := range []struct {
			server     string
			harm, mend func(*redistest.Server)
		}{
			{"stopped", (*redistest.Server).Stop, (*redistest.Server).Restart},
			{"silent", (*redistest.Server).Pause, (*redistest.Server).Resume},
		} {
			t.Run(tt.server, func(t *testing.T) {
				s := redistest.Start(t)
				m := k.make(open(t, s.URL()), name(t))
				wantFree(t, m)
				tt.harm(s)
				for _, wait := range []time.Duration{0, time.Second} {
					start := time.Now()
					_, err := m.TryLock(t.Context(), holdfast.Wait(wait))
					if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrNotAcquired) {
						t.Errorf("TryLock with a wait of %v: error %v, want ErrUnavailable", wait, err)
					}
					if took := time.Since(start); took > wait+5*time.Second {
						t.Errorf("TryLock with a wait of %v took %v", wait, took)
					}
				}
				tt.mend(s) // and what the tries did behind our back is undone
				release(t, entered(t, background(t.Context(), m)))
			})
		}
	})
}

func TestCM21NoChannelLeft(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	// Goroutines of one client mostly pass a lock on among themselves. It takes
	// several clients to keep the subscriptions busy.
	var cs [4]*holdfast.Client
	for i := range cs {
		cs[i] = open(t, enduring(s.URL()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var names [5]string
	var secs [5]*section
	var visits [5]int
	for i := range names {
		names[i] = name(t)
		secs[i] = newSection(names[i])
	}
	const goroutines = 32
	rounds := often(5000)
	parallel(goroutines, func(i int) {
		for r := i; r < rounds; r += goroutines {
			n := rand.IntN(len(names))
			l, err := cs[i%len(cs)].Mutex(names[n]).Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			secs[n].visit(l, 0)
			visits[n]++
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	total := 0
	for i, sec := range secs {
		sec.check(t, visits[i])
		total += visits[i]
	}
	if total != rounds {
		t.Errorf("%d rounds done, want %d", total, rounds)
	}
	wantNoChannels(t, s)
}

// wantNoChannels checks that somebody has subscribed and that all of it ends.
func wantNoChannels(t *testing.T, s *redistest.Server) {
	t.Helper()
	if stats, _ := s.Do(t, "INFO", "commandstats").(string); !strings.Contains(stats, "subscribe:") {
		t.Error("nobody has subscribed to anything")
	}
	eventually(t, 10*time.Second, "no channel is left", func() bool { return len(s.Channels(t)) == 0 })
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

func TestCM22TwoPerName(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	// Nobody looks by himself: who is not woken is refused.
	deaf := holdfast.Options{PollInterval: time.Hour}
	const wait = 20 * time.Second
	cs := [2]*holdfast.Client{open(t, enduring(s.URL()), deaf), open(t, enduring(s.URL()), deaf)}
	parallel(100, func(i int) {
		m := cs[i%2].Mutex(fmt.Sprint(t.Name(), i/2))
		for range 3 {
			l, err := m.TryLock(t.Context(), holdfast.Wait(wait))
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(10 * time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wantNoChannels(t, s)
}

func TestCM23CancelledTryIsUndone(t *testing.T) {
	t.Parallel()
	each(t, "PFG", func(t *testing.T, k kind) {
		s := redistest.Start(t)
		proxy := redistest.NewProxy(t, s.Addr())
		c := open(t, enduring(proxy.URL()), holdfast.Options{RenewEvery: 100 * time.Millisecond, RetryTimeout: time.Second})
		m := k.make(c, name(t))
		wantFree(t, m) // so that the server knows the scripts

		arrived, pass := proxy.HoldReply(redistest.Command("EVALSHA"))
		defer pass()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		try := make(chan outcome, 1)
		go func() {
			l, err := m.TryLock(ctx)
			try <- outcome{l, err}
		}()
		<-arrived
		if s.Int(t, "EXISTS", m.Name()) != 1 {
			t.Fatal("the lock was not taken at the server")
		}
		cancel()
		if o := await(t, try); !errors.Is(o.err, context.Canceled) {
			t.Errorf("a cancelled TryLock returned %v, want context.Canceled", o.err)
		}
		eventually(t, 5*time.Second, "the lock is free", func() bool {
			return s.Int(t, "EXISTS", m.Name()) == 0
		})
		pass()
		eventually(t, 10*time.Second, "the client leaves the lock alone", func() bool {
			proxy.ResetCounts()
			time.Sleep(500 * time.Millisecond)
			return proxy.Count("EVALSHA")+proxy.Count("EVAL") == 0
		})
		if s.Int(t, "EXISTS", m.Name()) != 0 {
			t.Error("the lock was taken again")
		}
	})
}

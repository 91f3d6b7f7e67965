package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Sixteen goroutines over random, overlapping sets of eight names: each round
// ends, every name is held by one at a time, and nothing is left.
func TestMultiOverlapping(t *testing.T) {
	t.Parallel()
	const goroutines, names = 16, 8
	rounds := int64(locktest.Often(5000))
	s := redistest.Fresh(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	base := locktest.Name(t)
	var sections [names]*locktest.Section
	for i := range sections {
		sections[i] = locktest.NewSection(fmt.Sprint(base, i))
	}
	var visits [names]atomic.Int64
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	locktest.Parallel(goroutines, func(g int) {
		c := []*holdfast.Client{a, b}[g%2]
		for done.Add(1) <= rounds {
			var locks []holdfast.Locker
			var in []int
			for _, i := range rand.Perm(names)[:1+rand.IntN(4)] {
				in = append(in, i)
				locks = append(locks, c.Mutex(sections[i].Name))
			}
			l, err := holdfast.MultiLocker(locks...).Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for _, i := range in {
				sections[i].Visit(l, 0)
				visits[i].Add(1)
			}
			locktest.Release(t, l)
		}
	})
	for i := range sections {
		sections[i].Check(t, int(visits[i].Load()))
	}
	locktest.Eventually(t, 10*time.Second, "nothing is left", func() bool { return s.Int(t, "DBSIZE") == 0 })
}

// The same over three servers, with fair and read/write locks among them, and
// with callers that give up.
func TestMultiOverServers(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 8, 60
	var servers []*redistest.Server
	var clients []*holdfast.Client
	for range 3 {
		s := redistest.Start(t)
		servers = append(servers, s)
		clients = append(clients, locktest.Open(t, s.URL()))
	}
	base := locktest.Name(t)
	makers := []func(c *holdfast.Client, n string) holdfast.Locker{
		func(c *holdfast.Client, n string) holdfast.Locker { return c.Mutex(n) },
		func(c *holdfast.Client, n string) holdfast.Locker { return c.FairMutex(n) },
		func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) },
		func(c *holdfast.Client, n string) holdfast.Locker { return c.FencedMutex(n) },
	}
	var sections [3][4]*locktest.Section
	for i := range sections {
		for j := range sections[i] {
			sections[i][j] = locktest.NewSection(fmt.Sprint(base, i, j))
		}
	}
	var visits [3][4]atomic.Int64
	locktest.Parallel(goroutines, func(int) {
		for range rounds {
			var locks []holdfast.Locker
			var in [][2]int
			for _, n := range rand.Perm(12)[:2+rand.IntN(3)] {
				i, j := n/4, n%4
				in = append(in, [2]int{i, j})
				locks = append(locks, makers[j](clients[i], sections[i][j].Name))
			}
			wait := time.Duration(rand.IntN(100)) * time.Millisecond
			if rand.IntN(4) > 0 {
				wait = time.Minute
			}
			l, err := holdfast.MultiLocker(locks...).Lock(t.Context(), holdfast.Wait(wait))
			if err != nil {
				if !locktest.Tolerable(err) || wait == time.Minute {
					t.Error(err)
				}
				continue
			}
			for _, at := range in {
				sections[at[0]][at[1]].Visit(l, 0)
				visits[at[0]][at[1]].Add(1)
			}
			locktest.Release(t, l)
		}
	})
	for i := range sections {
		for j := range sections[i] {
			sections[i][j].Check(t, int(visits[i][j].Load()))
		}
		s := servers[i]
		locktest.Eventually(t, 10*time.Second, "nothing is left but the counter", func() bool { return s.Int(t, "DBSIZE") <= 1 })
	}
}

// A lock of every kind can be part of a MultiLocker, and is an object.
func TestMultiOfEveryKind(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	for _, k := range locktest.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			n := "{" + locktest.Name(t) + "}"
			l := k.Make(c, n+"a")
			m := holdfast.MultiLocker(l, c.Mutex(n+"b"))
			locktest.Release(t, locktest.Lock(t, t.Context(), m))
			locktest.Release(t, locktest.Lock(t, t.Context(), l))
			held := locktest.Lock(t, t.Context(), c.Mutex(n+"b"))
			if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("beside a held mutex: %v", err)
			}
			locktest.Release(t, held)
			if o := locktest.ObjectOf(l); o != nil {
				if exists, err := o.Exists(t.Context()); exists || err != nil {
					t.Errorf("after the release it exists: %v, %v", exists, err)
				}
			}
		})
	}
}

// A set that cannot be had leaves nothing of itself, wherever it stops.
func TestMultiAllOrNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	far := redistest.Start(t)
	d := locktest.Open(t, far.URL())
	n := locktest.Name(t)
	mine := []holdfast.Locker{
		c.Mutex(n + "a"), c.FencedMutex(n + "b"), c.RWMutex(n + "c"), c.RWMutex(n + "d").RLocker(), c.FairMutex(n + "e"), d.Mutex(n + "f"),
	}
	theirs := []holdfast.Locker{
		other.Mutex(n + "a"), other.Mutex(n + "b"), other.RWMutex(n + "c").RLocker(), other.RWMutex(n + "d"), other.Mutex(n + "e"), locktest.Open(t, far.URL()).Mutex(n + "f"),
	}
	m := holdfast.MultiLocker(mine...)
	for i, blocker := range theirs {
		held := locktest.Lock(t, t.Context(), blocker)
		if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("without %d: %v", i, err)
		}
		if _, err := m.TryLock(t.Context(), holdfast.Wait(time.Second)); !locktest.TimedOut(err) {
			t.Errorf("without %d, with a wait: %v", i, err)
		}
		for j, l := range theirs {
			if j != i {
				locktest.WantFree(t, l)
			}
		}
		ch := locktest.Background(t.Context(), m)
		locktest.Eventually(t, 20*time.Second, "the set waits", func() bool { return c.Stats().Waiting+d.Stats().Waiting > 0 })
		locktest.Release(t, held)
		l := locktest.Entered(t, ch)
		for _, l := range theirs {
			locktest.WantRefused(t, l)
		}
		locktest.Release(t, l)
		for _, l := range theirs {
			locktest.WantFree(t, l)
		}
	}
	// A key of another type is found when others are taken already.
	s.Do(t, "SET", n+"z", "precious")
	if _, err := holdfast.MultiLocker(c.Mutex(n+"a"), c.Mutex(n+"z")).TryLock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("a key of another type: %v", err)
	}
	locktest.WantFree(t, theirs[0])
}

// The lease on several locks ends when one of them is lost.
func TestMultiLosesOne(t *testing.T) {
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	a, b := c.Mutex(n+"a"), c.Mutex(n+"b")
	l := locktest.Lock(t, t.Context(), holdfast.MultiLocker(a, b))
	ctx := l.Context()
	if !l.Valid() || ctx.Err() != nil || l.Deadline().Before(time.Now()) {
		t.Fatal("not held")
	}
	if _, err := b.ForceUnlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.Valid() || !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
		t.Errorf("valid %v, cause %v", l.Valid(), context.Cause(ctx))
	}
	locktest.WantRefused(t, other.Mutex(n+"a")) // until it is released
	err := l.Release(t.Context())
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Name != n+"b" || lost.Reason != holdfast.LossForced {
		t.Errorf("release: %v", err)
	}
	locktest.WantFree(t, other.Mutex(n+"a"))
}

// What a context holds already is entered again, by the whole and by the parts.
func TestMultiEntersAgain(t *testing.T) {
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	n := locktest.Name(t)
	a, b, r := c.Mutex(n+"a"), c.Mutex(n+"b"), c.RWMutex(n+"c")
	m := holdfast.MultiLocker(a, b, r)
	outer := locktest.Lock(t, t.Context(), a)
	l := locktest.Lock(t, outer.Context(), m)
	if n := locktest.HoldCount(t, l.Context(), a); n != 2 {
		t.Errorf("a is held %d times, want 2", n)
	}
	again := locktest.Lock(t, l.Context(), m)
	inner := locktest.Lock(t, again.Context(), b)
	if n := locktest.HoldCount(t, inner.Context(), b); n != 3 {
		t.Errorf("b is held %d times, want 3", n)
	}
	if l.Token() != 0 || len(l.Parts()) != 3 || l.Parts()[0].Token() != outer.Token() || l.Parts()[1].Token() == 0 {
		t.Errorf("tokens %d, %v", l.Token(), l.Parts())
	}
	if _, err := m.Lock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("non-reentrant: %v", err)
	}
	for _, l := range []*holdfast.Lease{inner, again, l} {
		locktest.Release(t, l)
	}
	locktest.WantFree(t, b)
	locktest.WantRefused(t, c.Mutex(n+"a"))
	locktest.Release(t, outer)
	read, err := r.RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(read.Context()); !errors.Is(err, holdfast.ErrUpgrade) {
		t.Errorf("upgrade: %v", err)
	}
	locktest.WantFree(t, a)
	locktest.Release(t, read)
}

// Wait and lease times are what they are said to be, over one server and over
// two.
func TestMultiTimes(t *testing.T) {
	t.Parallel()
	s, far := redistest.Start(t), redistest.Start(t)
	c, d := locktest.Open(t, s.URL()), locktest.Open(t, far.URL())
	locktest.Parallel(2, func(i int) {
		n := locktest.Name(t)
		locks := [][]holdfast.Locker{
			{c.Mutex(n + "a"), c.Mutex(n + "b")},
			{c.Mutex(n + "a"), c.FairMutex(n + "b"), d.Mutex(n + "c")},
		}[i]
		m := holdfast.MultiLocker(locks...)
		const wait, lease = time.Second, 4 * time.Second
		last := locks[len(locks)-1]
		held := locktest.Lock(t, t.Context(), last)
		start := time.Now()
		_, err := m.Lock(t.Context(), holdfast.Wait(wait), holdfast.LeaseTime(lease))
		if took := time.Since(start); !locktest.TimedOut(err) || took < wait || locktest.Took(start) > wait+locktest.Late {
			t.Errorf("waited %v: %v", took, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("our own timer shows: %v", err)
		}
		// It waits longer than its lease, and still has the whole of it.
		ch := locktest.Background(t.Context(), m, holdfast.LeaseTime(lease))
		locktest.Outlast(t, c, lease+lease/2)
		locktest.Release(t, held)
		l := locktest.Entered(t, ch)
		if left := time.Until(l.Deadline()); left > lease || left < lease/4 {
			t.Errorf("%v left of %v", left, lease)
		}
		for _, key := range []string{n + "a", n + "b"} {
			if ttl := s.Int(t, "PTTL", key); ttl > lease.Milliseconds() || ttl < lease.Milliseconds()/8 {
				t.Errorf("TTL of %s is %d ms", key, ttl)
			}
		}
		<-l.Context().Done() // it is not renewed
		if !errors.Is(context.Cause(l.Context()), holdfast.ErrLost) {
			t.Error(context.Cause(l.Context()))
		}
		locktest.WantLost(t, l, holdfast.LossExpired)
		locktest.Eventually(t, 10*time.Second, "free", func() bool { return s.Int(t, "EXISTS", n+"a", n+"b") == 0 })
	})
}

// A fenced lock in a set keeps its counter, which must not expire.
func TestMultiKeepsTheCounter(t *testing.T) {
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	n := locktest.Name(t)
	m := holdfast.MultiLocker(c.FencedMutex(n), c.Mutex(n+"b"))
	for want := range int64(3) {
		l := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(time.Minute))
		if got := l.Parts()[0].Token(); got != want+1 {
			t.Errorf("token %d, want %d", got, want+1)
		}
		locktest.Release(t, l)
	}
	if ttl := s.Int(t, "PTTL", "redisson_lock_token:{"+n+"}"); ttl != -1 {
		t.Errorf("the counter expires in %d ms", ttl)
	}
}

func TestMultiBadInput(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	for what, m := range map[string]holdfast.Locker{
		"nothing":       holdfast.MultiLocker(),
		"nil":           holdfast.MultiLocker(nil),
		"a bad name":    holdfast.MultiLocker(c.Mutex("a{b")),
		"twice":         holdfast.MultiLocker(c.Mutex(n), c.Mutex(n)),
		"twice, nested": holdfast.MultiLocker(c.Mutex(n), holdfast.MultiLocker(c.RWMutex(n))),
		"a stranger":    holdfast.MultiLocker(c.Mutex(n), stranger{}),
	} {
		if _, err := m.Lock(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type stranger struct{ holdfast.Locker }

// A set that has waited for one of its locks for a while releases the others, and
// continues to wait while it holds none.
func TestMultiWaitsWithNothingInHand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	first := other.FairMutex(n + "a") // there is a queue for it at the server, so a set takes it first
	held := locktest.Lock(t, t.Context(), other.Mutex(n+"b"))
	before := grants(t, s)
	ch := locktest.Background(t.Context(), holdfast.MultiLocker(c.Mutex(n+"b"), c.FairMutex(n+"a")))
	locktest.Eventually(t, 5*time.Second, "the set has had its first lock", func() bool { return grants(t, s) > before && !locktest.Locked(t, first) })
	for range 30 {
		locktest.WantFree(t, first)
		locktest.Work(10 * time.Millisecond)
	}
	locktest.Release(t, held)
	locktest.Release(t, locktest.Entered(t, ch))
	locktest.WantFree(t, first)
}

// A set keeps its place in the queue of a fair lock, however long that takes.
func TestMultiKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	held := locktest.Lock(t, t.Context(), other.FairMutex(n))
	set := locktest.Background(t.Context(), holdfast.MultiLocker(c.Mutex(n+"x"), c.FairMutex(n)))
	place := locktest.Place{Owner: locktest.AwaitQueue(t, s, n, 1)[0], Got: set}
	next := locktest.Enqueue(t, t.Context(), s, other.FairMutex(n))
	locktest.WantFree(t, other.Mutex(n+"x")) // nothing is kept meanwhile
	for range 3 {                            // the first heartbeats have expired by then
		locktest.AwaitHeartbeats(t, s, n, place, next)
	}
	locktest.WantQueue(t, s, n, place, next)
	locktest.Release(t, held)
	l := locktest.Entered(t, set)
	locktest.WantWaiting(t, other, next.Got)
	locktest.WantQueue(t, s, n, next)
	locktest.Release(t, l)
	locktest.Release(t, locktest.Entered(t, next.Got))
}

// A lease time counts from the last grant also for what was entered again long
// before.
func TestMultiEntersForTheWholeLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	const lease, wait = 12 * time.Second, 2500 * time.Millisecond
	outer := locktest.Lock(t, t.Context(), c.Mutex(n+"a"), holdfast.LeaseTime(lease/2))
	held := locktest.Lock(t, t.Context(), other.Mutex(n+"b"))
	set := locktest.Background(outer.Context(), holdfast.MultiLocker(c.Mutex(n+"a"), c.Mutex(n+"b")), holdfast.LeaseTime(lease))
	locktest.Outlast(t, other, wait)
	freed := time.Now()
	locktest.Release(t, held)
	l := locktest.Entered(t, set)
	if left := time.Until(l.Deadline()); left > lease || l.Deadline().Sub(freed) < lease-wait/2 {
		t.Errorf("%v left of %v, %v after the last lock was free", left, lease, time.Since(freed))
	}
	locktest.Release(t, l)
	locktest.Release(t, outer)
}

// A set is not granted with a lock in it that was lost while another one was
// waited for.
func TestMultiLosesWhatItEntered(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	for _, tt := range []struct {
		why  holdfast.LossReason
		opts []holdfast.LockOption
		lose func(*holdfast.Mutex, *holdfast.Lease)
	}{
		{holdfast.LossExpired, []holdfast.LockOption{holdfast.LeaseTime(2 * time.Second)}, func(m *holdfast.Mutex, outer *holdfast.Lease) {
			<-outer.Context().Done()
			locktest.Eventually(t, 5*time.Second, "the server has dropped the lock", func() bool { return !locktest.Locked(t, m) })
		}},
		{holdfast.LossForced, nil, func(m *holdfast.Mutex, _ *holdfast.Lease) { _, _ = m.ForceUnlock(t.Context()) }},
	} {
		t.Run(string(tt.why), func(t *testing.T) {
			n := locktest.Name(t)
			a, b := c.Mutex(n+"a"), c.Mutex(n+"b")
			outer := locktest.Lock(t, t.Context(), a, tt.opts...)
			held := locktest.Lock(t, t.Context(), other.Mutex(n+"b"))
			set := locktest.Background(context.WithoutCancel(outer.Context()), holdfast.MultiLocker(a, b), tt.opts...)
			locktest.AwaitWaiting(t, c, 1)
			tt.lose(a, outer)
			locktest.WantFree(t, other.Mutex(n+"a"))
			locktest.Release(t, held)
			if o := locktest.Await(t, set); !errors.Is(o.Err, holdfast.ErrLost) {
				t.Errorf("error %v, want ErrLost", o.Err)
			}
			locktest.WantFree(t, other.Mutex(n+"b"))
			locktest.WantLost(t, outer, tt.why)
		})
	}
}

// What is read beside a write lease stays when that is released, also where it
// was one of several locks.
func TestMultiDowngrade(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	m := c.RWMutex(n)
	w := locktest.Lock(t, t.Context(), holdfast.MultiLocker(m, c.Mutex(n+"x")))
	r := locktest.Lock(t, w.Context(), m.RLocker())
	ctx := r.Context()
	locktest.Release(t, w)
	locktest.WantFree(t, c.Mutex(n+"x"))
	locktest.WantFree(t, m.RLocker())
	locktest.WantRefused(t, m)
	if !r.Valid() || ctx.Err() != nil {
		t.Errorf("ended with the write lease: %v", context.Cause(ctx))
	}
	locktest.Release(t, r)
	locktest.WantFree(t, m)
}

// Whatever is done to a lease on several locks at the same moment, nothing of
// it is left.
func TestMultiAllAtOnce(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL())
	a, b := c.Mutex("a"), c.RWMutex("b")
	m := holdfast.MultiLocker(a, b)
	for range 200 {
		l := locktest.Lock(t, t.Context(), m, holdfast.OnAcquire(func(l *holdfast.Lease) {
			if rand.IntN(8) == 0 {
				locktest.Release(t, l)
			}
		}))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range rand.IntN(1000) { // at most a fraction of a millisecond
					runtime.Gosched()
				}
				switch rand.IntN(7) {
				case 0:
					_, _ = b.ForceUnlock(t.Context())
				case 1:
					_ = l.Extend(t.Context(), time.Minute)
				case 2:
					_ = l.Release(t.Context())
				case 3:
					_, _, _, _ = l.Context(), l.Valid(), l.Deadline(), l.Parts()[1].Valid()
				case 4:
					_ = l.Parts()[0].Extend(t.Context(), time.Minute)
				case 5:
					if r, err := b.RLock(l.Context()); err == nil {
						_ = r.Context()
						_ = r.Release(t.Context())
					}
				case 6:
					if again, err := m.Lock(l.Context()); err == nil {
						_ = again.Release(t.Context())
					}
				}
			})
		}
		wg.Wait()
		_ = l.Release(t.Context())
	}
	locktest.Eventually(t, 10*time.Second, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
}

// A set gets its locks also if it only ever finds the one free that it needs
// last, and others queue for the first.
func TestMultiBetweenQueueAndLongHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := locktest.Name(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	keep := func(m holdfast.Locker, d time.Duration) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if l, err := m.Lock(ctx); err == nil {
					locktest.Work(d)
					_ = l.Release(ctx)
				}
			}
		})
	}
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	keep(other.Mutex(n+"b"), 5*time.Second)
	locktest.Eventually(t, 5*time.Second, "one is held", func() bool { return locktest.Locked(t, c.Mutex(n+"b")) })
	for range 3 {
		keep(other.FairMutex(n+"a"), 300*time.Millisecond)
	}
	locktest.AwaitQueue(t, s, n+"a", 2)
	locktest.Release(t, func() *holdfast.Lease {
		o := locktest.AwaitAfter(t, 40*time.Second, locktest.Background(ctx, holdfast.MultiLocker(c.FairMutex(n+"a"), c.Mutex(n+"b"))))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		return o.Lease
	}())
	cancel()
	wg.Wait()
}

// writes returns how many changes the server has made to its keys.
func writes(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	_, after, _ := strings.Cut(fmt.Sprint(s.Do(t, "INFO", "persistence")), "rdb_changes_since_last_save:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A set on one server that is not granted writes nothing, neither when it tries
// nor while it waits, until it queues after a quarter of a second: it uses up no
// fencing token, and no message is published.
func TestMultiLooksBeforeItWrites(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	m := holdfast.MultiLocker(c.FencedMutex(n+"1"), c.FencedMutex(n+"2"))
	held := locktest.Lock(t, t.Context(), other.FencedMutex(n+"2"), holdfast.LeaseTime(time.Minute))
	before := writes(t, s)
	for range 5 {
		if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Fatal(err)
		}
	}
	tried := writes(t, s)
	if n := tried - before; n != 0 {
		t.Errorf("%d changes for sets that were not granted", n)
	}
	began := time.Now()
	ch := locktest.Background(t.Context(), m)
	locktest.AwaitListener(t, s, "redisson_lock__channel:{"+n+"2}")
	for range 5 { // each wakes it, and the lock is still held
		looks := locktest.Calls(t, s, "evalsha")
		s.Do(t, "PUBLISH", "redisson_lock__channel:{"+n+"2}", "0")
		locktest.Eventually(t, 10*time.Second, "the set looks again", func() bool { return locktest.Calls(t, s, "evalsha") > looks })
	}
	if n := writes(t, s) - tried; n != 0 && time.Since(began) < 250*time.Millisecond {
		t.Errorf("%d changes for a set that waits", n)
	}
	locktest.Release(t, held)
	l := locktest.Entered(t, ch)
	if token := l.Parts()[0].Token(); token != 1 {
		t.Errorf("the first grant has token %d", token)
	}
	locktest.Release(t, l)
}

// A set that cannot be had says which lock it is for.
func TestMultiNamesTheBlocker(t *testing.T) {
	c := locktest.Open(t, redistest.Shared(t).URL())
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), c.Mutex(n+"b"))
	_, err := holdfast.MultiLocker(c.Mutex(n+"a"), c.Mutex(n+"b"), c.Mutex(n+"c")).TryLock(t.Context())
	if !errors.Is(err, holdfast.ErrNotAcquired) || !strings.Contains(err.Error(), `"`+n+`b" is held`) {
		t.Error(err)
	}
	locktest.Release(t, l)
}

// Mutexes of one server are taken with one request and released with one.
func TestMultiSendsTwoRequests(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	var locks []holdfast.Locker
	for i := range 8 {
		locks = append(locks, c.Mutex(fmt.Sprint("m", i)))
	}
	m := holdfast.MultiLocker(locks...)
	locktest.Release(t, locktest.Lock(t, t.Context(), m)) // the server learns the scripts
	p.ResetCounts()
	for range 10 {
		locktest.Release(t, locktest.Lock(t, t.Context(), m))
	}
	if n := p.Count("EVALSHA"); n != 20 {
		t.Errorf("10 pairs took %d requests: %v", n, p.Commands())
	}
	if n := s.Int(t, "DBSIZE"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

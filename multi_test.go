package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Sixteen goroutines over random, overlapping sets of eight names: each round
// ends, every name is held by one at a time, and nothing is left.
func TestMultiOverlapping(t *testing.T) {
	t.Parallel()
	const goroutines, names = 16, 8
	rounds := int64(often(5000))
	s := redistest.Fresh(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	base := name(t)
	var sections [names]*section
	for i := range sections {
		sections[i] = newSection(fmt.Sprint(base, i))
	}
	var visits [names]atomic.Int64
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	parallel(goroutines, func(g int) {
		c := []*holdfast.Client{a, b}[g%2]
		for done.Add(1) <= rounds {
			var locks []holdfast.Locker
			var in []int
			for _, i := range rand.Perm(names)[:1+rand.IntN(4)] {
				in = append(in, i)
				locks = append(locks, c.Mutex(sections[i].name))
			}
			l, err := holdfast.Multi(locks...).Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for _, i := range in {
				sections[i].visit(l, 0)
				visits[i].Add(1)
			}
			release(t, l)
		}
	})
	for i := range sections {
		sections[i].check(t, int(visits[i].Load()))
	}
	eventually(t, 10*time.Second, "nothing is left", func() bool { return s.Int(t, "DBSIZE") == 0 })
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
		clients = append(clients, open(t, s.URL()))
	}
	base := name(t)
	makers := []func(c *holdfast.Client, n string) holdfast.Locker{
		func(c *holdfast.Client, n string) holdfast.Locker { return c.Mutex(n) },
		func(c *holdfast.Client, n string) holdfast.Locker { return c.FairMutex(n) },
		func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) },
		func(c *holdfast.Client, n string) holdfast.Locker { return c.FencedMutex(n) },
	}
	var sections [3][4]*section
	for i := range sections {
		for j := range sections[i] {
			sections[i][j] = newSection(fmt.Sprint(base, i, j))
		}
	}
	var visits [3][4]atomic.Int64
	parallel(goroutines, func(int) {
		for range rounds {
			var locks []holdfast.Locker
			var in [][2]int
			for _, n := range rand.Perm(12)[:2+rand.IntN(3)] {
				i, j := n/4, n%4
				in = append(in, [2]int{i, j})
				locks = append(locks, makers[j](clients[i], sections[i][j].name))
			}
			wait := time.Duration(rand.IntN(100)) * time.Millisecond
			if rand.IntN(4) > 0 {
				wait = time.Minute
			}
			l, err := holdfast.Multi(locks...).Lock(t.Context(), holdfast.Wait(wait))
			if err != nil {
				if !tolerable(err) || wait == time.Minute {
					t.Error(err)
				}
				continue
			}
			for _, at := range in {
				sections[at[0]][at[1]].visit(l, 0)
				visits[at[0]][at[1]].Add(1)
			}
			release(t, l)
		}
	})
	for i := range sections {
		for j := range sections[i] {
			sections[i][j].check(t, int(visits[i][j].Load()))
		}
		s := servers[i]
		eventually(t, 10*time.Second, "nothing is left but the counter", func() bool { return s.Int(t, "DBSIZE") <= 1 })
	}
}

// A set that cannot be had leaves nothing of itself, wherever it stops.
func TestMultiAllOrNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	far := redistest.Start(t)
	d := open(t, far.URL())
	n := name(t)
	mine := []holdfast.Locker{
		c.Mutex(n + "a"), c.FencedMutex(n + "b"), c.RWMutex(n + "c"), c.RWMutex(n + "d").RLocker(), c.FairMutex(n + "e"), d.Mutex(n + "f"),
	}
	theirs := []holdfast.Locker{
		other.Mutex(n + "a"), other.Mutex(n + "b"), other.RWMutex(n + "c").RLocker(), other.RWMutex(n + "d"), other.Mutex(n + "e"), open(t, far.URL()).Mutex(n + "f"),
	}
	m := holdfast.Multi(mine...)
	for i, blocker := range theirs {
		held := lock(t, t.Context(), blocker)
		if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("without %d: %v", i, err)
		}
		if _, err := m.TryLock(t.Context(), holdfast.Wait(time.Second)); !inVain(err) {
			t.Errorf("without %d, with a wait: %v", i, err)
		}
		for j, l := range theirs {
			if j != i {
				wantFree(t, l)
			}
		}
		ch := background(t.Context(), m)
		time.Sleep(20 * time.Millisecond)
		release(t, held)
		l := entered(t, ch)
		for _, l := range theirs {
			wantRefused(t, l)
		}
		release(t, l)
		for _, l := range theirs {
			wantFree(t, l)
		}
	}
	// A key of another type is found when others are taken already.
	s.Do(t, "SET", n+"z", "precious")
	if _, err := holdfast.Multi(c.Mutex(n+"a"), c.Mutex(n+"z")).TryLock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("a key of another type: %v", err)
	}
	wantFree(t, theirs[0])
}

// The lease on several locks ends when one of them is lost.
func TestMultiLosesOne(t *testing.T) {
	s := redistest.Shared(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	a, b := c.Mutex(n+"a"), c.Mutex(n+"b")
	l := lock(t, t.Context(), holdfast.Multi(a, b))
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
	wantRefused(t, other.Mutex(n+"a")) // until it is released
	err := l.Release(t.Context())
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || lost.Name != n+"b" || lost.Reason != holdfast.LossForced {
		t.Errorf("release: %v", err)
	}
	wantFree(t, other.Mutex(n+"a"))
}

// What a context holds already is entered again, by the whole and by the parts.
func TestMultiEntersAgain(t *testing.T) {
	s := redistest.Shared(t)
	c := open(t, s.URL())
	n := name(t)
	a, b, r := c.Mutex(n+"a"), c.Mutex(n+"b"), c.RWMutex(n+"c")
	m := holdfast.Multi(a, b, r)
	outer := lock(t, t.Context(), a)
	l := lock(t, outer.Context(), m)
	if n := holds(t, l.Context(), a); n != 2 {
		t.Errorf("a is held %d times, want 2", n)
	}
	again := lock(t, l.Context(), m)
	inner := lock(t, again.Context(), b)
	if n := holds(t, inner.Context(), b); n != 3 {
		t.Errorf("b is held %d times, want 3", n)
	}
	if l.Token() != 0 || len(l.Parts()) != 3 || l.Parts()[0].Token() != outer.Token() || l.Parts()[1].Token() == 0 {
		t.Errorf("tokens %d, %v", l.Token(), l.Parts())
	}
	if _, err := m.Lock(l.Context(), holdfast.NonReentrant()); !errors.Is(err, holdfast.ErrReentrant) {
		t.Errorf("non-reentrant: %v", err)
	}
	for _, l := range []*holdfast.Lease{inner, again, l} {
		release(t, l)
	}
	wantFree(t, b)
	wantRefused(t, c.Mutex(n+"a"))
	release(t, outer)
	read, err := r.RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(read.Context()); !errors.Is(err, holdfast.ErrUpgrade) {
		t.Errorf("upgrade: %v", err)
	}
	wantFree(t, a)
	release(t, read)
}

// Wait and lease times are what they are said to be, over one server and over
// two.
func TestMultiTimes(t *testing.T) {
	t.Parallel()
	s, far := redistest.Start(t), redistest.Start(t)
	c, d := open(t, s.URL()), open(t, far.URL())
	parallel(2, func(i int) {
		n := name(t)
		locks := [][]holdfast.Locker{
			{c.Mutex(n + "a"), c.Mutex(n + "b")},
			{c.Mutex(n + "a"), c.FairMutex(n + "b"), d.Mutex(n + "c")},
		}[i]
		m := holdfast.Multi(locks...)
		const wait, lease = time.Second, 4 * time.Second
		last := locks[len(locks)-1]
		held := lock(t, t.Context(), last)
		start := time.Now()
		_, err := m.Lock(t.Context(), holdfast.Wait(wait), holdfast.LeaseTime(lease))
		if took := time.Since(start); !inVain(err) || took < wait || took > wait+late {
			t.Errorf("waited %v: %v", took, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("our own timer shows: %v", err)
		}
		// It waits longer than its lease, and still has the whole of it.
		ch := background(t.Context(), m, holdfast.LeaseTime(lease))
		time.Sleep(lease + lease/2)
		release(t, held)
		l := entered(t, ch)
		if left := time.Until(l.Deadline()); left > lease || left < lease/4 {
			t.Errorf("%v left of %v", left, lease)
		}
		for _, key := range []string{n + "a", n + "b"} {
			if ttl := s.Int(t, "PTTL", key); ttl > lease.Milliseconds() || ttl < lease.Milliseconds()/8 {
				t.Errorf("TTL of %s is %d ms", key, ttl)
			}
		}
		<-l.Context().Done() // nobody renews it
		if !errors.Is(context.Cause(l.Context()), holdfast.ErrLost) {
			t.Error(context.Cause(l.Context()))
		}
		wantLost(t, l, holdfast.LossExpired)
		eventually(t, 10*time.Second, "free", func() bool { return s.Int(t, "EXISTS", n+"a", n+"b") == 0 })
	})
}

// A fenced lock in a set keeps its counter, which must not expire.
func TestMultiKeepsTheCounter(t *testing.T) {
	s := redistest.Shared(t)
	c := open(t, s.URL())
	n := name(t)
	m := holdfast.Multi(c.FencedMutex(n), c.Mutex(n+"b"))
	for want := range int64(3) {
		l := lock(t, t.Context(), m, holdfast.LeaseTime(time.Minute))
		if got := l.Parts()[0].Token(); got != want+1 {
			t.Errorf("token %d, want %d", got, want+1)
		}
		release(t, l)
	}
	if ttl := s.Int(t, "PTTL", "redisson_lock_token:{"+n+"}"); ttl != -1 {
		t.Errorf("the counter expires in %d ms", ttl)
	}
}

func TestMultiBadInput(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	for what, m := range map[string]*holdfast.MultiMutex{
		"nothing":       holdfast.Multi(),
		"nil":           holdfast.Multi(nil),
		"a bad name":    holdfast.Multi(c.Mutex("a{b")),
		"twice":         holdfast.Multi(c.Mutex(n), c.Mutex(n)),
		"twice, nested": holdfast.Multi(c.Mutex(n), holdfast.Multi(c.RWMutex(n))),
		"a stranger":    holdfast.Multi(c.Mutex(n), stranger{}),
	} {
		if _, err := m.Lock(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type stranger struct{ holdfast.Locker }

// The time that a set waits for its last lock is not taken off its lease.
func TestMultiLeaseCountsFromTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	near, far := open(t, s.URL()), open(t, p.URL())
	const lease, wait = 3 * time.Second, 900 * time.Millisecond // less than until the first renewal
	set := func(n string) holdfast.Locker { return holdfast.Multi(near.FairMutex(n+"a"), far.Mutex(n+"b")) }
	release(t, lock(t, t.Context(), set(name(t)))) // so that both are connected
	n := name(t)
	p.Freeze()
	ch := background(t.Context(), set(n), holdfast.LeaseTime(lease))
	eventually(t, 5*time.Second, "the set has its first lock", func() bool { return locked(t, near.FairMutex(n+"a")) })
	time.Sleep(wait)
	freed := time.Now()
	p.Thaw()
	l := entered(t, ch)
	if left := time.Until(l.Deadline()); left > lease || l.Deadline().Sub(freed) < lease-wait/2 {
		t.Errorf("%v left of %v, %v after the last lock was free", left, lease, time.Since(freed))
	}
	release(t, l)
}

// A set that has waited for one of its locks for a while gives back the others,
// and goes on to wait with nothing in hand.
func TestMultiWaitsWithNothingInHand(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	first := other.FairMutex(n + "a") // there is a queue for it at the server, so a set takes it first
	held := lock(t, t.Context(), other.Mutex(n+"b"))
	before := grants(t, s)
	ch := background(t.Context(), holdfast.Multi(c.Mutex(n+"b"), c.FairMutex(n+"a")))
	eventually(t, 5*time.Second, "the set has had its first lock", func() bool { return grants(t, s) > before && !locked(t, first) })
	for range 30 {
		wantFree(t, first)
		time.Sleep(10 * time.Millisecond)
	}
	release(t, held)
	release(t, entered(t, ch))
	wantFree(t, first)
}

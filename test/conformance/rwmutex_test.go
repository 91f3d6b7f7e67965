package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are what Redisson's tests ask of the read/write lock
// and of its renewal, beyond what all kinds share. The number in a test's name
// is its id. Most of Redisson's times are divided by ten.

// ampleLease is longer than any test, and tells when a lock was taken.
const ampleLease = 10 * time.Second

var ample = holdfast.LeaseTime(ampleLease)

// longest is how long the leases of readers last at most whose end a writer
// waits for.
const longest = 4 * time.Second

// slip returns how many ms the keys of a lease end apart at most: as long as a
// script takes, since the clock may go on between two of its commands, and as a
// request takes, since a client counts a lease from before its request, and may
// renew it for the rest. The meter must have run since the lease was taken.
func slip(stalls *redistest.StallMeter) int64 {
	return 500 + stalls.Since(time.Time{}).Milliseconds()
}

// entersAt checks that a writer with an ample lease enters as soon as the server's
// clock has passed ends, and not before.
func entersAt(tb testing.TB, s *redistest.Server, stalls *redistest.StallMeter, writer <-chan locktest.Outcome, ends int64, bound time.Duration) {
	tb.Helper()
	l := locktest.EnteredAfter(tb, longest, writer)
	after := expiry(tb, s, l.Name()) - ampleLease.Milliseconds() - ends
	if after < -slip(stalls) || after > bound.Milliseconds() {
		tb.Errorf("entered %d ms after the last lease ended, want between 0 and %v", after, bound)
	}
	locktest.Release(tb, l)
}

func TestRW01WriterWaitsForLongestReader(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	n := locktest.Name(t)
	long := locktest.Lock(t, t.Context(), a.RWMutex(n).RLocker(), holdfast.LeaseTime(longest))
	short := locktest.Lock(t, t.Context(), b.RWMutex(n).RLocker(), holdfast.LeaseTime(longest-3*time.Second))
	ends := expiry(t, s, locktest.HoldKey(long, 1))
	if ends < expiry(t, s, locktest.HoldKey(short, 1)) {
		t.Fatal("the longer lease ends first")
	}
	entersAt(t, s, stalls, locktest.Background(t.Context(), b.RWMutex(n), ample), ends, locktest.Late)
	locktest.WantLost(t, long, holdfast.LossExpired)
	locktest.WantLost(t, short, holdfast.LossExpired)
}

func TestRW02WriterMayRead(t *testing.T) {
	m := locktest.Open(t, redistest.Shared(t).URL()).RWMutex(locktest.Name(t))
	w := locktest.Lock(t, t.Context(), m)
	locktest.WantSides(t, m, true, false)
	r := locktest.Lock(t, w.Context(), m.RLocker())
	locktest.WantSides(t, m, true, true)
	locktest.Release(t, r)
	locktest.WantSides(t, m, true, false)
	locktest.Release(t, w)
	locktest.WantSides(t, m, false, false)
}

func TestRW03Names(t *testing.T) {
	s := redistest.Fresh(t)
	c := locktest.Open(t, locktest.Enduring(s.URL()))
	for _, n := range []string{"{Test:rw}:x", "Test:a:{b}:c", "Test::", "Testx{t}"} {
		m := c.RWMutex(n)
		sec := locktest.NewSection(n)
		locktest.Parallel(10, func(i int) {
			for r := range 10 {
				if (i+r)%10 == 0 {
					l := locktest.Lock(t, t.Context(), m)
					sec.Visit(l, 0)
					locktest.Release(t, l)
					continue
				}
				l := locktest.Lock(t, t.Context(), m.RLocker())
				sec.Read(l, 0)
				locktest.Release(t, l)
			}
		})
		sec.Check(t, 100)
	}
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

func TestRW04NestedWriteLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	other := locktest.Open(t, s.URL()).RWMutex(m.Name())
	outer := locktest.Lock(t, t.Context(), m, holdfast.LeaseTime(20*time.Second))
	inner := locktest.Lock(t, outer.Context(), m, holdfast.LeaseTime(100*time.Millisecond))
	for _, l := range []holdfast.Locker{other, other.RLocker()} {
		if _, err := l.TryLock(t.Context(), holdfast.Wait(2*time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("error %v, want ErrNotAcquired", err)
		}
	}
	if !outer.Valid() || !inner.Valid() {
		t.Errorf("valid: outer %v, inner %v", outer.Valid(), inner.Valid())
	}
	locktest.Release(t, inner)
	locktest.WantRefused(t, other)
	locktest.Release(t, outer)
	locktest.WantFree(t, other)
}

func TestRW06WriterVanishes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	holder := locktest.Open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		m := c.RWMutex(locktest.Name(t))
		w := locktest.Lock(t, t.Context(), holder.RWMutex(m.Name()), holdfast.LeaseTime(500*time.Millisecond))
		ends := expiry(t, s, m.Name())
		waiters := []<-chan locktest.Outcome{
			locktest.Background(t.Context(), m.RLocker(), ample),
			locktest.Background(t.Context(), m.RLocker(), ample),
		}
		for _, waiter := range waiters {
			l := locktest.EnteredAfter(t, 500*time.Millisecond, waiter)
			after := expiry(t, s, locktest.HoldKey(l, 1)) - ampleLease.Milliseconds() - ends
			if after < 0 || after > locktest.Late.Milliseconds() {
				t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, locktest.Late)
			}
			defer locktest.Release(t, l)
		}
		locktest.WantLost(t, w, holdfast.LossExpired)
	})
}

func TestRW07DeadReaderEndsInTime(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for _, tt := range []struct {
		writer  string
		waiting bool // already while the second reader is there
		poll    time.Duration
		late    time.Duration
	}{
		{"comes later", false, 5 * time.Second, locktest.Late},
		// It has seen the second reader's time, and no message announces its end, so
		// the poll interval counts.
		{"waits meanwhile", true, 300 * time.Millisecond, locktest.Late + 300*time.Millisecond},
	} {
		t.Run(tt.writer, func(t *testing.T) {
			t.Parallel()
			stalls := redistest.MeterStalls(t, s)
			a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
			c := locktest.Open(t, s.URL(), holdfast.Options{PollInterval: tt.poll})
			w := c.RWMutex(locktest.Name(t))
			dead := locktest.Lock(t, t.Context(), a.RWMutex(w.Name()).RLocker(), holdfast.LeaseTime(longest))
			ends := expiry(t, s, locktest.HoldKey(dead, 1))
			locktest.AwaitOlder(t, s, locktest.HoldKey(dead, 1), longest, 300*time.Millisecond)
			alive := locktest.Lock(t, t.Context(), b.RWMutex(w.Name()).RLocker())
			var writer <-chan locktest.Outcome
			if tt.waiting {
				writer = locktest.Background(t.Context(), w, ample)
				locktest.AwaitWaiting(t, c, 1)
			}
			locktest.Release(t, alive)
			if now, slip := expiry(t, s, w.Name()), slip(stalls); now < ends-slip || now > ends+slip {
				t.Errorf("the lock ends %d ms after its only reader", now-ends)
			}
			if !tt.waiting {
				writer = locktest.Background(t.Context(), w, ample)
			}
			entersAt(t, s, stalls, writer, ends, tt.late)
		})
	}
}

func TestRW08StaggeredReads(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	other := locktest.Open(t, s.URL()).RWMutex(m.Name())
	for _, back := range []string{"the first", "the second"} {
		first := locktest.Lock(t, t.Context(), m.RLocker(), holdfast.LeaseTime(longest))
		locktest.AwaitOlder(t, s, locktest.HoldKey(first, 1), longest, 200*time.Millisecond)
		// Not ended with the first one's context.
		second := locktest.Lock(t, context.WithoutCancel(first.Context()), m.RLocker(), holdfast.LeaseTime(longest))
		ends := expiry(t, s, locktest.HoldKey(first, 2))
		left := first
		if back == "the first" {
			locktest.Release(t, first)
			left = second
		} else {
			locktest.Release(t, second)
		}
		// What is left lasts as long as what was there.
		entersAt(t, s, stalls, locktest.Background(t.Context(), other, ample), ends, locktest.Late)
		locktest.WantLost(t, left, holdfast.LossExpired)
	}
}

func TestRW09NestedReadLeavesWrite(t *testing.T) {
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	other := locktest.Open(t, s.URL()).RWMutex(m.Name())
	w := locktest.Lock(t, t.Context(), m)
	locktest.Release(t, locktest.Lock(t, w.Context(), m.RLocker()))
	locktest.WantSides(t, m, true, false)
	locktest.WantRefused(t, other)
	locktest.WantRefused(t, other.RLocker())
	if locktest.HoldCount(t, w.Context(), m) != 1 || !w.Valid() {
		t.Error("the writer has lost its lock")
	}
	locktest.Release(t, w)
	locktest.WantFree(t, other)
}

func TestRW10ReadersEnterTogether(t *testing.T) {
	t.Parallel()
	const readers = 20
	holder := locktest.Open(t, redistest.Shared(t).URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		m := c.RWMutex(locktest.Name(t))
		w := locktest.Lock(t, t.Context(), holder.RWMutex(m.Name()))
		var waiters []<-chan locktest.Outcome
		for range readers {
			waiters = append(waiters, locktest.Background(t.Context(), m.RLocker()))
		}
		locktest.AwaitWaiting(t, c, readers)
		locktest.WantSides(t, m, true, false)
		locktest.Release(t, w)
		start := time.Now()
		var ls []*holdfast.Lease // none leaves before all are in
		for _, waiter := range waiters {
			ls = append(ls, locktest.Entered(t, waiter))
		}
		if took := locktest.Took(start); took > locktest.Late {
			t.Errorf("all are in after %v", took)
		}
		st, err := m.State(t.Context())
		if n := len(st.Readers); err != nil || n == 0 || n > readers || st.Writer.Owner != "" { // readers of one client share holds
			t.Errorf("State has %d readers and the writer %q, %v, want 1 to %d and none", n, st.Writer.Owner, err, readers)
		}
		for _, l := range ls {
			locktest.Release(t, l)
		}
		locktest.WantFree(t, m)
	})
}

func TestRW11WriteAndRead(t *testing.T) {
	url := redistest.Shared(t).URL()
	m := locktest.Open(t, url).RWMutex(locktest.Name(t))
	other := locktest.Open(t, url).RWMutex(m.Name())
	w := locktest.Lock(t, t.Context(), m)
	r := locktest.Lock(t, w.Context(), m.RLocker())
	for _, others := range []*holdfast.RWMutex{m, other} {
		locktest.WantRefused(t, others.RLocker())
		locktest.WantRefused(t, others)
	}
	locktest.Release(t, w)
	for _, others := range []*holdfast.RWMutex{m, other} {
		locktest.WantFree(t, others.RLocker())
		locktest.WantRefused(t, others)
	}
	if !r.Valid() {
		t.Error("the read lease has ended with the write lease")
	}
	locktest.Release(t, r)
	locktest.WantFree(t, other)
	locktest.WantFree(t, m)
}

func TestRW12WriteReentry(t *testing.T) {
	url := redistest.Shared(t).URL()
	m := locktest.Open(t, url).RWMutex(locktest.Name(t))
	other := locktest.Open(t, url).RWMutex(m.Name())
	outer := locktest.Lock(t, t.Context(), m)
	inner := locktest.Lock(t, outer.Context(), m)
	if n := locktest.HoldCount(t, inner.Context(), m); n != 2 {
		t.Errorf("HoldCount is %d, want 2", n)
	}
	locktest.WantRefused(t, other.RLocker())
	locktest.Release(t, inner)
	locktest.WantRefused(t, other.RLocker())
	locktest.WantRefused(t, m.RLocker())
	locktest.WantSides(t, other, true, false)
	locktest.Release(t, outer)
	locktest.WantSides(t, other, false, false)
	r := locktest.Lock(t, t.Context(), other.RLocker())
	locktest.WantSides(t, m, false, true)
	locktest.Release(t, r)
	locktest.WantSides(t, m, false, false)
}

func TestRW13TwoReaders(t *testing.T) {
	url := redistest.Shared(t).URL()
	holder := locktest.Open(t, url)
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		m := c.RWMutex(locktest.Name(t))
		if freed, err := locktest.Readers(m).ForceUnlock(t.Context()); freed || err != nil {
			t.Errorf("ForceUnlock of a free lock: %v, %v", freed, err)
		}
		first := locktest.Lock(t, t.Context(), holder.RWMutex(m.Name()).RLocker())
		second := locktest.Lock(t, t.Context(), m.RLocker())
		if c != holder && first.Owner() == second.Owner() { // readers of one client may share a hold
			t.Error("both have one owner")
		}
		locktest.WantRefused(t, m)
		locktest.Release(t, first)
		locktest.WantRefused(t, m)
		locktest.Release(t, second)
		locktest.WantFree(t, m)
	})
}

func TestRW14ForceUnlockOfOneSide(t *testing.T) {
	url := redistest.Shared(t).URL()
	a, b := locktest.Open(t, url), locktest.Open(t, url)
	for by, c := range map[string]*holdfast.Client{"the holder's client": a, "another client": b} {
		t.Run(by, func(t *testing.T) {
			m := a.RWMutex(locktest.Name(t))
			force := c.RWMutex(m.Name())
			w := locktest.Lock(t, t.Context(), m)
			if freed, err := locktest.Readers(force).ForceUnlock(t.Context()); freed || err != nil {
				t.Errorf("ForceUnlock of the read side of a write lock: %v, %v", freed, err)
			}
			locktest.WantSides(t, m, true, false)
			locktest.Release(t, w)

			r := locktest.Lock(t, t.Context(), m.RLocker())
			if freed, err := force.ForceUnlock(t.Context()); freed || err != nil {
				t.Errorf("ForceUnlock of the write side of a read lock: %v, %v", freed, err)
			}
			locktest.WantSides(t, m, false, true)
			if !r.Valid() {
				t.Error("the reader has lost its lock")
			}
			locktest.Release(t, r)
		})
	}
}

func TestRW15LivingDoNotRenewDead(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	m := c.RWMutex(locktest.Name(t))
	p := redistest.Worker(t, "holder", "URL="+locktest.Address(t, s.URL()), "NAME="+m.Name(), "KIND=read")
	dead := <-p.Lines()
	alive := locktest.Lock(t, t.Context(), m.RLocker())
	locktest.WantRenewed(t, s, m.Name(), fmt.Sprintf("{%s}:%s:rwlock_timeout:1", m.Name(), dead), locktest.HoldKey(alive, 1))
	if st, err := m.State(t.Context()); err != nil || len(st.Readers) != 2 {
		t.Fatalf("State is %+v, %v, want two readers", st, err)
	}
	p.Kill()
	key := fmt.Sprintf("{%s}:%s:rwlock_timeout:1", m.Name(), dead)
	ends := expiry(t, s, key)
	locktest.Eventually(t, locktest.Steady.WatchdogTimeout+locktest.Late, "the dead reader's time is over", func() bool { return s.Int(t, "EXISTS", key) == 0 })
	locktest.WantRenewed(t, s, locktest.HoldKey(alive, 1))
	if now := expiry(t, s, m.Name()); now < ends {
		t.Errorf("the lock ends %d ms before the dead reader's", ends-now)
	}
	st, err := m.State(t.Context())
	if err != nil || len(st.Readers) != 1 || st.Readers[0].Owner != alive.Owner() {
		t.Errorf("State is %+v, %v, want one reader, %s", st, err, alive.Owner())
	}
	locktest.WantRefused(t, m)
	locktest.Release(t, alive)
	locktest.WantFree(t, m)
}

func init() {
	workers["readers"] = func() {
		ctx := context.Background()
		for range 20 {
			c, err := holdfast.Open(ctx, os.Getenv("URL"), &locktest.Steady)
			if err != nil {
				panic(err)
			}
			for ctx, n := ctx, 0; n < 3; n++ {
				l, err := c.RWMutex(os.Getenv("NAME")).RLock(ctx)
				if err != nil {
					panic(err)
				}
				ctx = l.Context()
			}
		}
		fmt.Println("ready")
		select {} // until killed
	}
}

func TestRW16ManyDeadReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	m := locktest.Open(t, s.URL()).RWMutex(locktest.Name(t))
	p := redistest.Worker(t, "readers", "URL="+locktest.Address(t, s.URL()), "NAME="+m.Name())
	if line := <-p.Lines(); line != "ready" {
		t.Fatalf("the worker said %q", line)
	}
	st, err := m.State(t.Context())
	if err != nil || len(st.Readers) != 20 || st.Readers[0].Holds != 3 {
		t.Fatalf("State is %+v, %v, want 20 readers with 3 holds each", st, err)
	}
	var holds []string
	for _, r := range st.Readers {
		for n := 1; n <= 3; n++ {
			holds = append(holds, fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", m.Name(), r.Owner, n))
		}
	}
	locktest.WantRenewed(t, s, holds...)
	p.Kill()
	ends := expiry(t, s, m.Name())
	entersAt(t, s, stalls, locktest.Background(t.Context(), m, ample), ends, locktest.Late)
}

// Only a holder has a lease to release. So a non-owner is a former holder whose
// lease is over, and which may not know that.
func TestRW17ReleaseByNonOwner(t *testing.T) {
	s := redistest.Shared(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	m := a.RWMutex(locktest.Name(t))
	other := b.RWMutex(m.Name())
	old := locktest.Lock(t, t.Context(), m.RLocker())
	if freed, err := locktest.Readers(other).ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatalf("ForceUnlock of a held lock: %v, %v", freed, err)
	}
	if s.Int(t, "EXISTS", locktest.HoldKey(old, 1)) != 0 {
		t.Error("the reader's own key is left")
	}
	reader := locktest.Lock(t, t.Context(), other.RLocker())
	// Two keys that one script sets need not end in the same millisecond.
	ends, holdEnds := expiry(t, s, m.Name()), expiry(t, s, locktest.HoldKey(reader, 1))
	locktest.WantLost(t, old, holdfast.LossNotOwner)
	if !reader.Valid() || expiry(t, s, m.Name()) != ends || expiry(t, s, locktest.HoldKey(reader, 1)) != holdEnds {
		t.Error("the new reader's lease was touched")
	}
	locktest.WantRefused(t, m)
	locktest.Release(t, reader)
	locktest.WantFree(t, m)
}

// restartedEmpty checks that the holder of m learns that the server has lost its
// memory, and that the next lease is renewed.
func restartedEmpty(t *testing.T, s *redistest.Server, m locktest.MutexLike) {
	t.Helper()
	l := locktest.Lock(t, t.Context(), m)
	ctx := l.Context()
	s.Restart()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("the cause of the lease's context is %v, want ErrLost", cause)
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release returned %v, want ErrLost", err)
	}

	l = locktest.Lock(t, t.Context(), m)
	ctx = l.Context()
	locktest.WantRenewed(t, s, m.Name())
	if !l.Valid() || ctx.Err() != nil {
		t.Errorf("the new lease is not renewed: %v", context.Cause(ctx))
	}
	if owner, _ := look(t, m); owner != l.Owner() {
		t.Errorf("the owner is %q, want %q", owner, l.Owner())
	}
	locktest.Release(t, l)
	locktest.WantFree(t, m)
}

func TestRN02ReadAfterServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), unshaken)
	restartedEmpty(t, s, locktest.Readers(c.RWMutex(locktest.Name(t))))
}

func TestRN03WriteAfterServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL(), unshaken).RWMutex(locktest.Name(t))
	restartedEmpty(t, s, m)
	// There is nothing to renew for two intervals, in this client.
	other := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL(), unshaken).RWMutex(locktest.Name(t)))
	locktest.WantRenewed(t, s, other.Name())
	l := locktest.Lock(t, t.Context(), m)
	locktest.WantRenewed(t, s, m.Name())
	if !l.Valid() {
		t.Error("the lease after the pause is not renewed")
	}
	locktest.Release(t, l)
}

func TestRN05NobodyRenewsWhatIsReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr())
	m := locktest.Open(t, proxy.URL(), locktest.Steady).RWMutex(locktest.Name(t))
	other := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL(), locktest.Steady).RWMutex(locktest.Name(t)))
	for _, nested := range []int{1, 3} {
		// Repeat if it took a renewal interval: a renewal may be on its way.
		for start := (time.Time{}); time.Since(start) >= locktest.Steady.RenewEvery; {
			start = time.Now()
			var ls []*holdfast.Lease
			for ctx := t.Context(); len(ls) < nested; ctx = ls[len(ls)-1].Context() {
				ls = append(ls, locktest.Lock(t, ctx, m.RLocker()))
			}
			for i := nested - 1; i >= 0; i-- {
				locktest.Release(t, ls[i])
			}
			proxy.ResetCounts()
		}
		for range 2 { // each is two intervals
			locktest.WantRenewed(t, s, other.Name())
		}
		if n := proxy.Count("EVALSHA") + proxy.Count("EVAL"); n != 0 {
			t.Errorf("%d calls after the last of %d nested releases", n, nested)
		}
	}
}

func TestRN06ManyReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL(), unshaken).RWMutex(locktest.Name(t))
	locktest.Parallel(25, func(int) {
		for range 2 {
			l := locktest.Lock(t, t.Context(), m.RLocker())
			locktest.WantRenewed(t, s, locktest.HoldKey(l, 1))
			locktest.Release(t, l)
		}
	})
	locktest.WantFree(t, m)
}

func TestRN07WriteAndReadAreBothRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL(), unshaken).RWMutex(locktest.Name(t))
	w := locktest.Lock(t, t.Context(), m)
	r := locktest.Lock(t, w.Context(), m.RLocker())
	locktest.WantRenewed(t, s, m.Name(), locktest.HoldKey(r, 1))
	if !w.Valid() || !r.Valid() {
		t.Errorf("valid: write %v, read %v", w.Valid(), r.Valid())
	}
	locktest.Release(t, w)
	locktest.WantRenewed(t, s, m.Name(), locktest.HoldKey(r, 1))
	if !r.Valid() {
		t.Error("the read lease is not valid")
	}
	locktest.Release(t, r)
	locktest.WantFree(t, m)
}

// A reader that was killed keeps a writer out for its own time, and no longer,
// whatever other readers do meanwhile.
func TestDeadReaderFreesWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	const poll = 200 * time.Millisecond
	c := locktest.Open(t, s.URL(), holdfast.Options{PollInterval: poll, WatchdogTimeout: locktest.Steady.WatchdogTimeout, RenewEvery: locktest.Steady.RenewEvery})
	m := c.RWMutex(locktest.Name(t))
	p := redistest.Worker(t, "holder", "URL="+s.URL(), "NAME="+m.Name(), "KIND=read")
	dead := <-p.Lines()
	alive := locktest.Lock(t, t.Context(), m.RLocker())
	writer := locktest.Background(t.Context(), m, ample)
	hold := fmt.Sprintf("{%s}:%s:rwlock_timeout:1", m.Name(), dead)
	locktest.WantRenewed(t, s, hold)
	p.Kill()
	ends := expiry(t, s, hold)
	locktest.WantRenewed(t, s, locktest.HoldKey(alive, 1))
	locktest.Release(t, alive)
	entersAt(t, s, stalls, writer, ends, locktest.Late+poll)
}

// A writer whose lease ends while what it reads goes on lets others read.
func TestWriterExpiresBesideItsReading(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	m := locktest.Open(t, s.URL(), locktest.Unpolled).RWMutex(locktest.Name(t))
	w := locktest.Lock(t, t.Context(), c.RWMutex(m.Name()), holdfast.LeaseTime(longest))
	ends := expiry(t, s, m.Name())
	r := locktest.Lock(t, w.Context(), c.RWMutex(m.Name()).RLocker())
	l := locktest.EnteredAfter(t, longest, locktest.Background(t.Context(), m.RLocker(), ample))
	if after := expiry(t, s, locktest.HoldKey(l, 1)) - ampleLease.Milliseconds() - ends; after < -locktest.Late.Milliseconds() || after > locktest.Late.Milliseconds() {
		// To its client it ends as much earlier as the request took to arrive.
		t.Errorf("entered %d ms after the lease ended", after)
	}
	if w.Valid() || !r.Valid() {
		t.Errorf("valid: write %v, read %v", w.Valid(), r.Valid())
	}
	locktest.WantLost(t, w, holdfast.LossExpired)
	locktest.Release(t, l)
	locktest.Release(t, r)
	locktest.WantFree(t, m)
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are what Redisson's tests ask of the read/write lock
// and of its renewal, beyond what all kinds share. The number in a test's name
// is its id. Most of Redisson's times are divided by ten.

// holdKey returns the key that says how long the n-th hold of a reader lasts.
func holdKey(l *holdfast.Lease, n int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", l.Name(), l.Owner(), n)
}

// wantSides checks what both sides of m say about themselves.
func wantSides(tb testing.TB, m *holdfast.RWMutex, write, read bool) {
	tb.Helper()
	if locked(tb, m) != write {
		tb.Errorf("locked to write: %v, want %v", !write, write)
	}
	if locked(tb, m.RLocker()) != read {
		tb.Errorf("locked to read: %v, want %v", !read, read)
	}
}

// ampleLease is longer than any test, and tells when a lock was taken.
const ampleLease = 10 * time.Second

var ample = holdfast.LeaseTime(ampleLease)

// longest is how long the leases of readers last at most whose end a writer
// waits for.
const longest = 4 * time.Second

// slip returns how many ms the keys of a lease end apart at most: as long as a
// script takes, and the clock may go on between two of its commands. The meter
// must have run since the lease was taken.
func slip(stalls *redistest.StallMeter) int64 {
	return 50 + stalls.Since(time.Time{}).Milliseconds()
}

// entersAt checks that a writer with an ample lease gets in as soon as the server's clock has passed
// ends, and not before.
func entersAt(tb testing.TB, s *redistest.Server, stalls *redistest.StallMeter, writer <-chan outcome, ends int64, bound time.Duration) {
	tb.Helper()
	l := enteredAfter(tb, longest, writer)
	after := expiry(tb, s, l.Name()) - ampleLease.Milliseconds() - ends
	if after < -slip(stalls) || after > bound.Milliseconds() {
		tb.Errorf("entered %d ms after the last lease ended, want between 0 and %v", after, bound)
	}
	release(tb, l)
}

func TestRW01WriterWaitsForLongestReader(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	a, b := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	long := lock(t, t.Context(), a.RWMutex(n).RLocker(), holdfast.LeaseTime(longest))
	short := lock(t, t.Context(), b.RWMutex(n).RLocker(), holdfast.LeaseTime(longest-3*time.Second))
	ends := expiry(t, s, holdKey(long, 1))
	if ends < expiry(t, s, holdKey(short, 1)) {
		t.Fatal("the longer lease ends first")
	}
	entersAt(t, s, stalls, background(t.Context(), b.RWMutex(n), ample), ends, late)
	wantLost(t, long, holdfast.LossExpired)
	wantLost(t, short, holdfast.LossExpired)
}

func TestRW02WriterMayRead(t *testing.T) {
	m := open(t, redistest.Shared(t).URL()).RWMutex(name(t))
	w := lock(t, t.Context(), m)
	wantSides(t, m, true, false)
	r := lock(t, w.Context(), m.RLocker())
	wantSides(t, m, true, true)
	release(t, r)
	wantSides(t, m, true, false)
	release(t, w)
	wantSides(t, m, false, false)
}

func TestRW03Names(t *testing.T) {
	s := redistest.Fresh(t)
	c := open(t, enduring(s.URL()))
	for _, n := range []string{"{Test:rw}:x", "Test:a:{b}:c", "Test::", "Testx{t}"} {
		m := c.RWMutex(n)
		sec := newSection(n)
		parallel(10, func(i int) {
			for r := range 10 {
				if (i+r)%10 == 0 {
					l := lock(t, t.Context(), m)
					sec.visit(l, 0)
					release(t, l)
					continue
				}
				l := lock(t, t.Context(), m.RLocker())
				sec.read(l, 0)
				release(t, l)
			}
		})
		sec.check(t, 100)
	}
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

func TestRW04NestedWriteLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := open(t, s.URL()).RWMutex(name(t))
	other := open(t, s.URL()).RWMutex(m.Name())
	outer := lock(t, t.Context(), m, holdfast.LeaseTime(20*time.Second))
	inner := lock(t, outer.Context(), m, holdfast.LeaseTime(100*time.Millisecond))
	for _, l := range []holdfast.Locker{other, other.RLocker()} {
		if _, err := l.TryLock(t.Context(), holdfast.Wait(2*time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("error %v, want ErrNotAcquired", err)
		}
	}
	if !outer.Valid() || !inner.Valid() {
		t.Errorf("valid: outer %v, inner %v", outer.Valid(), inner.Valid())
	}
	release(t, inner)
	wantRefused(t, other)
	release(t, outer)
	wantFree(t, other)
}

func TestRW06WriterVanishes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	holder := open(t, s.URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		m := c.RWMutex(name(t))
		w := lock(t, t.Context(), holder.RWMutex(m.Name()), holdfast.LeaseTime(500*time.Millisecond))
		ends := expiry(t, s, m.Name())
		waiters := []<-chan outcome{
			background(t.Context(), m.RLocker(), ample),
			background(t.Context(), m.RLocker(), ample),
		}
		for _, waiter := range waiters {
			l := enteredAfter(t, 500*time.Millisecond, waiter)
			after := expiry(t, s, holdKey(l, 1)) - ampleLease.Milliseconds() - ends
			if after < 0 || after > late.Milliseconds() {
				t.Errorf("entered %d ms after the lease ended, want between 0 and %v", after, late)
			}
			defer release(t, l)
		}
		wantLost(t, w, holdfast.LossExpired)
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
		{"comes later", false, 5 * time.Second, late},
		// It has seen the second reader's time, and nobody tells it that this
		// is over, so the poll bound counts.
		{"waits meanwhile", true, 300 * time.Millisecond, late + 300*time.Millisecond},
	} {
		t.Run(tt.writer, func(t *testing.T) {
			t.Parallel()
			stalls := redistest.MeterStalls(t, s)
			a, b := open(t, s.URL()), open(t, s.URL())
			w := open(t, s.URL(), holdfast.Options{PollInterval: tt.poll}).RWMutex(name(t))
			dead := lock(t, t.Context(), a.RWMutex(w.Name()).RLocker(), holdfast.LeaseTime(longest))
			ends := expiry(t, s, holdKey(dead, 1))
			time.Sleep(300 * time.Millisecond)
			alive := lock(t, t.Context(), b.RWMutex(w.Name()).RLocker())
			var writer <-chan outcome
			if tt.waiting {
				writer = background(t.Context(), w, ample)
				time.Sleep(50 * time.Millisecond) // until it waits, most likely
			}
			release(t, alive)
			if now, slip := expiry(t, s, w.Name()), slip(stalls); now < ends-slip || now > ends+slip {
				t.Errorf("the lock ends %d ms after its only reader", now-ends)
			}
			if !tt.waiting {
				writer = background(t.Context(), w, ample)
			}
			entersAt(t, s, stalls, writer, ends, tt.late)
		})
	}
}

func TestRW08StaggeredReads(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	stalls := redistest.MeterStalls(t, s)
	m := open(t, s.URL()).RWMutex(name(t))
	other := open(t, s.URL()).RWMutex(m.Name())
	for _, back := range []string{"the first", "the second"} {
		first := lock(t, t.Context(), m.RLocker(), holdfast.LeaseTime(longest))
		time.Sleep(200 * time.Millisecond)
		// Not ended with the first one's context.
		second := lock(t, context.WithoutCancel(first.Context()), m.RLocker(), holdfast.LeaseTime(longest))
		ends := expiry(t, s, holdKey(first, 2))
		left := first
		if back == "the first" {
			release(t, first)
			left = second
		} else {
			release(t, second)
		}
		// What is left lasts as long as what was there.
		entersAt(t, s, stalls, background(t.Context(), other, ample), ends, late)
		wantLost(t, left, holdfast.LossExpired)
	}
}

func TestRW09NestedReadLeavesWrite(t *testing.T) {
	s := redistest.Shared(t)
	m := open(t, s.URL()).RWMutex(name(t))
	other := open(t, s.URL()).RWMutex(m.Name())
	w := lock(t, t.Context(), m)
	release(t, lock(t, w.Context(), m.RLocker()))
	wantSides(t, m, true, false)
	wantRefused(t, other)
	wantRefused(t, other.RLocker())
	if holds(t, w.Context(), m) != 1 || !w.Valid() {
		t.Error("the writer has lost its lock")
	}
	release(t, w)
	wantFree(t, other)
}

func TestRW10ReadersEnterTogether(t *testing.T) {
	t.Parallel()
	const readers = 20
	holder := open(t, redistest.Shared(t).URL())
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		m := c.RWMutex(name(t))
		w := lock(t, t.Context(), holder.RWMutex(m.Name()))
		var waiters []<-chan outcome
		for range readers {
			waiters = append(waiters, background(t.Context(), m.RLocker()))
		}
		time.Sleep(100 * time.Millisecond) // until all wait, most likely
		wantSides(t, m, true, false)
		release(t, w)
		start := time.Now()
		var ls []*holdfast.Lease // none leaves before all are in
		for _, waiter := range waiters {
			ls = append(ls, entered(t, waiter))
		}
		if took := time.Since(start); took > late {
			t.Errorf("all are in after %v", took)
		}
		st, err := m.State(t.Context())
		if err != nil || len(st.Readers) != readers || st.Writer.Owner != "" {
			t.Errorf("State has %d readers and the writer %q, %v, want %d and none", len(st.Readers), st.Writer.Owner, err, readers)
		}
		for _, l := range ls {
			release(t, l)
		}
		wantFree(t, m)
	})
}

func TestRW11WriteAndRead(t *testing.T) {
	url := redistest.Shared(t).URL()
	m := open(t, url).RWMutex(name(t))
	other := open(t, url).RWMutex(m.Name())
	w := lock(t, t.Context(), m)
	r := lock(t, w.Context(), m.RLocker())
	for _, others := range []*holdfast.RWMutex{m, other} {
		wantRefused(t, others.RLocker())
		wantRefused(t, others)
	}
	release(t, w)
	for _, others := range []*holdfast.RWMutex{m, other} {
		wantFree(t, others.RLocker())
		wantRefused(t, others)
	}
	if !r.Valid() {
		t.Error("the read lease has ended with the write lease")
	}
	release(t, r)
	wantFree(t, other)
	wantFree(t, m)
}

func TestRW12WriteReentry(t *testing.T) {
	url := redistest.Shared(t).URL()
	m := open(t, url).RWMutex(name(t))
	other := open(t, url).RWMutex(m.Name())
	outer := lock(t, t.Context(), m)
	inner := lock(t, outer.Context(), m)
	if n := holds(t, inner.Context(), m); n != 2 {
		t.Errorf("HoldCount is %d, want 2", n)
	}
	wantRefused(t, other.RLocker())
	release(t, inner)
	wantRefused(t, other.RLocker())
	wantRefused(t, m.RLocker())
	wantSides(t, other, true, false)
	release(t, outer)
	wantSides(t, other, false, false)
	r := lock(t, t.Context(), other.RLocker())
	wantSides(t, m, false, true)
	release(t, r)
	wantSides(t, m, false, false)
}

func TestRW13TwoReaders(t *testing.T) {
	url := redistest.Shared(t).URL()
	holder := open(t, url)
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		m := c.RWMutex(name(t))
		if freed, err := m.RLocker().ForceUnlock(t.Context()); freed || err != nil {
			t.Errorf("ForceUnlock of a free lock: %v, %v", freed, err)
		}
		first := lock(t, t.Context(), holder.RWMutex(m.Name()).RLocker())
		second := lock(t, t.Context(), m.RLocker())
		if first.Owner() == second.Owner() {
			t.Error("both have one owner")
		}
		wantRefused(t, m)
		release(t, first)
		wantRefused(t, m)
		release(t, second)
		wantFree(t, m)
	})
}

func TestRW14ForceUnlockOfOneSide(t *testing.T) {
	url := redistest.Shared(t).URL()
	a, b := open(t, url), open(t, url)
	for by, c := range map[string]*holdfast.Client{"the holder's client": a, "another client": b} {
		t.Run(by, func(t *testing.T) {
			m := a.RWMutex(name(t))
			force := c.RWMutex(m.Name())
			w := lock(t, t.Context(), m)
			if freed, err := force.RLocker().ForceUnlock(t.Context()); freed || err != nil {
				t.Errorf("ForceUnlock of the read side of a write lock: %v, %v", freed, err)
			}
			wantSides(t, m, true, false)
			release(t, w)

			r := lock(t, t.Context(), m.RLocker())
			if freed, err := force.ForceUnlock(t.Context()); freed || err != nil {
				t.Errorf("ForceUnlock of the write side of a read lock: %v, %v", freed, err)
			}
			wantSides(t, m, false, true)
			if !r.Valid() {
				t.Error("the reader has lost its lock")
			}
			release(t, r)
		})
	}
}

func TestRW15LivingDoNotRenewDead(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), steady)
	m := c.RWMutex(name(t))
	p := redistest.Worker(t, "holder", "URL="+address(t, s.URL()), "NAME="+m.Name(), "KIND=read")
	dead := <-p.Lines()
	alive := lock(t, t.Context(), m.RLocker())
	time.Sleep(mortal.WatchdogTimeout + aWhile) // more than the worker's would last without renewal
	if st, err := m.State(t.Context()); err != nil || len(st.Readers) != 2 {
		t.Fatalf("State is %+v, %v, want two readers", st, err)
	}
	p.Kill()
	key := fmt.Sprintf("{%s}:%s:rwlock_timeout:1", m.Name(), dead)
	ends := expiry(t, s, key)
	eventually(t, mortal.WatchdogTimeout+late, "the dead reader's time is over", func() bool { return s.Int(t, "EXISTS", key) == 0 })
	time.Sleep(aWhile)
	if now := expiry(t, s, m.Name()); now < ends {
		t.Errorf("the lock ends %d ms before the dead reader's", ends-now)
	}
	st, err := m.State(t.Context())
	if err != nil || len(st.Readers) != 1 || st.Readers[0].Owner != alive.Owner() {
		t.Errorf("State is %+v, %v, want one reader, %s", st, err, alive.Owner())
	}
	wantRefused(t, m)
	release(t, alive)
	wantFree(t, m)
}

func init() {
	workers["readers"] = func() {
		ctx := context.Background()
		for range 20 {
			c, err := holdfast.Open(ctx, os.Getenv("URL"), unshaken)
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
	m := open(t, s.URL()).RWMutex(name(t))
	p := redistest.Worker(t, "readers", "URL="+address(t, s.URL()), "NAME="+m.Name())
	if line := <-p.Lines(); line != "ready" {
		t.Fatalf("the worker said %q", line)
	}
	time.Sleep(unshaken.WatchdogTimeout + aWhile) // more than they would last without renewal
	if st, err := m.State(t.Context()); err != nil || len(st.Readers) != 20 || st.Readers[0].Holds != 3 {
		t.Fatalf("State is %+v, %v, want 20 readers with 3 holds each", st, err)
	}
	p.Kill()
	ends := expiry(t, s, m.Name())
	entersAt(t, s, stalls, background(t.Context(), m, ample), ends, late)
}

// Only a holder has something to release, so a non-owner is somebody whose
// lease is over and who may not know it.
func TestRW17ReleaseByNonOwner(t *testing.T) {
	s := redistest.Shared(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	m := a.RWMutex(name(t))
	other := b.RWMutex(m.Name())
	old := lock(t, t.Context(), m.RLocker())
	if freed, err := other.RLocker().ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatalf("ForceUnlock of a held lock: %v, %v", freed, err)
	}
	if s.Int(t, "EXISTS", holdKey(old, 1)) != 0 {
		t.Error("the reader's own key is left")
	}
	reader := lock(t, t.Context(), other.RLocker())
	// Two keys that one script sets need not end in the same millisecond.
	ends, holdEnds := expiry(t, s, m.Name()), expiry(t, s, holdKey(reader, 1))
	wantLost(t, old, holdfast.LossNotOwner)
	if !reader.Valid() || expiry(t, s, m.Name()) != ends || expiry(t, s, holdKey(reader, 1)) != holdEnds {
		t.Error("the new reader's lease was touched")
	}
	wantRefused(t, m)
	release(t, reader)
	wantFree(t, m)
}

// restartedEmpty checks that the holder of m learns that the server has lost its
// memory, and that the next lease is renewed.
func restartedEmpty(t *testing.T, s *redistest.Server, m mutexLike) {
	t.Helper()
	l := lock(t, t.Context(), m)
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

	l = lock(t, t.Context(), m)
	ctx = l.Context()
	time.Sleep(unshaken.WatchdogTimeout + aWhile)
	if !l.Valid() || ctx.Err() != nil {
		t.Errorf("the new lease is not renewed: %v", context.Cause(ctx))
	}
	if owner, _ := look(t, m); owner != l.Owner() {
		t.Errorf("the owner is %q, want %q", owner, l.Owner())
	}
	release(t, l)
	wantFree(t, m)
}

func TestRN02ReadAfterServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), unshaken)
	restartedEmpty(t, s, c.RWMutex(name(t)).RLocker())
}

func TestRN03WriteAfterServerRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), unshaken).RWMutex(name(t))
	restartedEmpty(t, s, m)
	time.Sleep(unshaken.WatchdogTimeout / 2)
	l := lock(t, t.Context(), m)
	time.Sleep(unshaken.WatchdogTimeout + aWhile)
	if !l.Valid() {
		t.Error("the lease after the pause is not renewed")
	}
	release(t, l)
}

func TestRN05NobodyRenewsWhatIsReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr())
	m := open(t, proxy.URL(), steady).RWMutex(name(t))
	for _, nested := range []int{1, 3} {
		// Again if that took so long that a renewal may be on its way.
		for start := (time.Time{}); time.Since(start) >= steady.RenewEvery; {
			start = time.Now()
			var ls []*holdfast.Lease
			for ctx := t.Context(); len(ls) < nested; ctx = ls[len(ls)-1].Context() {
				ls = append(ls, lock(t, ctx, m.RLocker()))
			}
			for i := nested - 1; i >= 0; i-- {
				release(t, ls[i])
			}
			proxy.ResetCounts()
		}
		time.Sleep(4 * steady.RenewEvery)
		if n := proxy.Count("EVALSHA") + proxy.Count("EVAL"); n != 0 {
			t.Errorf("%d calls after the last of %d nested releases", n, nested)
		}
	}
}

func TestRN06ManyReaders(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL(), unshaken)
	m := c.RWMutex(name(t))
	parallel(25, func(int) {
		for range 2 {
			l := lock(t, t.Context(), m.RLocker())
			time.Sleep(unshaken.WatchdogTimeout + 100*time.Millisecond)
			release(t, l)
		}
	})
	wantFree(t, m)
}

func TestRN07WriteAndReadAreBothRenewed(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := open(t, s.URL(), unshaken).RWMutex(name(t))
	w := lock(t, t.Context(), m)
	r := lock(t, w.Context(), m.RLocker())
	watch := func(keys ...string) {
		t.Helper()
		for end := time.Now().Add(unshaken.WatchdogTimeout + aWhile); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for _, key := range keys {
				if s.Int(t, "EXISTS", key) != 1 {
					t.Fatalf("%s has ended", key)
				}
			}
		}
	}
	watch(m.Name(), holdKey(r, 1))
	if !w.Valid() || !r.Valid() {
		t.Errorf("valid: write %v, read %v", w.Valid(), r.Valid())
	}
	release(t, w)
	watch(m.Name(), holdKey(r, 1))
	if !r.Valid() {
		t.Error("the read lease is not valid")
	}
	release(t, r)
	wantFree(t, m)
}

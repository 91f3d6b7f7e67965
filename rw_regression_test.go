package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// ForceUnlock reports that it has freed what its own client held.
func TestForceUnlockSaysThatItFreed(t *testing.T) {
	url := redistest.Shared(t).URL()
	each(t, "PRW", func(t *testing.T, k kind) {
		m := k.make(open(t, url), name(t))
		missed := 0
		for range 300 {
			lock(t, t.Context(), m)
			freed, err := m.ForceUnlock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !freed {
				missed++
			}
		}
		if missed > 0 {
			t.Errorf("%d of 300 times ForceUnlock claims that nobody held the lock", missed)
		}
	})
}

// What a writer reads is left alone by the force on the read side, also in the
// client that uses it.
func TestForceUnlockLeavesReadingWriter(t *testing.T) {
	url := redistest.Shared(t).URL()
	a, b := open(t, url), open(t, url)
	for by, c := range map[string]*holdfast.Client{"the holder's client": a, "another client": b} {
		t.Run(by, func(t *testing.T) {
			m := a.RWMutex(name(t))
			w := lock(t, t.Context(), m)
			r := lock(t, w.Context(), m.RLocker())
			if freed, err := c.RWMutex(m.Name()).RLocker().ForceUnlock(t.Context()); freed || err != nil {
				t.Errorf("ForceUnlock of a read side that a writer holds: %v, %v", freed, err)
			}
			if !w.Valid() || !r.Valid() || r.Context().Err() != nil {
				t.Errorf("valid: write %v, read %v, %v", w.Valid(), r.Valid(), context.Cause(r.Context()))
			}
			_ = r.Release(t.Context())
			release(t, w)
		})
	}
}

// Who asks to read with the context of a write lease must not be let in under
// that when it was handed to the next goroutine meanwhile.
func TestReadUnderPassedWrite(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	m := open(t, p.URL(), holdfast.Options{HandoffTime: time.Minute}).RWMutex("passed")
	w := lock(t, t.Context(), m)
	release(t, lock(t, w.Context(), m.RLocker())) // the server knows the scripts
	release(t, w)
	w = lock(t, t.Context(), m)
	writer := background(t.Context(), m)
	time.Sleep(100 * time.Millisecond) // until it waits, most likely
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	defer letGo()
	reader := background(context.WithoutCancel(w.Context()), m.RLocker())
	<-arrived // granted, as one who writes
	go func() {
		time.Sleep(100 * time.Millisecond)
		letGo()
	}()
	release(t, w)
	r := entered(t, reader)
	select {
	case o := <-writer:
		if r.Valid() && o.lease.Valid() {
			t.Error("somebody reads while another writes")
		}
		release(t, r)
		release(t, o.lease)
	case <-time.After(200 * time.Millisecond):
		release(t, r)
		release(t, entered(t, writer))
	}
}

// A dead writer that goes first keeps readers out for a while, also where other
// writers come and go.
func TestDeadWriterAmongOthers(t *testing.T) {
	s := redistest.Shared(t)
	a, b := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	r := lock(t, t.Context(), a.RWMutex(n).RLocker())
	killedWriter(t, s, n)
	release(t, r)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // once in a second somebody has to wait for a moment
		for ctx.Err() == nil {
			w, err := a.RWMutex(n, holdfast.WriterFirst()).Lock(ctx)
			if err != nil {
				return
			}
			next := background(ctx, b.RWMutex(n, holdfast.WriterFirst()))
			time.Sleep(50 * time.Millisecond)
			_ = w.Release(ctx)
			if o := <-next; o.err == nil {
				_ = o.lease.Release(ctx)
			}
			time.Sleep(time.Second)
		}
	})
	l, err := b.RWMutex(n).RLock(ctx)
	if took := time.Since(start); err != nil || took > 3*time.Second+late {
		t.Errorf("a reader was kept out for %v by a dead writer: %v", took, err)
	}
	cancel()
	if err == nil {
		release(t, l)
	}
}

// The holder is told at once, whatever it calls its lock.
func TestForceUnlockTellsFencedHolder(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	l := lock(t, t.Context(), c.FencedMutex(n), holdfast.LeaseTime(time.Minute))
	if freed, err := c.Mutex(n).ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	if l.Valid() {
		time.Sleep(time.Second)
		t.Errorf("the fenced lease is valid, and a second later: %v", l.Valid())
	}
}

// Lock with the context of a read lease never waits for itself, also when the
// write lease around it is released at this very moment.
func TestUpgradeWhileDowngrading(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	m := c.RWMutex(name(t))
	misled := 0
	var last error
	for range 3000 {
		w := lock(t, t.Context(), m)
		r := lock(t, w.Context(), m.RLocker())
		ctx := r.Context()
		var wg sync.WaitGroup
		wg.Go(func() { release(t, w) })
		l, err := m.Lock(ctx, holdfast.Wait(late))
		wg.Wait()
		switch {
		case err == nil:
			_ = l.Release(t.Context())
		case errors.Is(err, holdfast.ErrNotAcquired):
			t.Fatal("waited for itself")
		case !errors.Is(err, holdfast.ErrUpgrade):
			misled++
			last = err
		}
		release(t, r)
	}
	if misled > 0 {
		t.Errorf("%d of 3000 times the error is like %v", misled, last)
	}
}

// The context of what a writer reads says when it ends.
func TestDowngradeDeadline(t *testing.T) {
	t.Parallel()
	m := open(t, redistest.Shared(t).URL()).RWMutex(name(t))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	w := lock(t, ctx, m)
	r := lock(t, w.Context(), m.RLocker())
	release(t, w)
	inside := r.Context()
	if _, ok := inside.Deadline(); !ok {
		t.Error("the context has no deadline")
	}
	<-inside.Done()
	if !errors.Is(inside.Err(), context.DeadlineExceeded) {
		t.Errorf("error %v, cause %v, want a deadline", inside.Err(), context.Cause(inside))
	}
	release(t, r)
}

// A writer whose lease ends while what it reads goes on lets others read.
func TestWriterExpiresBesideItsReading(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL())
	m := open(t, s.URL(), unhurried).RWMutex(name(t))
	w := lock(t, t.Context(), c.RWMutex(m.Name()), holdfast.LeaseTime(longest))
	ends := expiry(t, s, m.Name())
	r := lock(t, w.Context(), c.RWMutex(m.Name()).RLocker())
	l := enteredAfter(t, longest, background(t.Context(), m.RLocker(), ample))
	if after := expiry(t, s, holdKey(l, 1)) - ampleLease.Milliseconds() - ends; after < -late.Milliseconds() || after > late.Milliseconds() {
		// To its client it ends as much earlier as the request took to arrive.
		t.Errorf("entered %d ms after the lease ended", after)
	}
	if w.Valid() || !r.Valid() {
		t.Errorf("valid: write %v, read %v", w.Valid(), r.Valid())
	}
	wantLost(t, w, holdfast.LossExpired)
	release(t, l)
	release(t, r)
	wantFree(t, m)
}

// Goroutines that share an owner enter again and leave without disturbing each
// other.
func TestReentryBesideRelease(t *testing.T) {
	url := redistest.Shared(t).URL()
	each(t, "PSRW", func(t *testing.T, k kind) {
		m := k.make(open(t, url), name(t))
		outer := lock(t, t.Context(), m)
		var failed atomic.Int64
		var last atomic.Value
		parallel(4, func(int) {
			for range 100 {
				inner, err := m.Lock(outer.Context())
				if err != nil {
					failed.Add(1)
					last.Store(err)
					continue
				}
				release(t, inner)
			}
		})
		if n := failed.Load(); n > 0 {
			t.Errorf("%d of 400 times: %v", n, last.Load())
		}
		release(t, outer)
	})
}

// Nobody writes where the key of those who want to write first is something
// else.
func TestWritersKeyOfAnotherType(t *testing.T) {
	s := redistest.Shared(t)
	m := open(t, s.URL()).RWMutex(name(t))
	s.Do(t, "SET", "holdfast:writers:{"+m.Name()+"}", "precious")
	if _, err := m.Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("error %v, want ErrRefused", err)
	}
	if s.Int(t, "EXISTS", m.Name()) == 1 {
		t.Error("refused, and held all the same")
	}
}

// Readers whose leases have run out are forgotten while others read on.
func TestDeadReadersAreForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	m := open(t, s.URL()).RWMutex(name(t))
	stays := lock(t, t.Context(), m.RLocker())
	parallel(20, func(int) {
		l, err := m.RLock(t.Context(), holdfast.LeaseTime(500*time.Millisecond)) // or it could be over before it is granted
		if err != nil {
			t.Error(err)
			return
		}
		<-l.Context().Done()
	})
	eventually(t, 15*time.Second, "only the mode and one reader are left", func() bool {
		return s.Int(t, "HLEN", m.Name()) == 2
	})
	release(t, stays)
}

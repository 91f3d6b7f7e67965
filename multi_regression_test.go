package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Who locks two by hand, in whatever order, gets both, although a set holds one
// of them and waits for the other: it gives way, and does not take back at once
// what somebody further away has waited for.
func TestMultiGivesWay(t *testing.T) {
	t.Parallel()
	s1, s2 := redistest.Start(t), redistest.Start(t)
	p1, p2 := redistest.NewProxy(t, s1.Addr()), redistest.NewProxy(t, s2.Addr())
	near1, near2 := open(t, s1.URL()), open(t, s2.URL())
	far1, far2 := open(t, p1.URL()), open(t, p2.URL())
	p1.Delay(5 * time.Millisecond)
	p2.Delay(5 * time.Millisecond)
	for order, hands := range map[string][2]*holdfast.Client{"there": {far1, far2}, "and back": {far2, far1}} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			n := name(t)
			one := lock(t, t.Context(), hands[0].Mutex(n))
			set := background(t.Context(), holdfast.Multi(near1.Mutex(n), near2.Mutex(n)))
			// It waits, with the other one in hand or without: had it still to
			// begin, it could have that in hand later on.
			listened(t, map[*holdfast.Client]*redistest.Server{far1: s1, far2: s2}[hands[0]], "redisson_lock__channel:{"+n+"}")
			release(t, lock(t, t.Context(), hands[1].Mutex(n), holdfast.Wait(8*time.Second)))
			for range 5 { // and from now on it waits with nothing in hand
				wantFree(t, hands[1].Mutex(n))
				time.Sleep(20 * time.Millisecond)
			}
			release(t, one)
			release(t, entered(t, set))
		})
	}
}

// A set keeps its place in the queue of a fair lock, however long that takes.
func TestMultiKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	held := lock(t, t.Context(), other.FairMutex(n))
	set := background(t.Context(), holdfast.Multi(c.Mutex(n+"x"), c.FairMutex(n)))
	queued(t, s, n, 1)
	next := enqueue(t, t.Context(), s, other.FairMutex(n))
	wantFree(t, other.Mutex(n+"x")) // nothing is kept meanwhile
	time.Sleep(3200 * time.Millisecond)
	release(t, held)
	l := entered(t, set)
	select {
	case <-next.got:
		t.Error("who came later got in as well")
	case <-time.After(50 * time.Millisecond):
	}
	release(t, l)
	release(t, entered(t, next.got))
}

// A server that is gone for a while is borne with, whichever of the two it is,
// as long as for a single lock.
func TestMultiBearsAnOutage(t *testing.T) {
	t.Parallel()
	s1, s2 := redistest.Start(t), redistest.Start(t)
	for which, i := range map[string]int{"one": 0, "the other": 1} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			ps := []*redistest.Proxy{redistest.NewProxy(t, s1.Addr()), redistest.NewProxy(t, s2.Addr())}
			n := name(t)
			m := holdfast.Multi(open(t, ps[0].URL()).Mutex(n), open(t, ps[1].URL()).Mutex(n))
			release(t, lock(t, t.Context(), m))
			ps[i].Refuse(true)
			ps[i].Cut()
			time.AfterFunc(3200*time.Millisecond, func() { ps[i].Refuse(false) })
			release(t, lock(t, t.Context(), m))
		})
	}
}

// A lease time counts from the last grant also for what was entered again long
// before.
func TestMultiEntersForTheWholeLease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	n := name(t)
	const lease, wait = 12 * time.Second, 2500 * time.Millisecond
	outer := lock(t, t.Context(), c.Mutex(n+"a"), holdfast.LeaseTime(lease/2))
	held := lock(t, t.Context(), other.Mutex(n+"b"))
	set := background(outer.Context(), holdfast.Multi(c.Mutex(n+"a"), c.Mutex(n+"b")), holdfast.LeaseTime(lease))
	time.Sleep(wait)
	freed := time.Now()
	release(t, held)
	l := entered(t, set)
	if left := time.Until(l.Deadline()); left > lease || l.Deadline().Sub(freed) < lease-wait/2 {
		t.Errorf("%v left of %v, %v after the last lock was free", left, lease, time.Since(freed))
	}
	release(t, l)
	release(t, outer)
}

// A set is not granted with a lock in it that was lost while another one was
// waited for.
func TestMultiLosesWhatItEntered(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c, other := open(t, s.URL()), open(t, s.URL())
	brief := holdfast.LeaseTime(200 * time.Millisecond)
	for _, tt := range []struct {
		why  holdfast.LossReason
		opts []holdfast.Option
		lose func(*holdfast.Mutex)
	}{
		{holdfast.LossExpired, []holdfast.Option{brief}, func(*holdfast.Mutex) { time.Sleep(400 * time.Millisecond) }},
		{holdfast.LossForced, nil, func(m *holdfast.Mutex) { _, _ = m.ForceUnlock(t.Context()) }},
	} {
		t.Run(string(tt.why), func(t *testing.T) {
			n := name(t)
			a, b := c.Mutex(n+"a"), c.Mutex(n+"b")
			outer := lock(t, t.Context(), a, tt.opts...)
			held := lock(t, t.Context(), other.Mutex(n+"b"))
			set := background(context.WithoutCancel(outer.Context()), holdfast.Multi(a, b), tt.opts...)
			time.Sleep(50 * time.Millisecond) // until it waits, most likely
			tt.lose(a)
			wantFree(t, other.Mutex(n+"a"))
			release(t, held)
			if o := await(t, set); !errors.Is(o.err, holdfast.ErrLost) {
				t.Errorf("error %v, want ErrLost", o.err)
			}
			wantFree(t, other.Mutex(n+"b"))
			wantLost(t, outer, tt.why)
		})
	}
}

// What is read beside a write lease stays when that is released, also where it
// was one of several locks.
func TestMultiDowngrade(t *testing.T) {
	c := open(t, redistest.Shared(t).URL())
	n := name(t)
	m := c.RWMutex(n)
	w := lock(t, t.Context(), holdfast.Multi(m, c.Mutex(n+"x")))
	r := lock(t, w.Context(), m.RLocker())
	ctx := r.Context()
	release(t, w)
	select {
	case <-ctx.Done():
		t.Errorf("ended with the write lease: %v", context.Cause(ctx))
	case <-time.After(50 * time.Millisecond):
	}
	wantFree(t, c.Mutex(n+"x"))
	wantFree(t, m.RLocker())
	wantRefused(t, m)
	if !r.Valid() {
		t.Error("not valid")
	}
	release(t, r)
	wantFree(t, m)
}

// Whatever is done to a lease on several locks at the same moment, nothing of
// it is left.
func TestMultiAllAtOnce(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	c := open(t, s.URL())
	a, b := c.Mutex("a"), c.RWMutex("b")
	m := holdfast.Multi(a, b)
	for range 200 {
		l := lock(t, t.Context(), m, holdfast.OnAcquire(func(l *holdfast.Lease) {
			if rand.IntN(8) == 0 {
				release(t, l)
			}
		}))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				time.Sleep(rand.N(300 * time.Microsecond))
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
	eventually(t, 10*time.Second, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
}

// A set whose caller gives up when it has all locks, and only their time is to
// be set, gives them back and says why.
func TestMultiGivenUpAtTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := open(t, p.URL())
	set := func(n string) holdfast.Locker { return holdfast.Multi(c.Mutex(n+"a"), c.FairMutex(n+"b")) }
	lease := holdfast.LeaseTime(time.Minute)
	release(t, lock(t, t.Context(), set(name(t)), lease)) // so that the server knows the scripts
	n := name(t)
	scripts := 0
	arrived, letGo := p.HoldReply(func(cmd []string) bool {
		if redistest.Command("EVALSHA")(cmd) {
			scripts++
		}
		return scripts == 3 // one for each lock, and one for the time of either
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch := background(ctx, set(n), lease)
	<-arrived
	cancel() // the releases behind that reply go on in the background
	if o := awaitAfter(t, 6*time.Second, ch); !errors.Is(o.err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", o.err)
	}
	letGo()
	eventually(t, 10*time.Second, "both are free again", func() bool { return len(s.Keys(t)) == 0 })
}

// sortedServers starts two servers, first the one that sets begin with.
func sortedServers(t *testing.T) [2]*redistest.Server {
	t.Helper()
	id := func(s *redistest.Server) string {
		_, after, _ := strings.Cut(fmt.Sprint(s.Do(t, "INFO", "server")), "run_id:")
		return after[:40]
	}
	a, b := redistest.Start(t), redistest.Start(t)
	if id(a) > id(b) {
		a, b = b, a
	}
	return [2]*redistest.Server{a, b}
}

// How long a set has waited for its first lock is not taken for an outage of the
// server with the second.
func TestMultiOutageAfterLongWait(t *testing.T) {
	t.Parallel()
	s := sortedServers(t)
	p := redistest.NewProxy(t, s[1].Addr())
	o := holdfast.Options{RetryTimeout: 8 * time.Second}
	n := name(t)
	m := holdfast.Multi(open(t, s[0].URL(), o).Mutex(n), open(t, p.URL(), o).Mutex(n))
	release(t, lock(t, t.Context(), m))
	held := lock(t, t.Context(), open(t, s[0].URL()).Mutex(n))
	set := background(t.Context(), m)
	time.Sleep(9 * time.Second) // longer than it bears with an outage
	p.Refuse(true)
	p.Cut()
	time.AfterFunc(2*time.Second, func() { p.Refuse(false) })
	release(t, held)
	if o := awaitAfter(t, 10*time.Second, set); o.err != nil {
		t.Error(o.err)
	} else {
		release(t, o.lease)
	}
}

// A wait that is over before the servers have said who they are is an outage,
// and not the end of a context.
func TestMultiWaitOverWhilePlanning(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, redistest.Start(t).Addr())
	m := holdfast.Multi(open(t, s.URL()).Mutex(name(t)), open(t, p.URL()).Mutex(name(t)))
	p.Freeze()
	if _, err := m.Lock(t.Context(), holdfast.Wait(300*time.Millisecond)); !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want ErrUnavailable without context.DeadlineExceeded", err)
	}
}

// A set that is given up when none of its servers answers gives its locks back
// all at once.
func TestMultiGivesBackAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := name(t)
	var proxies []*redistest.Proxy
	locks := []holdfast.Locker{open(t, s.URL()).FairMutex(n)}
	for i := range 5 { // clients, which are servers to a set
		p := redistest.NewProxy(t, s.Addr())
		proxies = append(proxies, p)
		locks = append(locks, open(t, p.URL()).Mutex(fmt.Sprint(n, i)))
	}
	m := holdfast.Multi(locks...)
	release(t, lock(t, t.Context(), m))
	scripts := 0
	arrived, letGo := proxies[0].HoldReply(func(cmd []string) bool {
		if redistest.Command("EVALSHA")(cmd) {
			scripts++
		}
		return scripts == 2 // the one for the lease time, when all have been granted
	})
	defer letGo()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := background(ctx, m, holdfast.LeaseTime(time.Minute))
	<-arrived
	for _, p := range proxies {
		p.Freeze()
	}
	cancel()
	if o := awaitAfter(t, 3*time.Second, set); o.err == nil { // two for one that does not answer
		t.Error("it was granted")
	}
	for _, p := range proxies {
		p.Thaw()
	}
}

// A set gets its locks also if it only ever finds the one free that it needs
// last, and others queue for the first.
func TestMultiBetweenQueueAndLongHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := name(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	keep := func(m holdfast.Locker, d time.Duration) {
		wg.Go(func() {
			for ctx.Err() == nil {
				if l, err := m.Lock(ctx); err == nil {
					time.Sleep(d)
					_ = l.Release(ctx)
				}
			}
		})
	}
	c, other := open(t, s.URL()), open(t, s.URL())
	keep(other.Mutex(n+"b"), 5*time.Second)
	eventually(t, 5*time.Second, "one is held", func() bool { return locked(t, c.Mutex(n+"b")) })
	for range 3 {
		keep(other.FairMutex(n+"a"), 300*time.Millisecond)
	}
	queued(t, s, n+"a", 2)
	release(t, func() *holdfast.Lease {
		o := awaitAfter(t, 40*time.Second, background(ctx, holdfast.Multi(c.FairMutex(n+"a"), c.Mutex(n+"b"))))
		if o.err != nil {
			t.Fatal(o.err)
		}
		return o.lease
	}())
	cancel()
	wg.Wait()
}

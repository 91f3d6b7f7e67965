package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The time that a set waits for its last lock is not taken off its lease.
func TestMultiLeaseCountsFromTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	near, far := locktest.Open(t, s.URL()), locktest.Open(t, p.URL())
	const lease, wait = 3 * time.Second, 900 * time.Millisecond // less than until the first renewal
	set := func(n string) holdfast.Locker { return holdfast.MultiLocker(near.FairMutex(n+"a"), far.Mutex(n+"b")) }
	locktest.Release(t, locktest.Lock(t, t.Context(), set(locktest.Name(t)))) // so that both are connected
	n := locktest.Name(t)
	p.Freeze()
	ch := locktest.Background(t.Context(), set(n), holdfast.LeaseTime(lease))
	var freed time.Time
	<-redistest.Outage(wait, func() {
		locktest.Eventually(t, 5*time.Second, "the set has its first lock", func() bool { return locktest.Locked(t, near.FairMutex(n+"a")) })
	}, func() {
		freed = time.Now()
		p.Thaw()
	})
	l := locktest.Entered(t, ch)
	if left := time.Until(l.Deadline()); left > lease || l.Deadline().Sub(freed) < lease-wait/2 {
		t.Errorf("%v left of %v, %v after the last lock was free", left, lease, time.Since(freed))
	}
	locktest.Release(t, l)
}

// A client that locks two mutexes one after the other, in any order, gets both,
// although a set holds one of them and waits for the other. The set yields, and does
// not take a lock back at once that a client with a slower connection waits for.
func TestMultiGivesWay(t *testing.T) {
	t.Parallel()
	s1, s2 := redistest.Start(t), redistest.Start(t)
	p1, p2 := redistest.NewProxy(t, s1.Addr()), redistest.NewProxy(t, s2.Addr())
	near1, near2 := locktest.Open(t, s1.URL()), locktest.Open(t, s2.URL())
	far1, far2 := locktest.Open(t, p1.URL()), locktest.Open(t, p2.URL())
	p1.Delay(5 * time.Millisecond)
	p2.Delay(5 * time.Millisecond)
	for order, hands := range map[string][2]*holdfast.Client{"there": {far1, far2}, "and back": {far2, far1}} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			n := locktest.Name(t)
			one := locktest.Lock(t, t.Context(), hands[0].Mutex(n))
			set := locktest.Background(t.Context(), holdfast.MultiLocker(near1.Mutex(n), near2.Mutex(n)))
			// The set waits, whether it holds the other lock or not. Without this wait
			// it could take the other lock later on.
			locktest.AwaitListener(t, map[*holdfast.Client]*redistest.Server{far1: s1, far2: s2}[hands[0]], "redisson_lock__channel:{"+n+"}")
			locktest.Release(t, locktest.Lock(t, t.Context(), hands[1].Mutex(n), holdfast.Wait(8*time.Second)))
			looks := 0 // from now on the set waits without a lock
			locktest.Repeat(20*time.Millisecond, 20*time.Millisecond, func() bool { return looks < 5 }, func(int) {
				locktest.WantFree(t, hands[1].Mutex(n))
				looks++
			})
			locktest.Release(t, one)
			locktest.Release(t, locktest.Entered(t, set))
		})
	}
}

// A set retries an unavailable server for as long as a single lock does, whichever
// of the two servers it is.
func TestMultiBearsAnOutage(t *testing.T) {
	t.Parallel()
	s1, s2 := redistest.Start(t), redistest.Start(t)
	for which, i := range map[string]int{"one": 0, "the other": 1} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			ps := []*redistest.Proxy{redistest.NewProxy(t, s1.Addr()), redistest.NewProxy(t, s2.Addr())}
			n := locktest.Name(t)
			m := holdfast.MultiLocker(locktest.Open(t, ps[0].URL()).Mutex(n), locktest.Open(t, ps[1].URL()).Mutex(n))
			locktest.Release(t, locktest.Lock(t, t.Context(), m))
			redistest.Outage(3200*time.Millisecond, func() { ps[i].Refuse(true); ps[i].Cut() }, func() { ps[i].Refuse(false) })
			locktest.Release(t, locktest.Lock(t, t.Context(), m))
		})
	}
}

// The caller of a set gives up when all locks are held and only their lease time is
// not set yet. The set releases them and returns the reason.
func TestMultiGivenUpAtTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := locktest.Open(t, p.URL())
	set := func(n string) holdfast.Locker { return holdfast.MultiLocker(c.Mutex(n+"a"), c.FairMutex(n+"b")) }
	lease := holdfast.LeaseTime(time.Minute)
	locktest.Release(t, locktest.Lock(t, t.Context(), set(locktest.Name(t)), lease)) // so that the server knows the scripts
	n := locktest.Name(t)
	scripts := 0
	arrived, letGo := p.HoldReply(func(cmd []string) bool {
		if redistest.Command("EVALSHA")(cmd) {
			scripts++
		}
		return scripts == 3 // one for each lock, and one for the time of either
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch := locktest.Background(ctx, set(n), lease)
	<-arrived
	cancel() // the releases behind that reply go on in the background
	if o := locktest.AwaitAfter(t, 6*time.Second, ch); !errors.Is(o.Err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", o.Err)
	}
	letGo()
	locktest.Eventually(t, 10*time.Second, "both are free again", func() bool { return len(s.Keys(t)) == 0 })
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
// server with the second, whether it queues there or not.
func TestMultiOutageAfterLongWait(t *testing.T) {
	t.Parallel()
	s := sortedServers(t)
	for name, all := range map[string]bool{"queue": false, "all are woken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := redistest.NewProxy(t, s[1].Addr())
			o := holdfast.Options{RetryTimeout: 8 * time.Second, WakeAll: all}
			n := locktest.Name(t)
			m := holdfast.MultiLocker(locktest.Open(t, s[0].URL(), o).Mutex(n), locktest.Open(t, p.URL(), o).Mutex(n))
			locktest.Release(t, locktest.Lock(t, t.Context(), m))
			held := locktest.Lock(t, t.Context(), locktest.Open(t, s[0].URL()).Mutex(n))
			set := locktest.Background(t.Context(), m)
			locktest.Work(9 * time.Second) // longer than the set retries in an outage
			redistest.Outage(2*time.Second, func() { p.Refuse(true); p.Cut() }, func() { p.Refuse(false) })
			locktest.Release(t, held)
			if o := locktest.AwaitAfter(t, 10*time.Second, set); o.Err != nil {
				t.Error(o.Err)
			} else {
				locktest.Release(t, o.Lease)
			}
		})
	}
}

// A wait that ends before the servers have identified themselves is an outage, not
// the end of a context.
func TestMultiWaitOverWhilePlanning(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, redistest.Start(t).Addr())
	m := holdfast.MultiLocker(locktest.Open(t, s.URL()).Mutex(locktest.Name(t)), locktest.Open(t, p.URL()).Mutex(locktest.Name(t)))
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
	n := locktest.Name(t)
	var proxies []*redistest.Proxy
	locks := []holdfast.Locker{locktest.Open(t, s.URL()).FairMutex(n)}
	for i := range 5 { // clients, which are servers to a set
		p := redistest.NewProxy(t, s.Addr())
		proxies = append(proxies, p)
		locks = append(locks, locktest.Open(t, p.URL()).Mutex(fmt.Sprint(n, i)))
	}
	m := holdfast.MultiLocker(locks...)
	locktest.Release(t, locktest.Lock(t, t.Context(), m))
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
	set := locktest.Background(ctx, m, holdfast.LeaseTime(time.Minute))
	<-arrived
	for _, p := range proxies {
		p.Freeze()
	}
	cancel()
	if o := locktest.AwaitAfter(t, 3*time.Second, set); o.Err == nil { // two for one that does not answer
		t.Error("it was granted")
	}
	for _, p := range proxies {
		p.Thaw()
	}
}

// A set waits for a server that it has never spoken to as long as a single lock
// does.
func TestMultiBearsAnOutageAtFirst(t *testing.T) {
	t.Parallel()
	s1, s2 := redistest.Start(t), redistest.Start(t)
	p := redistest.NewProxy(t, s2.Addr())
	n := locktest.Name(t)
	m := holdfast.MultiLocker(locktest.Open(t, s1.URL()).Mutex(n), locktest.Open(t, p.URL()).Mutex(n))
	redistest.Outage(3200*time.Millisecond, func() { p.Refuse(true); p.Cut() }, func() { p.Refuse(false) })
	locktest.Release(t, locktest.Lock(t, t.Context(), m))
}

// A try of a set with a lease time gives up soon also at the last step, when all
// locks are granted and their time is to be set.
func TestMultiTryGivesUpSoonAtTheLast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	o := holdfast.Options{RetryTimeout: 20 * time.Second}
	c, near := locktest.Open(t, p.URL()+"?timeout=1s", o), locktest.Open(t, s.URL(), o)
	set := func(n string) holdfast.Locker { return holdfast.MultiLocker(near.FairMutex(n+"a"), c.Mutex(n+"b")) }
	lease := holdfast.LeaseTime(time.Minute)
	locktest.Release(t, locktest.Lock(t, t.Context(), set(locktest.Name(t)), lease)) // so that the server knows the scripts
	scripts := 0
	arrived, letGo := p.HoldReply(func(cmd []string) bool {
		if redistest.Command("EVALSHA")(cmd) {
			scripts++
		}
		return scripts == 2 // one for the lock, and one for its time
	})
	defer letGo()
	go func() {
		<-arrived
		p.Freeze()
	}()
	defer p.Thaw()
	began := time.Now()
	_, err := set(locktest.Name(t)).TryLock(t.Context(), lease)
	if took := locktest.Took(began); !errors.Is(err, holdfast.ErrUnavailable) || took > 12*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

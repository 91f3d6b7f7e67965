package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// deadAfter bounds how long dead waiters at the head of a queue delay the next one:
// three seconds without a sign of life, and one until the next look. The rest is
// for a busy machine.
const deadAfter = 4*time.Second + locktest.Late

// heardOut waits until the server has read the last words of processes that do
// not run any more: after a release they would be granted the lock.
func heardOut(tb testing.TB, s *redistest.Server) {
	tb.Helper()
	time.Sleep(100 * time.Millisecond)
	for range 2 { // what was there when it read the first has been read before the second
		s.Do(tb, "PING")
	}
}

// Processes that die at the head of the queue, several of them in a row, do not
// hold up those behind for long.
func TestKilledWaiters(t *testing.T) {
	t.Parallel()
	for when, harm := range map[string]func(t *testing.T, s *redistest.Server, n string, ws []*redistest.Process, free func()){
		"before the release": func(t *testing.T, s *redistest.Server, _ string, ws []*redistest.Process, free func()) {
			for _, w := range ws {
				w.Kill()
			}
			heardOut(t, s)
			free()
		},
		"long before it": func(t *testing.T, s *redistest.Server, n string, ws []*redistest.Process, free func()) {
			for _, w := range ws {
				w.Kill()
			}
			locktest.AwaitQueue(t, s, n, 3) // without the dead
			free()
		},
		"one after the other": func(t *testing.T, s *redistest.Server, _ string, ws []*redistest.Process, free func()) {
			for _, w := range ws {
				w.Pause() // would otherwise get in before it is killed
			}
			heardOut(t, s)
			free()
			locktest.Repeat(500*time.Millisecond, 500*time.Millisecond, func() bool { return len(ws) > 0 }, func(int) {
				ws[0].Kill()
				ws = ws[1:]
			})
		},
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			n := locktest.Name(t)
			l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
			var ws []*redistest.Process
			for range 3 {
				ws = append(ws, locktest.EnqueueProcess(t, s, n, 2))
			}
			a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
			next := []locktest.Place{
				locktest.Enqueue(t, t.Context(), s, a.FairMutex(n)),
				locktest.Enqueue(t, t.Context(), s, b.FairMutex(n)),
				locktest.Enqueue(t, t.Context(), s, a.FairMutex(n)),
			}
			var freed time.Time
			harm(t, s, n, ws, func() {
				freed = time.Now()
				locktest.Release(t, l)
			})
			first := <-next[0].Got
			if first.Err != nil {
				t.Fatal(first.Err)
			}
			took := locktest.Took(freed)
			if took > deadAfter {
				t.Errorf("six dead ones have kept the next one waiting for %v", took)
			}
			t.Logf("the next one got in after %v", took)
			locktest.Release(t, first.Lease)
			locktest.EnterInOrder(t, next[1:]...)
			locktest.WantNoQueue(t, s, n)
		})
	}
}

// A stopped process at the head of the queue is passed over. When it continues, it
// has to queue again, and enters.
func TestStoppedWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	w := locktest.EnqueueProcess(t, s, n, 2)
	c := locktest.Open(t, s.URL())
	next := locktest.Enqueue(t, t.Context(), s, c.FairMutex(n))
	w.Pause()
	heardOut(t, s)
	freed := time.Now()
	locktest.Release(t, l)
	l = locktest.EnteredPastDead(t, next.Got)
	if took := locktest.Took(freed); took > deadAfter {
		t.Errorf("the stopped process has kept the next one waiting for %v", took)
	}
	w.Resume()
	locktest.AwaitQueue(t, s, n, 2)
	passed := redistest.Now()
	locktest.Release(t, l)
	ivs := locktest.Visits(t, w)
	if err := w.Wait(); err != nil || len(ivs) != 2 {
		t.Errorf("the stopped process was in %d times and ended with %v", len(ivs), err)
	}
	for _, iv := range ivs {
		if iv.Enter < passed {
			t.Error("the stopped process was in beside the next one")
		}
	}
	locktest.WantNoQueue(t, s, n)
}

// A waiter that was cut off for a while keeps its place, unless it was its turn.
// Then it has to queue again.
func TestFrozenWaiter(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, frozen int) (*redistest.Server, *redistest.Proxy, *holdfast.Lease, []locktest.Place) {
		t.Helper()
		s := redistest.Start(t)
		p := redistest.NewProxy(t, s.Addr())
		n := locktest.Name(t)
		l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
		var places []locktest.Place
		for i := range 4 {
			url := s.URL()
			if i == frozen {
				url = p.URL()
			}
			places = append(places, locktest.Enqueue(t, t.Context(), s, locktest.Open(t, url).FairMutex(n)))
		}
		return s, p, l, places
	}
	t.Run("in the middle", func(t *testing.T) {
		t.Parallel()
		s, p, l, places := setup(t, 2)
		p.Freeze()
		locktest.AwaitSilent(t, s, l.Name(), places[2].Owner)
		locktest.AwaitHeartbeats(t, s, l.Name(), places[0], places[1], places[3])
		locktest.WantQueue(t, s, l.Name(), places...)
		p.Thaw()
		locktest.AwaitHeartbeats(t, s, l.Name(), places...)
		locktest.WantQueue(t, s, l.Name(), places...)
		locktest.Release(t, l)
		locktest.EnterInOrder(t, places...)
		locktest.WantNoQueue(t, s, l.Name())
	})
	t.Run("at the head", func(t *testing.T) {
		t.Parallel()
		s, p, l, places := setup(t, 0)
		p.Freeze()
		locktest.AwaitQueue(t, s, l.Name(), 3)
		locktest.WantQueue(t, s, l.Name(), places[1:]...)
		p.Thaw()
		locktest.AwaitQueue(t, s, l.Name(), 4)
		places = append(places[1:], places[0])
		locktest.WantQueue(t, s, l.Name(), places...)
		locktest.Release(t, l)
		locktest.EnterInOrder(t, places...)
		locktest.WantNoQueue(t, s, l.Name())
	})
}

// Without any message, a lock is handed over at the next sign of life.
func TestFairWithoutMessages(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	for fault, harm := range map[string]func(*testing.T, *redistest.Server, *redistest.Proxy){
		"messages dropped": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.DropMessages(true) },
		"subscriptions killed": func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.NewProxy(t, s.Addr())
			n := locktest.Name(t)
			l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
			var places []locktest.Place
			// They look at different times.
			locktest.Repeat(150*time.Millisecond, 150*time.Millisecond, func() bool { return len(places) < 5 }, func(int) {
				places = append(places, locktest.Enqueue(t, t.Context(), s, locktest.Open(t, p.URL()).FairMutex(n)))
			})
			locktest.Eventually(t, 5*time.Second, "all have subscribed", func() bool { return len(s.Channels(t)) == len(places)+1 }) // and one channel for all of them
			harm(t, s, p)
			for i, place := range places {
				start := time.Now()
				locktest.Release(t, l)
				l = locktest.Entered(t, place.Got)
				if took := locktest.Took(start); took > beat+locktest.Late {
					t.Errorf("number %d got in after %v", i, took)
				}
				if l.Owner() != place.Owner {
					t.Errorf("number %d in the queue was %s, and is %s", i, place.Owner, l.Owner())
				}
			}
			locktest.Release(t, l)
			locktest.WantNoQueue(t, s, n)
		})
	}
}

// The queue is lost with the server's memory. All waiters enter, though perhaps in
// another order.
func TestFairRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := locktest.Name(t)
	const waiters = 30
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
	sec := locktest.NewSection(n)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			l, err := cs[i%len(cs)].FairMutex(n).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			sec.Visit(l, 2*time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	locktest.AwaitQueue(t, s, n, waiters)
	s.Restart()
	start := time.Now()
	wg.Wait()
	if took := locktest.Took(start); took > 10*time.Second {
		t.Errorf("all were in after %v", took)
	}
	_ = l.Release(t.Context()) // has nothing to release
	sec.Check(t, waiters)
	locktest.WantNoQueue(t, s, n)
}

// While the one whose turn it is stays away, the others wait and do not spin.
func TestDeadHeadCost(t *testing.T) {
	t.Parallel()
	const waiters = 20
	s := redistest.Start(t)
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	w := locktest.EnqueueProcess(t, s, n, 1)
	c := locktest.Open(t, s.URL())
	var places []locktest.Place
	for range waiters {
		places = append(places, locktest.Enqueue(t, t.Context(), s, c.FairMutex(n)))
	}
	w.Kill()
	heardOut(t, s)
	locktest.Release(t, l)
	start := time.Now()
	s.Do(t, "CONFIG", "RESETSTAT")
	first := locktest.EnteredPastDead(t, places[0].Got)
	scripts, _ := locktest.Executed(t, s)
	took := time.Since(start)
	// One for each second, one for when the dead one's time is over, and one
	// for what may have been under way.
	if float64(scripts) > waiters*(took.Seconds()+2) {
		t.Errorf("%d scripts in %v for %d waiters", scripts, took, waiters)
	} else {
		t.Logf("%d scripts in %v for %d waiters", scripts, took, waiters)
	}
	locktest.Release(t, first)
	locktest.EnterInOrder(t, places[1:]...)
	locktest.WantNoQueue(t, s, n)
}

// fairRig returns a rig for a fair mutex that another client holds.
func fairRig(t *testing.T) (r *rig, holder *holdfast.Lease) {
	t.Helper()
	i := slices.IndexFunc(locktest.Kinds, func(k locktest.Kind) bool { return k.Letter == "F" })
	r = newRigOf(t, locktest.Kinds[i])
	c := locktest.Open(t, r.Server.URL(), holdfast.Options{WakeAll: true}) // it grants nothing, so that waiters ask
	return r, locktest.Lock(t, t.Context(), c.FairMutex("rig"))
}

// The reply to the request that queues is lost: the next one does not queue
// again.
func TestEnqueueReplyLost(t *testing.T) {
	t.Parallel()
	r, holder := fairRig(t)
	before := locktest.Enqueue(t, t.Context(), r.Server, locktest.Open(t, r.Server.URL()).FairMutex("rig"))
	dropped := r.DropNext()
	lost := locktest.Enqueue(t, t.Context(), r.Server, r.m)
	after := locktest.Enqueue(t, t.Context(), r.Server, locktest.Open(t, r.Server.URL()).FairMutex("rig"))
	<-dropped
	for range 3 { // signs of life
		<-r.DropNext()
		locktest.WantQueue(t, r.Server, "rig", before, lost, after)
	}
	locktest.Release(t, holder)
	locktest.EnterInOrder(t, before, lost, after)
	locktest.WantNoQueue(t, r.Server, "rig")
}

// The reply to the granted request is lost. The next request finds the grant, and the
// holder of the lock is not in the queue.
func TestGrantReplyLost(t *testing.T) {
	t.Parallel()
	r, holder := fairRig(t)
	lost := locktest.Enqueue(t, t.Context(), r.Server, r.m)
	after := locktest.Enqueue(t, t.Context(), r.Server, locktest.Open(t, r.Server.URL()).FairMutex("rig"))
	locktest.Eventually(t, 5*time.Second, "both have subscribed", func() bool { return len(r.Server.Channels(t)) == 3 })
	locktest.AwaitHeartbeats(t, r.Server, "rig", lost) // no other request of it follows soon
	dropped := r.DropNext()
	locktest.Release(t, holder)
	<-dropped
	locktest.Eventually(t, 10*time.Second, "the lock is taken", func() bool { return r.Server.Int(t, "HEXISTS", "rig", lost.Owner) == 1 })
	locktest.WantQueue(t, r.Server, "rig", after)
	locktest.EnterInOrder(t, lost, after)
	locktest.WantNoQueue(t, r.Server, "rig")
	r.has(t, "[]")
}

// The reply to the release is lost: the lock goes to the next one once.
func TestFairReleaseReplyLost(t *testing.T) {
	t.Parallel()
	r, holder := fairRig(t)
	stalls := redistest.MeterStalls(t, r.Server)
	locktest.Release(t, holder)
	l := locktest.Lock(t, t.Context(), r.m)
	c := locktest.Open(t, r.Server.URL())
	next := locktest.Enqueue(t, t.Context(), r.Server, c.FairMutex("rig"))
	after := locktest.Enqueue(t, t.Context(), r.Server, c.FairMutex("rig"))
	dropped := r.DropNext()
	releaseUnheard(t, stalls, l)
	<-dropped
	got := locktest.Entered(t, next.Got)
	r.has(t, fmt.Sprintf("[%s 1]", next.Owner))
	locktest.WantQueue(t, r.Server, "rig", after)
	locktest.Release(t, got)
	locktest.EnterInOrder(t, after)
	locktest.WantNoQueue(t, r.Server, "rig")
}

// The request that leaves the queue is lost, or its reply. The waiter leaves the
// queue nevertheless, and the others enter.
func TestGiveUpReplyLost(t *testing.T) {
	t.Parallel()
	for fault, harm := range map[string]func(*rig) (repair func()){
		"reply": func(r *rig) func() {
			dropped := r.DropNext()
			return func() { <-dropped }
		},
		"request": func(r *rig) func() {
			r.Disconnect()
			return func() { r.Proxy.Refuse(false) }
		},
		"late": func(r *rig) func() {
			r.Proxy.Freeze()
			return r.Proxy.Thaw
		},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r, holder := fairRig(t)
			c := locktest.Open(t, r.Server.URL())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := locktest.Enqueue(t, t.Context(), r.Server, c.FairMutex("rig"))
			lost := locktest.Enqueue(t, ctx, r.Server, r.m)
			after := locktest.Enqueue(t, t.Context(), r.Server, c.FairMutex("rig"))
			locktest.AwaitHeartbeats(t, r.Server, "rig", lost) // no other request of it follows soon
			repair := harm(r)
			start := time.Now()
			cancel()
			if err := locktest.Await(t, lost.Got).Err; !errors.Is(err, context.Canceled) {
				t.Errorf("gave up with %v", err)
			}
			if took := locktest.Took(start); took > 2*locktest.Late { // a moment for the answer included
				t.Errorf("gave up after %v", took)
			}
			repair()
			locktest.Eventually(t, 10*time.Second, "the queue is left", func() bool { return len(locktest.Queue(t, r.Server, "rig")) == 2 })
			locktest.WantQueue(t, r.Server, "rig", before, after)
			locktest.Release(t, holder)
			locktest.EnterInOrder(t, before, after)
			locktest.WantNoQueue(t, r.Server, "rig")
			locktest.AwaitSettled(t, r.Client) // what was in doubt is undone once more
			locktest.Eventually(t, locktest.Late, "no key is left", func() bool { return len(r.Server.Keys(t)) == 0 })
		})
	}
}

// A waiter behind a dead one enters, even if its connection is so slow that all its
// own signs of life are late.
func TestSlowWaiterBehindDead(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	w := locktest.EnqueueProcess(t, s, n, 1)
	slow := locktest.Enqueue(t, t.Context(), s, locktest.Open(t, p.URL()+"?timeout=20s").FairMutex(n))
	p.Delay(2500 * time.Millisecond)
	w.Kill()
	heardOut(t, s)
	locktest.Release(t, l)
	select {
	case o := <-slow.Got:
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		p.Delay(0)
		locktest.Release(t, o.Lease)
	case <-time.After(25 * time.Second):
		t.Errorf("still waiting behind a dead one: the queue is %q", locktest.Queue(t, s, n))
		p.Delay(0)
	}
}

// A server that is out of memory refuses new waiters, and the others keep their
// places.
func TestFairOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := locktest.Name(t)
	c := locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), c.FairMutex(n))
	inner := locktest.Lock(t, l.Context(), c.FairMutex(n))
	p := locktest.Enqueue(t, t.Context(), s, c.FairMutex(n))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := c.FairMutex(n).Lock(t.Context()); !errors.Is(err, holdfast.ErrRefused) {
		t.Errorf("a newcomer got %v, want ErrRefused", err)
	}
	locktest.AwaitHeartbeats(t, s, n, p)
	locktest.AwaitHeartbeats(t, s, n, p)
	locktest.WantQueue(t, s, n, p)
	locktest.Release(t, inner)
	locktest.Release(t, l)
	locktest.Release(t, locktest.Entered(t, p.Got))
	locktest.WantNoQueue(t, s, n)
	if keys := s.Keys(t); len(keys) > 0 {
		t.Errorf("keys left: %q", keys)
	}
}

// A waiter that gives up while the server is unreachable leaves the queue when the
// server is back, however short the lease would have been.
func TestGiveUpDuringOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := locktest.Name(t)
	held := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := locktest.Enqueue(t, ctx, s, locktest.Open(t, p.URL()).FairMutex(n), holdfast.LeaseTime(50*time.Millisecond))
	<-redistest.Outage(100*time.Millisecond, func() {
		p.Freeze()
		cancel()
		if o := locktest.Await(t, w.Got); !errors.Is(o.Err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", o.Err)
		}
	}, func() {
		p.Cut() // what was sent is gone
		p.Thaw()
	})
	locktest.WantNoQueue(t, s, n)
	locktest.Release(t, held)
}

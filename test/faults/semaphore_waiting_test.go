package faults_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A lost message does not block waiters. The connections of subscribers are killed
// again and again, while permits are passed around.
func TestSemaphoreSubscribersKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := locktest.Name(t)
	locktest.NewSemaphore(t, locktest.Open(t, s.URL()), n, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // with no machine to speak of
	defer cancel()
	const enough = 10
	var kills atomic.Int64
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		c := locktest.Open(t, s.URL(), locktest.Unpolled)
		for range 4 {
			wg.Go(func() {
				sem := c.Semaphore(n)
				for i := 0; i < 12 || kills.Load() < enough; i++ { // the killing goroutine may stand still
					if err := sem.Acquire(ctx, 2); err != nil {
						t.Error(err)
						return
					}
					locktest.Work(time.Millisecond)
					locktest.ReleasePermits(t, sem, 2)
				}
			})
		}
	}
	go func() {
		defer done.Store(true)
		wg.Wait()
	}()
	locktest.Repeat(20*time.Millisecond, 20*time.Millisecond, func() bool { return !done.Load() }, func(int) {
		kills.Add(s.Int(t, "CLIENT", "KILL", "TYPE", "pubsub"))
	})
	if n := kills.Load(); n < enough {
		t.Errorf("only %d connections killed", n)
	}
	t.Logf("%d connections killed", kills.Load())
	if free := s.Do(t, "GET", n); free != "2" {
		t.Errorf("%v permits are free", free)
	}
}

// The same with one waiter whose only message comes while it has no subscription.
func TestSubscriberKilledBeforeRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), locktest.Unpolled)
	holder := locktest.Open(t, s.URL())
	for round := range 10 {
		sem := locktest.NewSemaphore(t, holder, fmt.Sprint("sem", round), 1)
		locktest.Acquire(t, sem, 1)
		latch := locktest.NewLatch(t, holder, fmt.Sprint("latch", round), 1)
		one, two := locktest.Acquiring(t, s, c.Semaphore(sem.Name()), 1), locktest.AwaitingLatch(t, s, c.Latch(latch.Name()))
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		locktest.ReleasePermits(t, sem, 1)
		locktest.CountDown(t, latch, 0)
		locktest.Came(t, one)
		locktest.Came(t, two)
	}
}

func TestLatchSubscribersKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cs := []*holdfast.Client{locktest.Open(t, s.URL(), locktest.Unpolled), locktest.Open(t, s.URL(), locktest.Unpolled), locktest.Open(t, s.URL(), locktest.Unpolled)}
	for round := range 8 {
		l := locktest.NewLatch(t, cs[0], fmt.Sprint("latch", round), 2)
		done := make(chan error, 12)
		for i := range cap(done) {
			go func() { done <- cs[i%len(cs)].Latch(l.Name()).Wait(t.Context()) }()
		}
		locktest.Eventually(t, 10*time.Second, "all clients listen", func() bool { return s.Listeners(t, locktest.LatchChannel(l)) == len(cs) })
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		locktest.CountDown(t, l, 1)
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		locktest.CountDown(t, l, 0)
		for range cap(done) {
			locktest.Came(t, done)
		}
	}
}

// With all messages suppressed, a waiter enters within the poll interval.
func TestSemaphoreAndLatchWithoutMessages(t *testing.T) {
	t.Parallel()
	const poll = 300 * time.Millisecond
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c, holder := locktest.Open(t, p.URL(), holdfast.Options{PollInterval: poll}), locktest.Open(t, s.URL())
	sem := locktest.NewSemaphore(t, holder, "sem", 1)
	p.DropMessages(true)
	for round := range 5 {
		locktest.Acquire(t, sem, 1)
		latch := locktest.NewLatch(t, holder, fmt.Sprint("latch", round), 1)
		one, two := locktest.Acquiring(t, s, c.Semaphore("sem"), 1), locktest.AwaitingLatch(t, s, c.Latch(latch.Name()))
		start := time.Now()
		locktest.ReleasePermits(t, sem, 1)
		locktest.CountDown(t, latch, 0)
		locktest.Came(t, one)
		locktest.Came(t, two)
		if took := locktest.Took(start); took > poll+locktest.Late {
			t.Errorf("came in after %v", took)
		}
		locktest.ReleasePermits(t, sem, 1)
	}
}

// The server is restarted while there are waiters. What it remembers decides: a
// missing semaphore has no permits until some are released, and a missing latch is
// open.
func TestServerRestartedWhileWaiting(t *testing.T) {
	t.Parallel()
	for how, restart := range map[string]func(*redistest.Server){
		"with its data": (*redistest.Server).RestartWithData,
		"empty":         (*redistest.Server).Restart,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--appendonly", "yes")
			c, holder := locktest.Open(t, s.URL(), locktest.Unpolled), locktest.Open(t, s.URL())
			sem, latch := locktest.NewSemaphore(t, holder, "sem", 1), locktest.NewLatch(t, holder, "latch", 1)
			locktest.Acquire(t, sem, 1)
			one, two := locktest.Acquiring(t, s, c.Semaphore("sem"), 1), locktest.AwaitingLatch(t, s, c.Latch("latch"))
			restart(s)
			locktest.AwaitListener(t, s, "redisson_sc:{sem}")
			if how == "empty" {
				locktest.Came(t, two)
				locktest.WantWaiting(t, c, one)
				locktest.NewSemaphore(t, holder, "sem", 1)
			} else {
				locktest.AwaitWaiting(t, c, 2)
				locktest.ReleasePermits(t, sem, 1)
				locktest.CountDown(t, latch, 0)
				locktest.Came(t, two)
			}
			locktest.Came(t, one)
			if free := s.Do(t, "GET", "sem"); free != "0" {
				t.Errorf("%v permits are free", free)
			}
		})
	}
}

// A restart between a request and its answer.
func TestSemaphoreRestartedInDoubt(t *testing.T) {
	t.Parallel()
	r := newSemRig(t, redistest.Start(t, "--appendonly", "yes"))
	dropped := r.DropNext()
	done := make(chan error, 1)
	go func() { done <- r.sem.Acquire(t.Context(), 2) }()
	<-dropped
	r.Server.RestartWithData()
	locktest.Came(t, done)
	r.has(t, 3)
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// deaf are the settings of waiters that would come far too late if only the
// clock woke them.
var deaf = holdfast.Options{PollInterval: time.Minute}

// A lost message keeps nobody waiting: connections of subscribers are killed
// again and again, while permits go round.
func TestSemaphoreSubscribersKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := name(t)
	semaphore(t, open(t, s.URL()), n, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // with no machine to speak of
	defer cancel()
	const enough = 10
	var kills atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		c := open(t, s.URL(), deaf)
		for range 4 {
			wg.Go(func() {
				sem := c.Semaphore(n)
				for i := 0; i < 12 || kills.Load() < enough; i++ { // who kills may stand still
					if err := sem.Acquire(ctx, 2); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					giveBack(t, sem, 2)
				}
			})
		}
	}
	go func() {
		defer close(done)
		wg.Wait()
	}()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		kills.Add(s.Int(t, "CLIENT", "KILL", "TYPE", "pubsub"))
		select {
		case <-done:
			tick.Stop()
			if n := kills.Load(); n < enough {
				t.Errorf("only %d connections killed", n)
			}
			t.Logf("%d connections killed", kills.Load())
			if free := s.Do(t, "GET", n); free != "2" {
				t.Errorf("%v permits are free", free)
			}
			return
		default:
		}
	}
}

// The same with one waiter whose only message comes while nobody listens.
func TestSubscriberKilledBeforeRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), deaf)
	holder := open(t, s.URL())
	for round := range 10 {
		sem := semaphore(t, holder, fmt.Sprint("sem", round), 1)
		take(t, sem, 1)
		latch := closed(t, holder, fmt.Sprint("latch", round), 1)
		one, two := taking(t, s, c.Semaphore(sem.Name()), 1), awaiting(t, s, c.Latch(latch.Name()))
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		giveBack(t, sem, 1)
		counted(t, latch, 0)
		came(t, one)
		came(t, two)
	}
}

func TestLatchSubscribersKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cs := []*holdfast.Client{open(t, s.URL(), deaf), open(t, s.URL(), deaf), open(t, s.URL(), deaf)}
	for round := range 8 {
		l := closed(t, cs[0], fmt.Sprint("latch", round), 2)
		done := make(chan error, 12)
		for i := range cap(done) {
			go func() { done <- cs[i%len(cs)].Latch(l.Name()).Wait(t.Context()) }()
		}
		eventually(t, 10*time.Second, "all clients listen", func() bool { return listeners(t, s, latchChannel(l)) == len(cs) })
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		counted(t, l, 1)
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		counted(t, l, 0)
		for range cap(done) {
			came(t, done)
		}
	}
}

// With all messages suppressed, who waits comes in within the poll bound.
func TestSemaphoreAndLatchWithoutMessages(t *testing.T) {
	t.Parallel()
	const poll = 300 * time.Millisecond
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c, holder := open(t, p.URL(), holdfast.Options{PollInterval: poll}), open(t, s.URL())
	sem := semaphore(t, holder, "sem", 1)
	p.DropMessages(true)
	for round := range 5 {
		take(t, sem, 1)
		latch := closed(t, holder, fmt.Sprint("latch", round), 1)
		one, two := taking(t, s, c.Semaphore("sem"), 1), awaiting(t, s, c.Latch(latch.Name()))
		start := time.Now()
		giveBack(t, sem, 1)
		counted(t, latch, 0)
		came(t, one)
		came(t, two)
		if took := time.Since(start); took > poll+late {
			t.Errorf("came in after %v", took)
		}
		giveBack(t, sem, 1)
	}
}

// Where pub/sub is not wanted, nobody subscribes.
func TestSemaphoreAndLatchPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c, holder := open(t, p.URL()), open(t, s.URL())
	sem, latch := semaphore(t, holder, "sem", 0), closed(t, holder, "latch", 1)
	done := make(chan error, 2)
	poll := holdfast.Poll(holdfast.Backoff{})
	go func() { done <- c.Semaphore("sem", poll).Acquire(t.Context(), 1) }()
	go func() { done <- c.Latch("latch").Wait(t.Context(), poll) }()
	waits(t, done)
	giveBack(t, sem, 1)
	counted(t, latch, 0)
	came(t, done)
	came(t, done)
	if n := p.Count("SUBSCRIBE"); n > 0 {
		t.Errorf("%d subscriptions", n)
	}
}

// The server is restarted while some wait. What it remembers decides: a
// semaphore that is gone has no permits until somebody gives it some, and a
// latch that is gone is open.
func TestServerRestartedWhileWaiting(t *testing.T) {
	t.Parallel()
	for how, restart := range map[string]func(*redistest.Server){
		"with its data": (*redistest.Server).RestartWithData,
		"empty":         (*redistest.Server).Restart,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--appendonly", "yes")
			c, holder := open(t, s.URL(), deaf), open(t, s.URL())
			sem, latch := semaphore(t, holder, "sem", 1), closed(t, holder, "latch", 1)
			take(t, sem, 1)
			one, two := taking(t, s, c.Semaphore("sem"), 1), awaiting(t, s, c.Latch("latch"))
			restart(s)
			listened(t, s, "redisson_sc:{sem}")
			if how == "empty" {
				came(t, two)
				waits(t, one)
				semaphore(t, holder, "sem", 1)
			} else {
				waits(t, one)
				waits(t, two)
				giveBack(t, sem, 1)
				counted(t, latch, 0)
				came(t, two)
			}
			came(t, one)
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
	dropped := r.dropNext()
	done := make(chan error, 1)
	go func() { done <- r.sem.Acquire(t.Context(), 2) }()
	<-dropped
	r.s.RestartWithData()
	came(t, done)
	r.has(t, 3)
}

func TestCloseWhileWaitingForPermits(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	holder, c := open(t, s.URL()), open(t, s.URL())
	sem := semaphore(t, holder, "sem", 2)
	take(t, sem, 1)
	closed(t, holder, "latch", 1)
	errs := make(chan error)
	for i := range 12 {
		go func() {
			switch i % 3 {
			case 0:
				errs <- c.Semaphore("sem").Acquire(context.Background(), 2)
			case 1:
				errs <- c.Semaphore("sem").Acquire(context.Background(), 2, holdfast.Wait(time.Minute))
			default:
				errs <- c.Latch("latch").Wait(context.Background())
			}
		}()
	}
	eventually(t, 10*time.Second, "subscribed", func() bool { return len(s.Channels(t)) == 2 })
	start := time.Now()
	_ = c.Close()
	for range 12 {
		if err := <-errs; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("waiter: %v", err)
		}
	}
	if took := time.Since(start); took > late {
		t.Errorf("Close took %v", took)
	}
	if free := s.Do(t, "GET", "sem"); free != "1" {
		t.Errorf("%v permits are free", free)
	}
	for what, err := range map[string]error{
		"acquire":     c.Semaphore("sem").Acquire(t.Context(), 1),
		"try acquire": c.Semaphore("sem").TryAcquire(t.Context(), 1),
		"release":     c.Semaphore("sem").Release(t.Context(), 1),
		"wait":        c.Latch("latch").Wait(t.Context()),
	} {
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	if _, err := c.Latch("latch").CountDown(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("count down after Close: %v", err)
	}
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
}

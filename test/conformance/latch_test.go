package conformance_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// The bound is wider than Redisson's 50 ms, so that a busy machine keeps it;
// what counts is that the drop ends the wait, and not its time.
func TestLA01OpenedInTime(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	l := locktest.NewLatch(t, locktest.Open(t, s.URL()), n, 1)
	other := locktest.Open(t, s.URL())
	done := make(chan error, 1)
	go func() { done <- other.Latch(n).Wait(t.Context(), holdfast.Wait(time.Minute)) }()
	locktest.WantWaiting(t, other, done)
	locktest.CountDown(t, l, 0)
	locktest.Came(t, done)
}

func TestLA02OpenedTooLate(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	l := locktest.NewLatch(t, locktest.Open(t, s.URL()), n, 1)
	const wait = 2 * time.Second // or a server that stands still may not have said what is missing
	other := locktest.Open(t, s.URL())
	start := time.Now()
	err := other.Latch(n).Wait(t.Context(), holdfast.Wait(wait))
	switch {
	case errors.Is(err, holdfast.ErrUnavailable) && locktest.Stalled(start) > locktest.AWhile:
	case !errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, context.DeadlineExceeded):
		t.Errorf("error %v", err)
	case !strings.Contains(err.Error(), "the count was 1"):
		t.Errorf("%v: does not say what is missing", err)
	}
	if took := time.Since(start); took < wait || locktest.Took(start) > wait+locktest.Late {
		t.Errorf("gave up after %v", took)
	}
	locktest.CountDown(t, l, 0)

	again := locktest.NewLatch(t, locktest.Open(t, s.URL()), n, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := again.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("with a deadline: %v", err)
	}
}

func TestLA03FiveWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	locktest.NewLatch(t, a, n, 5)
	done := make(chan error, 5)
	for i := range 5 {
		go func() { done <- []*holdfast.Client{a, b}[i%2].Latch(n).Wait(t.Context()) }()
	}
	locktest.Eventually(t, 10*time.Second, "both clients listen", func() bool { return s.Listeners(t, locktest.LatchChannel(a.Latch(n))) == 2 })
	for left := 4; left >= 0; left-- {
		select {
		case err := <-done:
			t.Fatalf("came through too early: %v", err)
		default:
		}
		locktest.CountDown(t, []*holdfast.Client{a, b}[left%2].Latch(n), left)
	}
	for range 5 {
		locktest.Came(t, done)
	}
}

func TestLA04Counts(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	l := locktest.NewLatch(t, c, locktest.Name(t), 2)
	locktest.WantCount(t, l, 2)
	locktest.CountDown(t, l, 1)
	locktest.WantCount(t, l, 1)
	for range 3 {
		locktest.CountDown(t, l, 0)
		locktest.WantCount(t, l, 0)
	}
	for _, l := range []*holdfast.Latch{l, c.Latch(locktest.Name(t))} {
		start := time.Now()
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Wait(t.Context(), holdfast.Wait(0)); err != nil {
			t.Error(err)
		}
		if took := locktest.Took(start); took > locktest.Late {
			t.Errorf("came through after %v", took)
		}
		if s.Int(t, "EXISTS", l.Name()) != 0 {
			t.Error("there is a key")
		}
	}
}

// Redisson deletes a latch with a message that keeps its own waiters waiting.
// Ours look, and find nothing left to wait for.
func TestLA05Deleted(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	l := locktest.NewLatch(t, locktest.Open(t, s.URL()), locktest.Name(t), 3)
	done := locktest.AwaitingLatch(t, s, l)
	for _, want := range []bool{true, false} {
		if deleted, err := object.Of(l).Delete(t.Context()); deleted != want || err != nil {
			t.Errorf("deleted: %v, %v, want %v", deleted, err, want)
		}
	}
	locktest.Came(t, done) // where Redisson's waiters stay (B19)
	locktest.WantCount(t, l, 0)
}

func TestLA06SetOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	l := locktest.NewLatch(t, a, n, 1)
	for _, c := range []*holdfast.Client{a, b} {
		if ok, err := c.Latch(n).TrySet(t.Context(), 2); ok || err != nil {
			t.Errorf("set again: %v, %v", ok, err)
		}
	}
	locktest.WantCount(t, l, 1)
	locktest.CountDown(t, l, 0)
	locktest.NewLatch(t, b, n, 2)
	locktest.WantCount(t, l, 2)
}

func TestLA07Missing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	l := locktest.Open(t, s.URL()).Latch(locktest.Name(t))
	locktest.WantCount(t, l, 0)
	locktest.CountDown(t, l, 0)
	if s.Int(t, "EXISTS", l.Name()) != 0 {
		t.Error("there is a key")
	}
}

func TestLA08ManyWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	many := 3 * runtime.NumCPU()
	cs := make([]*holdfast.Client, many)
	for i := range cs {
		cs[i] = locktest.Open(t, s.URL())
	}
	locktest.NewLatch(t, cs[0], n, many)
	var tally atomic.Int64
	locktest.Parallel(2*many, func(i int) {
		l := cs[i%many].Latch(n)
		if i >= many {
			tally.Add(1)
			if _, err := l.CountDown(t.Context()); err != nil {
				t.Error(err)
			}
			return
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		locktest.WantCount(t, l, 0)
		if got := tally.Load(); got != int64(many) {
			t.Errorf("came through when %d of %d had counted", got, many)
		}
	})
}

// A zero message wakes every waiter: of one client, of several, and those that
// were counted down by a Java peer.
func TestLA09ZeroWakesAll(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	o := holdfast.Options{PollInterval: time.Minute} // so that nothing but the message wakes
	cs := []*holdfast.Client{locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)}
	l := locktest.NewLatch(t, cs[0], n, 2)
	const each = 20
	done := make(chan error, each*len(cs))
	for i := range cap(done) {
		go func() { done <- cs[i%len(cs)].Latch(n).Wait(t.Context()) }()
	}
	locktest.Eventually(t, 10*time.Second, "all clients listen", func() bool { return s.Listeners(t, locktest.LatchChannel(l)) == len(cs) })
	for _, c := range cs {
		locktest.AwaitWaiting(t, c, each)
	}
	s.Do(t, "DEL", n) // as Redisson's script does
	s.Do(t, "PUBLISH", locktest.LatchChannel(l), "0")
	for range cap(done) {
		locktest.Came(t, done)
	}
}

package faults_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A latchRig is a latch on a client whose replies can be lost.
type latchRig struct {
	locktest.Rig
	l *holdfast.Latch
}

// newLatchRig returns one with a count of three, on a server that knows the
// scripts.
func newLatchRig(t *testing.T, s *redistest.Server) *latchRig {
	t.Helper()
	r := &latchRig{Rig: locktest.NewRig(t, s, "")}
	r.l = locktest.NewLatch(t, r.Client, "rig", 4)
	locktest.CountDown(t, r.l, 3)
	locktest.WantCount(t, r.l, 3)
	return r
}

// has checks the count at the server; "<nil>" is none.
func (r *latchRig) has(t *testing.T, want any) {
	t.Helper()
	if got := r.Server.Do(t, "GET", "rig"); got != want {
		t.Errorf("the count is %v, want %v", got, want)
	}
}

// settles waits until the server has that count, and checks that it stays so.
func (r *latchRig) settles(t *testing.T, want any) {
	t.Helper()
	locktest.Eventually(t, 15*time.Second, "the count", func() bool { return r.Server.Do(t, "GET", "rig") == want })
	locktest.AwaitSettled(t, r.Client)
	heardOut(t, r.Server)
	r.has(t, want)
}

func (r *latchRig) dropTwo() (first, second <-chan struct{}) {
	return r.Proxy.DropReply(1, redistest.Command("EVALSHA")), r.Proxy.DropReply(2, redistest.Command("EVALSHA"))
}

// unheard makes a call that is retried for a second, and loses two of its replies.
func (r *latchRig) unheard(t *testing.T, what string, call func() error) {
	t.Helper()
	stalls := redistest.MeterStalls(t, r.Server)
	first, second := r.dropTwo()
	start := time.Now()
	err := call()
	<-first
	if locktest.StoodStill(stalls, err, start) { // perhaps it was not sent again
		return
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	<-second
}

// Counted once, although the request ran three times.
func TestLatchReplyLost(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t, redistest.Start(t))
	waiter := locktest.Open(t, r.Server.URL()).Latch("rig")
	done := locktest.AwaitingLatch(t, r.Server, waiter)
	wrong := func(err error, got any) error {
		return cmp.Or(err, fmt.Errorf("got %v", got))
	}
	for left := 2; left >= 0; left-- {
		r.unheard(t, fmt.Sprint("count down to ", left), func() error {
			n, err := r.l.CountDown(t.Context())
			if n != left || err != nil {
				return wrong(err, n)
			}
			return nil
		})
	}
	locktest.Came(t, done)
	r.has(t, nil)

	for _, first := range []bool{true, false} {
		r.unheard(t, fmt.Sprint("set, for the first time: ", first), func() error {
			count := 3
			if first {
				count = 2
			}
			ok, err := r.Client.Latch("rig").TrySet(t.Context(), count)
			if ok != first || err != nil {
				return wrong(err, ok)
			}
			return nil
		})
		r.has(t, "2")
	}
	r.unheard(t, "count", func() error {
		n, err := r.l.Count(t.Context())
		if n != 2 || err != nil {
			return wrong(err, n)
		}
		return nil
	})
	r.unheard(t, "wait", func() error {
		err := r.l.Wait(t.Context(), holdfast.Wait(0))
		if errors.Is(err, holdfast.ErrNotAcquired) {
			return nil
		}
		return wrong(err, "through")
	})
}

func TestLatchCountDownWithDeadContext(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t, redistest.Start(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := r.l.CountDown(ctx); n != 2 || err != nil {
		t.Error(n, err)
	}
	r.has(t, "2")
	if err := r.l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a dead context: %v", err)
	}
}

// With the server away for three seconds, it is counted in the background, and
// once.
func TestLatchCountDownGoesOn(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]func(r *latchRig) (back func()){
		"cut off": func(r *latchRig) func() {
			r.Disconnect()
			return func() { r.Proxy.Refuse(false) }
		},
		"paused": func(r *latchRig) func() {
			r.Server.Pause()
			return r.Server.Resume
		},
		"mute": func(r *latchRig) func() {
			r.Proxy.FreezeReplies()
			return r.Proxy.Thaw
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newLatchRig(t, redistest.Start(t))
			start := time.Now()
			var back func()
			lasted := redistest.Outage(3*time.Second, func() { back = away(r) }, nil)
			if _, err := r.l.CountDown(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("count down without a server: %v", err)
			}
			if took := locktest.Took(start); took > 4*time.Second+locktest.Late {
				t.Errorf("took %v", took)
			}
			<-lasted
			if how == "cut off" {
				r.has(t, "3")
				r.dropTwo() // it gets through, and that is not known
			}
			back()
			r.settles(t, "2")
			locktest.CountDown(t, r.l, 1)
			locktest.CountDown(t, r.l, 0)
		})
	}
}

// A waiter for a latch leaves nothing behind, however its wait ends.
func TestLatchGivenUp(t *testing.T) {
	t.Parallel()
	r := newLatchRig(t, redistest.Start(t))
	before := r.Server.Keys(t)
	arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-arrived
		cancel()
	}()
	start := time.Now()
	if err := r.l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("gave up after %v", took)
	}
	letGo()
	r.has(t, "3")
	if after := r.Server.Keys(t); len(after) != len(before) {
		t.Errorf("before %v, after %v", before, after)
	}
	locktest.Eventually(t, 10*time.Second, "no subscription left", func() bool { return len(r.Server.Channels(t)) == 0 })
}

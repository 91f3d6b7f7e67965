package interop_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A relay is an object that one client holds and another waits for. A message wakes the
// waiter.
type relay struct {
	name string
	// looks reports whether a Java waiter that gets no message checks again at the end
	// of the lease that it has seen. Without a lease it never checks again.
	looks  bool
	java   func(tb testing.TB, r *redisson, name string) runner
	golang func(c *holdfast.Client, name string) runner
}

// A runner is one client's part in a relay.
type runner interface {
	// Hold acquires the object while it is free.
	Hold(tb testing.TB)
	// Wait waits for the object. The channel receives the end of the wait. The function waits
	// reports whether a thread sleeps until a message arrives. Goroutines always do.
	Wait(tb testing.TB) (arrived <-chan arrival, waits func() bool)
	// Pass releases the object and returns the time at which the release began.
	Pass(tb testing.TB) int64
	// Leave is called after Wait and restores the state before Hold.
	Leave(tb testing.TB)
}

// An arrival is the end of a wait, in nanoseconds of redistest.Now.
type arrival struct {
	at  int64
	err error
}

// javaRunner is a thread that makes these calls: a method and its arguments.
type javaRunner struct {
	holder, waiter          object
	hold, wait, pass, leave []any
	thread                  string
	by                      string // what blocks the waiter, see blocked
}

func (r *javaRunner) do(tb testing.TB, o object, call []any) interop.Answer {
	tb.Helper()
	return o.do(tb, r.thread, call[0].(string), call[1:]...)
}

func (r *javaRunner) Hold(tb testing.TB)       { r.do(tb, r.holder, r.hold) }
func (r *javaRunner) Pass(tb testing.TB) int64 { return r.do(tb, r.holder, r.pass).Began() }

func (r *javaRunner) Leave(tb testing.TB) {
	if r.leave != nil {
		r.do(tb, r.waiter, r.leave)
	}
}

func (r *javaRunner) Wait(tb testing.TB) (arrived <-chan arrival, waits func() bool) {
	tb.Helper()
	waits = threadWaits(tb, r.waiter.Peer(), r.thread, r.by)
	answer, ch := r.waiter.Go(r.thread, r.wait[0].(string), r.wait[1:]...), make(chan arrival, 1)
	go func() {
		a := <-answer // blocks if the thread waits forever
		if a.Err() != nil {
			ch <- arrival{err: a.Err()}
			return
		}
		ch <- arrival{at: a.Ended()}
	}()
	return ch, waits
}

// goRunner is a client that calls these functions.
type goRunner struct{ hold, wait, pass, leave func(context.Context) error }

func (r *goRunner) do(tb testing.TB, f func(context.Context) error) {
	tb.Helper()
	if err := f(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

func (r *goRunner) Hold(tb testing.TB) { r.do(tb, r.hold) }

func (r *goRunner) Pass(tb testing.TB) int64 {
	began := redistest.Now()
	r.do(tb, r.pass)
	return began
}

func (r *goRunner) Leave(tb testing.TB) {
	if r.leave != nil {
		r.do(tb, r.leave)
	}
}

func (r *goRunner) Wait(testing.TB) (arrived <-chan arrival, waits func() bool) {
	ch := make(chan arrival, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		err := r.wait(ctx)
		ch <- arrival{redistest.Now(), err}
	}()
	return ch, func() bool { return true }
}

// lockRelay returns the relay of a lock, or of the two modes of a read/write lock.
func lockRelay(name, held, wanted string) relay {
	holder, waiter := kindOf(held), kindOf(wanted)
	return relay{
		name: name, looks: true,
		java: func(tb testing.TB, r *redisson, name string) runner {
			lock, unlock := []any{"lock"}, []any{"unlock"}
			return &javaRunner{holder.java(tb, r, name), waiter.java(tb, r, name), lock, lock, unlock, unlock, name + r.ID, inQueue}
		},
		golang: func(c *holdfast.Client, name string) runner {
			var lease *holdfast.Lease
			lock := func(k kind) func(context.Context) error {
				return func(ctx context.Context) (err error) {
					lease, err = k.golang(c, name).Lock(ctx)
					return err
				}
			}
			release := func(ctx context.Context) error { return lease.Release(ctx) }
			return &goRunner{lock(holder), lock(waiter), release, release}
		},
	}
}

var relays = []relay{
	lockRelay("mutex", "mutex", "mutex"),
	lockRelay("fair", "fair", "fair"),
	lockRelay("reader after writer", "write", "read"),
	lockRelay("writer after reader", "read", "write"),
	{
		name: "semaphore",
		java: func(tb testing.TB, r *redisson, name string) runner {
			s := r.get(tb, "getSemaphore", name)
			return &javaRunner{s, s, []any{"trySetPermits", 0}, []any{"acquire"}, []any{"release"}, nil, name + r.ID, inQueue}
		},
		golang: func(c *holdfast.Client, name string) runner {
			s := c.Semaphore(name)
			return &goRunner{
				hold: func(ctx context.Context) error { _, err := s.TrySet(ctx, 0, 0); return err },
				wait: func(ctx context.Context) error { return s.Acquire(ctx, 1) },
				pass: func(ctx context.Context) error { return s.Release(ctx, 1) },
			}
		},
	},
	{
		name: "latch",
		java: func(tb testing.TB, r *redisson, name string) runner {
			l := r.get(tb, "getCountDownLatch", name)
			return &javaRunner{l, l, []any{"trySetCount", 1}, []any{"await"}, []any{"countDown"}, nil, name + r.ID, atLatch}
		},
		golang: func(c *holdfast.Client, name string) runner {
			l := c.Latch(name)
			return &goRunner{
				hold: func(ctx context.Context) error { _, err := l.TrySet(ctx, 1); return err },
				wait: func(ctx context.Context) error { return l.Wait(ctx) },
				pass: func(ctx context.Context) error { _, err := l.CountDown(ctx); return err },
			}
		},
	},
}

// A handover is a relay between two clients.
type handover struct {
	relay
	name         string // name of the object
	java, golang string // modes of the clients
	javaFirst    bool
	from, to     runner
	passed       int64
	arrived      <-chan arrival
}

func (h *handover) String() string {
	if h.javaFirst {
		return h.relay.name + " from Java " + h.java + " to Go " + h.golang
	}
	return h.relay.name + " from Go " + h.golang + " to Java " + h.java
}

// handovers returns the handovers of all relays between two clients in both directions.
func handovers(tb testing.TB, java, golang string, r *redisson, c *holdfast.Client) (all []*handover) {
	for _, re := range relays {
		for _, javaFirst := range []bool{true, false} {
			h := &handover{relay: re, name: name(tb), java: java, golang: golang, javaFirst: javaFirst}
			h.from, h.to = re.java(tb, r, h.name), re.golang(c, h.name)
			if !javaFirst {
				h.from, h.to = h.to, h.from
			}
			all = append(all, h)
		}
	}
	return all
}

// beginAll makes one side of each handover hold and the other side wait.
func beginAll(tb testing.TB, servers []*redistest.Server, all []*handover) {
	tb.Helper()
	waits := make([]func() bool, len(all))
	for i, h := range all {
		h.from.Hold(tb)
		h.arrived, waits[i] = h.to.Wait(tb)
	}
	locktest.Eventually(tb, time.Minute, "all have subscribed", func() bool {
		heard := listening(tb, servers...)
		return !slices.ContainsFunc(all, func(h *handover) bool { return !heard[h.name] })
	})
	for i, h := range all {
		awaitWaiting(tb, waits[i], h.arrived)
	}
}

// pass makes all holders release.
func pass(tb testing.TB, all []*handover) {
	for _, h := range all {
		h.passed = h.from.Pass(tb)
	}
}

// took returns the time from the release to the arrival of the waiter. ok is false if
// it has not arrived by the limit.
func (h *handover) took(tb testing.TB, limit time.Duration) (time.Duration, bool) {
	tb.Helper()
	if !redistest.Poll(limit-time.Duration(redistest.Now()-h.passed), func() bool { return len(h.arrived) > 0 }) {
		return 0, false
	}
	a := <-h.arrived
	if a.err != nil {
		tb.Fatalf("%v: %v", h, a.err)
	}
	h.to.Leave(tb)
	return time.Duration(a.at - h.passed), true
}

// listening returns the names whose channels have subscribers.
func listening(tb testing.TB, servers ...*redistest.Server) map[string]bool {
	names := make(map[string]bool)
	for _, s := range servers {
		for _, list := range []string{"CHANNELS", "SHARDCHANNELS"} {
			for _, channel := range s.Strings(tb, "PUBSUB", list) {
				_, rest, _ := strings.Cut(channel, "{")
				name, _, _ := strings.Cut(rest, "}")
				names[name] = true
			}
		}
	}
	return names
}

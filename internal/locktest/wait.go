package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An Outcome is the result of Lock.
type Outcome struct {
	Lease *holdfast.Lease
	Err   error
}

// Background locks m in another goroutine.
func Background(ctx context.Context, m holdfast.Locker, opts ...holdfast.LockOption) <-chan Outcome {
	ch := make(chan Outcome, 1)
	go func() {
		l, err := m.Lock(ctx, opts...)
		ch <- Outcome{l, err}
	}()
	return ch
}

// Await returns the result of a call in the background, or ends the test. It waits
// for less than the poll interval, so only a message can have woken the waiter.
func Await(tb testing.TB, ch <-chan Outcome) Outcome {
	tb.Helper()
	return AwaitAfter(tb, 0, ch)
}

// AwaitAfter is Await for a call that is expected to return after d.
func AwaitAfter(tb testing.TB, d time.Duration, ch <-chan Outcome) Outcome {
	tb.Helper()
	o, ok := Receive(ch, d+Late)
	if !ok {
		tb.Fatal("still waiting")
	}
	return o
}

// Entered is Await for a call that must succeed.
func Entered(tb testing.TB, ch <-chan Outcome) *holdfast.Lease {
	tb.Helper()
	return EnteredAfter(tb, 0, ch)
}

// EnteredAfter is AwaitAfter for a call that must succeed.
func EnteredAfter(tb testing.TB, d time.Duration, ch <-chan Outcome) *holdfast.Lease {
	tb.Helper()
	o := AwaitAfter(tb, d, ch)
	if o.Err != nil {
		tb.Fatal(o.Err)
	}
	return o.Lease
}

// TimedOut reports whether err is that of a call that has not acquired anything in
// its time. A server that stood still at the end may not have answered.
func TimedOut(err error) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable)
}

// EnteredPastDead is Entered for a waiter behind a killed one, which is detected
// after a few seconds.
func EnteredPastDead(tb testing.TB, ch <-chan Outcome) *holdfast.Lease {
	tb.Helper()
	return EnteredAfter(tb, 11*time.Second, ch)
}

// Came checks that a call in the background returns without an error, and earlier
// than polling alone would allow.
func Came(tb testing.TB, done <-chan error) {
	tb.Helper()
	err, ok := Receive(done, Late)
	if !ok {
		tb.Fatal("still waiting")
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Waits checks that a call in the background does not return for a while.
func Waits(tb testing.TB, done <-chan error) {
	tb.Helper()
	select {
	case err := <-done:
		tb.Fatalf("did not wait: %v", err)
	case <-time.After(AWhile):
	}
}

// AwaitWaiting waits until at least n calls of a client wait.
func AwaitWaiting(tb testing.TB, c *holdfast.Client, n int) {
	tb.Helper()
	Eventually(tb, 20*time.Second, fmt.Sprint(n, " calls wait"), func() bool { return c.Stats().Waiting >= n })
}

// WantWaiting checks that a call in the background waits, which has a buffer for its result. No
// other call of its client may wait.
func WantWaiting[T any](tb testing.TB, c *holdfast.Client, ch <-chan T) {
	tb.Helper()
	Eventually(tb, 20*time.Second, "the call waits", func() bool { return c.Stats().Waiting > 0 || len(ch) > 0 })
	if len(ch) > 0 {
		tb.Fatal("the call did not wait")
	}
}

// Outlast waits until a lease of that length ends, which begins now. Leases that began earlier and
// are not longer have ended before.
func Outlast(tb testing.TB, c *holdfast.Client, d time.Duration) {
	tb.Helper()
	<-Lock(tb, context.Background(), c.Mutex(Name(tb)), holdfast.LeaseTime(d)).Context().Done()
}

// AwaitRenewals waits until a client has renewed or verified n more leases.
func AwaitRenewals(tb testing.TB, c *holdfast.Client, n uint64) {
	tb.Helper()
	n += c.Stats().Renewals
	Eventually(tb, 20*time.Second, "leases are renewed", func() bool { return c.Stats().Renewals >= n })
}

// AwaitSettled waits until clients have nothing to release and nothing to undo in the background.
func AwaitSettled(tb testing.TB, cs ...*holdfast.Client) {
	tb.Helper()
	for _, c := range cs {
		Eventually(tb, 20*time.Second, "a client has nothing to do in the background", func() bool { return c.Stats().PendingReleases == 0 })
	}
}

// Seen returns a context for a call, and a channel that is closed when the call first looks at
// whether the context is done.
func Seen(ctx context.Context) (context.Context, <-chan struct{}) {
	looked := make(chan struct{})
	return seen{ctx, sync.OnceFunc(func() { close(looked) })}, looked
}

type seen struct {
	context.Context
	look func()
}

func (s seen) Done() <-chan struct{} {
	s.look()
	return s.Context.Done()
}

// CancelledSoon returns a context that ends after a millisecond. A call may then be
// anywhere.
func CancelledSoon(ctx context.Context) context.Context {
	return redistest.CancelledAfter(ctx, time.Millisecond)
}

// AwaitListener waits until there is a subscription to a channel.
func AwaitListener(tb testing.TB, s *redistest.Server, channel string) {
	tb.Helper()
	Eventually(tb, 10*time.Second, "a subscription of "+channel, func() bool {
		return len(s.Strings(tb, "PUBSUB", "CHANNELS", channel)) == 1
	})
}

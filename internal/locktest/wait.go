package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An Outcome is what a call that takes a lock has returned.
type Outcome struct {
	Lease *holdfast.Lease
	Err   error
}

// Background locks m in another goroutine.
func Background(ctx context.Context, m holdfast.Locker, opts ...holdfast.Option) <-chan Outcome {
	ch := make(chan Outcome, 1)
	go func() {
		l, err := m.Lock(ctx, opts...)
		ch <- Outcome{l, err}
	}()
	return ch
}

// Await returns what a call in the background has returned, or ends the test.
// Its time is less than a waiter lets pass that has heard no message.
func Await(tb testing.TB, ch <-chan Outcome) Outcome {
	tb.Helper()
	return AwaitAfter(tb, 0, ch)
}

// AwaitAfter is await for a call that is to return after d.
func AwaitAfter(tb testing.TB, d time.Duration, ch <-chan Outcome) Outcome {
	tb.Helper()
	select {
	case o := <-ch:
		return o
	case <-time.After(d + Late):
		tb.Fatal("still waiting")
		return Outcome{}
	}
}

// Entered is await for a call that has to succeed.
func Entered(tb testing.TB, ch <-chan Outcome) *holdfast.Lease {
	tb.Helper()
	return EnteredAfter(tb, 0, ch)
}

// EnteredAfter is awaitAfter for a call that has to succeed.
func EnteredAfter(tb testing.TB, d time.Duration, ch <-chan Outcome) *holdfast.Lease {
	tb.Helper()
	o := AwaitAfter(tb, d, ch)
	if o.Err != nil {
		tb.Fatal(o.Err)
	}
	return o.Lease
}

// TimedOut reports whether one has not got what it has waited for until its time
// was over. If it has asked just then, a server that stands still may not have
// answered.
func TimedOut(err error) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable)
}

// EnteredPastDead is entered for one who waits behind somebody that was killed,
// which shows after a few seconds.
func EnteredPastDead(tb testing.TB, ch <-chan Outcome) *holdfast.Lease {
	tb.Helper()
	return EnteredAfter(tb, 11*time.Second, ch)
}

// Listeners is how many connections listen on a channel.
func Listeners(tb testing.TB, s *redistest.Server, channel string) int {
	tb.Helper()
	reply, ok := s.Do(tb, "PUBSUB", "NUMSUB", channel).([]any)
	if !ok || len(reply) != 2 {
		tb.Fatalf("NUMSUB: %v", reply)
	}
	return int(reply[1].(int64))
}

// Came checks that a call in the background returns without an error, earlier
// than one would that has heard no message.
func Came(tb testing.TB, done <-chan error) {
	tb.Helper()
	select {
	case err := <-done:
		if err != nil {
			tb.Fatal(err)
		}
	case <-time.After(Late):
		tb.Fatal("still waiting")
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

// AwaitListener waits until somebody listens on a channel.
func AwaitListener(tb testing.TB, s *redistest.Server, channel string) {
	tb.Helper()
	Eventually(tb, 10*time.Second, "a subscription of "+channel, func() bool {
		return len(s.Strings(tb, "PUBSUB", "CHANNELS", channel)) == 1
	})
}

package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Campaign campaigns until it leads, or ends the test.
func Campaign(tb testing.TB, ctx context.Context, e *holdfast.Election, said string, opts ...holdfast.LockOption) *holdfast.Lease {
	tb.Helper()
	l, err := e.Campaign(ctx, said, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// WantLeader checks which lease leads, as the server sees it. If l is nil, there
// must be no leader.
func WantLeader(tb testing.TB, e *holdfast.Election, l *holdfast.Lease, said string) {
	tb.Helper()
	var want holdfast.Leader
	if l != nil {
		want = holdfast.Leader{Name: said, Term: l.Token(), Owner: l.Owner()}
	}
	if got, err := e.Leader(context.Background()); got != want || err != nil {
		tb.Errorf("leader %+v, error %v, want %+v", got, err, want)
	}
}

// A View receives what an observer sees. It is closed at the end of the loop.
type View chan Sight

// A Sight is one step of the loop of an observer.
type Sight struct {
	Leader holdfast.Leader
	Err    error
}

// Observe observes an election in another goroutine.
func Observe(ctx context.Context, e *holdfast.Election, opts ...holdfast.WaitOption) View {
	v := make(View, 100)
	go func() {
		defer close(v)
		for l, err := range e.Observe(ctx, opts...) {
			v <- Sight{l, err}
		}
	}()
	return v
}

// Any returns the next sight, which may be an error.
func (v View) Any(tb testing.TB) Sight {
	tb.Helper()
	select {
	case s, ok := <-v:
		if !ok {
			tb.Fatal("the loop has ended")
		}
		return s
	case <-time.After(10 * time.Second):
		tb.Fatal("nothing seen")
		return Sight{}
	}
}

// Next returns the next leader.
func (v View) Next(tb testing.TB) holdfast.Leader {
	tb.Helper()
	s := v.Any(tb)
	if s.Err != nil {
		tb.Fatal(s.Err)
	}
	return s.Leader
}

// After returns the next leader, and skips the moment between two leaders.
func (v View) After(tb testing.TB) holdfast.Leader {
	tb.Helper()
	l := v.Next(tb)
	if l == (holdfast.Leader{}) {
		l = v.Next(tb)
	}
	return l
}

// Ends waits for the end of the loop.
func (v View) Ends(tb testing.TB) {
	tb.Helper()
	select {
	case s, ok := <-v:
		if ok {
			tb.Errorf("saw %+v after the end", s)
		}
	case <-time.After(10 * time.Second):
		tb.Fatal("the loop does not end")
	}
}

// NoLeader is what observers see while there is no leader.
var NoLeader holdfast.Leader

// LeaderOf returns a lease as observers see it.
func LeaderOf(l *holdfast.Lease, said string) holdfast.Leader {
	return holdfast.Leader{Name: said, Term: l.Token(), Owner: l.Owner()}
}

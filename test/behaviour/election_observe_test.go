package behaviour_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// All observers see the same, in one client and in two, by messages and
// without.
func TestObservers(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, two := locktest.Open(t, s.URL(), locktest.Steady), locktest.Open(t, s.URL(), locktest.Steady)
	poll := holdfast.Poll(holdfast.Backoff{Max: 20 * time.Millisecond})
	views := map[string]locktest.View{
		"first":            locktest.Observe(ctx, one.Election(n)),
		"same client":      locktest.Observe(ctx, one.Election(n)),
		"another client":   locktest.Observe(ctx, two.Election(n)),
		"call that polls":  locktest.Observe(ctx, two.Election(n), poll),
		"object that does": locktest.Observe(ctx, one.Election(n, poll)),
	}
	all := func(want holdfast.Leader) {
		t.Helper()
		for who, v := range views {
			if got := v.Next(t); got != want {
				t.Errorf("%s: saw %+v, want %+v", who, got, want)
			}
		}
	}
	all(locktest.NoLeader)
	e := locktest.Open(t, s.URL(), locktest.Steady).Election(n)
	for range 3 {
		l := locktest.Campaign(t, t.Context(), e, "a")
		all(locktest.LeaderOf(l, "a"))
		if err := e.Proclaim(t.Context(), l, "a2"); err != nil {
			t.Fatal(err)
		}
		all(locktest.LeaderOf(l, "a2"))
		if err := e.Proclaim(t.Context(), l, "a2"); err != nil { // is no change
			t.Fatal(err)
		}
		locktest.Release(t, l)
		all(locktest.NoLeader)
	}
	// A late observer sees the leader at once. Observers do not see candidates that
	// only try.
	l := locktest.Campaign(t, t.Context(), e, "b")
	all(locktest.LeaderOf(l, "b"))
	if got := locktest.Observe(ctx, two.Election(n)).Next(t); got != locktest.LeaderOf(l, "b") {
		t.Errorf("latecomer: saw %+v", got)
	}
	if _, err := two.Election(n).TryCampaign(t.Context(), "c"); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Error(err)
	}
	locktest.Release(t, l)
	all(locktest.NoLeader)
	cancel()
	for _, v := range views {
		v.Ends(t)
	}
}

// What the server refuses ends the loop.
func TestObserveRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	s.Do(t, "SET", n, "somebody's")
	seen := locktest.Observe(t.Context(), locktest.Open(t, s.URL()).Election(n))
	if got := seen.Any(t); !errors.Is(got.Err, holdfast.ErrRefused) {
		t.Errorf("saw %+v", got)
	}
	seen.Ends(t)
}

// However the loop is left, no subscription stays, and no goroutine.
func TestObserveLeavesNothing(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	n := locktest.Name(t)
	e := c.Election(n)
	news := "holdfast:leader:{" + n + "}"
	for range e.Observe(t.Context()) {
		break // at the first look
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for l, err := range e.Observe(done) {
		t.Errorf("saw %+v, %v", l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	looked := 0
	seq := e.Observe(ctx)
	for range 2 { // it can be used again
		for l, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			if looked++; l != locktest.NoLeader {
				break
			}
			go func() {
				locktest.AwaitListener(t, s, news)
				if lease, err := e.TryCampaign(t.Context(), "a"); err == nil {
					<-ctx.Done()
					locktest.Release(t, lease)
				}
			}()
		}
	}
	if looked != 3 { // no leader, the leader; the leader
		t.Errorf("%d sightings", looked)
	}
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	seen := locktest.Observe(ctx, e)
	seen.Next(t)
	locktest.AwaitListener(t, s, news)
	cancel()
	if l, ok := <-seen; ok && (l.Err != nil || l.Leader != locktest.NoLeader) { // the leader leaves too
		t.Errorf("saw %+v", l)
	}
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })

	lease := locktest.Campaign(t, t.Context(), e, "b")
	for l, err := range e.Observe(t.Context(), holdfast.Poll(holdfast.Backoff{Max: 10 * time.Millisecond})) {
		if err != nil || l == locktest.NoLeader {
			break
		}
		locktest.Release(t, lease)
	}
	if channels := s.Channels(t); len(channels) > 0 {
		t.Errorf("an election that polls has subscribed to %q", channels)
	}
	c.Close()
}

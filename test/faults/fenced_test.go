package faults_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Each way to lose a lock leaves the counter alone, and the next token is one
// higher.
func TestFencedTokenGoesOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	o := holdfast.Options{WatchdogTimeout: 10 * time.Second, RenewEvery: locktest.Steady.RenewEvery}
	a, b := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
	m, other := a.FencedMutex("fenced"), b.FencedMutex("fenced")
	var last int64
	next := func(what string, m *holdfast.Mutex, opts ...holdfast.LockOption) *holdfast.Lease {
		t.Helper()
		l := locktest.EnteredAfter(t, 3*time.Second, locktest.Background(t.Context(), m, opts...))
		if l.Token() != last+1 {
			t.Errorf("%s: token %d after %d", what, l.Token(), last)
		}
		last = l.Token()
		return l
	}
	l := next("first", m)
	inner := locktest.Lock(t, l.Context(), m)
	longer := locktest.Lock(t, inner.Context(), m, holdfast.LeaseTime(time.Minute))
	if inner.Token() != 1 || longer.Token() != 1 {
		t.Errorf("tokens %d and %d after entering again, want 1", inner.Token(), longer.Token())
	}
	locktest.WantToken(t, other, 1)
	locktest.Release(t, longer)
	locktest.Release(t, inner)
	locktest.Release(t, l)

	l = next("released", other, holdfast.LeaseTime(3*time.Second)) // less could be over when it comes
	got := next("expired", m)
	locktest.WantLost(t, l, holdfast.LossExpired)

	if freed, err := other.ForceUnlock(t.Context()); !freed || err != nil {
		t.Fatal(freed, err)
	}
	locktest.WantToken(t, m, last)
	l = next("forced", other)
	locktest.WantLost(t, got, holdfast.LossNotOwner)

	s.RestartWithData()
	locktest.Eventually(t, 10*time.Second, "the client is connected again", func() bool {
		_, err := m.State(t.Context())
		return err == nil
	})
	locktest.WantToken(t, m, last)
	if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("after the restart the lock is not held: %v", err)
	}
	_ = l.Release(t.Context())
	l = next("restarted", m)
	_ = a.Close()
	locktest.WantLost(t, l, holdfast.LossClosed)
	locktest.Release(t, next("closed", other))
	if keys := s.Keys(t); fmt.Sprint(keys) != "[redisson_lock_token:{fenced}]" {
		t.Errorf("keys %q, want only the counter", keys)
	}
}

// A lost reply neither raises the token twice nor leaves the lock locked.
func TestFencedReplyLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	m := locktest.Open(t, p.URL()).FencedMutex("rig")
	l := locktest.Lock(t, t.Context(), m) // so that the server knows the scripts
	locktest.Release(t, locktest.Lock(t, l.Context(), m))
	locktest.Release(t, l)
	drop := func() <-chan struct{} { return p.DropReply(1, redistest.Command("EVALSHA")) }
	for want := int64(2); want < 5; want++ {
		dropped := drop()
		l := locktest.Lock(t, t.Context(), m)
		<-dropped
		dropped = drop()
		inner := locktest.Lock(t, l.Context(), m)
		<-dropped
		if l.Token() != want || inner.Token() != want {
			t.Errorf("tokens %d and %d, want %d", l.Token(), inner.Token(), want)
		}
		if n := locktest.HoldCount(t, inner.Context(), m); n != 2 {
			t.Errorf("%d holds, want 2", n)
		}
		locktest.Release(t, inner)
		dropped = drop()
		releaseUnheard(t, stalls, l)
		<-dropped
		locktest.WantToken(t, m, want)
		if s.Int(t, "EXISTS", "rig") != 0 {
			t.Error("locked after Release")
		}
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// One bad key among 21 costs no lease on the others, whatever is wrong with it.
func TestBadKeyCostsNoOther(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, s *redistest.Server)
		lost  bool // the bad one
	}{
		{"absurd TTL", func(t *testing.T, s *redistest.Server) { s.Do(t, "PEXPIRE", "victim", "9000000000000000000") }, false},
		{"no right", func(t *testing.T, s *redistest.Server) { s.Do(t, "ACL", "SETUSER", "worker", "resetkeys", "~ok:*") }, true},
		{"wrong type", func(t *testing.T, s *redistest.Server) {
			s.Do(t, "DEL", "victim")
			s.Do(t, "SET", "victim", "precious")
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
			c := open(t, "redis://worker:secret@"+s.Addr(), holdfast.Options{WatchdogTimeout: 8 * time.Second, RenewEvery: 300 * time.Millisecond})
			victim := lock(t, t.Context(), c.Mutex("victim"))
			var others []*holdfast.Lease
			for i := range 20 {
				others = append(others, lock(t, t.Context(), c.Mutex(fmt.Sprint("ok:", i))))
			}
			test.spoil(t, s)
			spoilt := time.Now()
			if test.lost {
				select {
				case <-victim.Context().Done():
				case <-time.After(30 * time.Second):
					t.Fatal("the lease on the bad key is not lost")
				}
			}
			for _, l := range append(others, victim) {
				if test.lost && l == victim {
					continue
				}
				eventually(t, 30*time.Second, "a renewal", func() bool {
					if err := context.Cause(l.Context()); err != nil {
						t.Fatalf("%s: %v", l.Name(), err)
					}
					return l.Deadline().After(spoilt.Add(8 * time.Second)) // sent after it was spoilt
				})
			}
		})
	}
}

// The holder of a fixed lease is told within RenewEvery when the server does not
// keep it any more.
func TestFixedLeaseTakenAway(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c, other := open(t, s.URL(), steady), open(t, s.URL())
	told := func(t *testing.T, l *holdfast.Lease, ctx context.Context) {
		t.Helper()
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Second):
			t.Fatal("not told")
		}
		var lost *holdfast.LostError
		if !errors.As(context.Cause(ctx), &lost) || lost.Reason != holdfast.LossNotOwner || l.Valid() {
			t.Errorf("cause %v, valid %v", context.Cause(ctx), l.Valid())
		}
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			l := lock(t, t.Context(), k.make(c, k.name), holdfast.LeaseTime(time.Hour))
			ctx := l.Context()
			time.Sleep(3 * steady.RenewEvery) // verified, and nothing comes of it
			if err := context.Cause(ctx); err != nil {
				t.Fatal(err)
			}
			if freed, err := k.make(other, k.name).ForceUnlock(t.Context()); !freed || err != nil {
				t.Fatal(freed, err)
			}
			told(t, l, ctx)
		})
	}
	t.Run("permits", func(t *testing.T) {
		sem := c.LeasedSemaphore("permits")
		if err := sem.Set(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		l, err := sem.Acquire(t.Context(), 2, holdfast.LeaseTime(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		ctx := l.Context()
		if err := other.LeasedSemaphore("permits").ReleaseIDs(t.Context(), l.Permits()[0]); err != nil {
			t.Fatal(err)
		}
		told(t, l, ctx)
	})
}

// Verifying a fixed lease does not let it last any longer.
func TestFixedLeaseNotProlonged(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := open(t, s.URL(), holdfast.Options{WatchdogTimeout: 3 * time.Second, RenewEvery: 50 * time.Millisecond})
	const lease = 4 * time.Second
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			l := lock(t, t.Context(), k.make(c, k.name), holdfast.LeaseTime(lease))
			granted := time.Now() // at the server, before that
			<-l.Context().Done()
			ttl := time.Duration(s.Int(t, "PTTL", k.name)) * time.Millisecond
			if end := time.Since(granted) + ttl; end > lease+2*time.Second {
				t.Errorf("it ends %v after it was granted", end)
			}
		})
	}
}

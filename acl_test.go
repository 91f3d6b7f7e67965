package holdfast_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that refuses a release has not done it: whoever is told so releases
// again. A new user of Redis 7 has no channels unless it is given some.
func TestRefusedReleaseAddsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels")
	c := open(t, "redis://mute:secret@"+s.Addr())
	t.Run("semaphore", func(t *testing.T) {
		s.Do(t, "SET", "sem", "1")
		err := c.Semaphore("sem").Release(t.Context(), 1)
		if free := s.Do(t, "GET", "sem"); errors.Is(err, holdfast.ErrRefused) && free != "1" {
			t.Errorf("%v; and %v permits are free", err, free)
		}
	})
	t.Run("set", func(t *testing.T) {
		_, err := c.Semaphore("new").TrySet(t.Context(), 5, 0)
		if free := s.Do(t, "GET", "new"); errors.Is(err, holdfast.ErrRefused) && free != nil {
			t.Errorf("%v; and %v permits are free", err, free)
		}
	})
	t.Run("latch", func(t *testing.T) {
		s.Do(t, "SET", "latch", "1")
		_, err := c.Latch("latch").CountDown(t.Context())
		if n := s.Do(t, "GET", "latch"); errors.Is(err, holdfast.ErrRefused) && n != "1" {
			t.Errorf("%v; and the count is %v", err, n)
		}
	})
	t.Run("leased", func(t *testing.T) {
		sem := open(t, s.URL()).LeasedSemaphore("leased")
		if err := sem.Set(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		l, err := sem.Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		err = c.LeasedSemaphore("leased").ReleaseIDs(t.Context(), l.Permits()...)
		if free := s.Do(t, "GET", "leased"); errors.Is(err, holdfast.ErrRefused) && free != "0" {
			t.Errorf("%v; and %v permits are free", err, free)
		}
	})
	t.Run("election", func(t *testing.T) {
		_, err := c.Election("e").TryCampaign(t.Context(), "me")
		if n := s.Int(t, "EXISTS", "e"); errors.Is(err, holdfast.ErrRefused) && n != 0 {
			t.Errorf("%v; and the lock exists", err)
		}
	})
}

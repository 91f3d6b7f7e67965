package conformance_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestFL01TokensCount(t *testing.T) {
	s := redistest.Shared(t)
	m := locktest.Open(t, s.URL()).FencedMutex(locktest.Name(t))
	locktest.WantToken(t, m, 0)
	for i, take := range []func() (*holdfast.Lease, error){
		func() (*holdfast.Lease, error) { return m.Lock(t.Context()) },
		func() (*holdfast.Lease, error) { return m.TryLock(t.Context()) },
		func() (*holdfast.Lease, error) { return m.TryLock(t.Context(), holdfast.Wait(10*time.Second)) },
		func() (*holdfast.Lease, error) { return m.Lock(t.Context(), holdfast.LeaseTime(time.Minute)) },
		func() (*holdfast.Lease, error) {
			return m.TryLock(t.Context(), holdfast.Wait(10*time.Second), holdfast.LeaseTime(time.Minute))
		},
	} {
		l, err := take()
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(i + 1); l.Token() != want {
			t.Errorf("token %d, want %d", l.Token(), want)
		}
		locktest.WantToken(t, m, int64(i+1))
		locktest.Release(t, l)
	}
	key := "redisson_lock_token:{" + m.Name() + "}"
	if got := s.Do(t, "GET", key); got != "5" {
		t.Errorf("the counter is %v, want 5", got)
	}
	if ttl := s.Int(t, "PTTL", key); ttl != -1 {
		t.Errorf("the counter lasts %d ms, want for ever", ttl)
	}
	// A refused try does not use up a token.
	l := locktest.Lock(t, t.Context(), m)
	locktest.WantRefused(t, m)
	locktest.Release(t, l)
	locktest.WantToken(t, m, 6)
}

// A plain and a fenced mutex by one name are one lock.
func TestFencedAndPlain(t *testing.T) {
	t.Parallel()
	url := redistest.Shared(t).URL()
	holder := locktest.Open(t, url)
	nearAndFar(t, holder, func(t *testing.T, c *holdfast.Client) {
		n := locktest.Name(t)
		for _, tt := range []struct{ holder, waiter locktest.MutexLike }{
			{holder.Mutex(n), c.FencedMutex(n)},
			{holder.FencedMutex(n), c.Mutex(n)},
		} {
			l := locktest.Lock(t, t.Context(), tt.holder)
			locktest.WantRefused(t, tt.waiter)
			waiter := locktest.Background(t.Context(), tt.waiter)
			locktest.WantWaiting(t, c, waiter)
			start := time.Now()
			locktest.Release(t, l)
			locktest.Release(t, locktest.Entered(t, waiter))
			if took := locktest.Took(start); took > locktest.Late {
				t.Errorf("entered after %v", took)
			}
		}
	})
	n := locktest.Name(t)
	var ms []locktest.MutexLike
	for _, c := range []*holdfast.Client{locktest.Open(t, url), locktest.Open(t, url)} {
		ms = append(ms, c.Mutex(n), c.FencedMutex(n), c.Mutex(n), c.FencedMutex(n))
	}
	contend(t, ms, 30)
	locktest.WantToken(t, holder.FencedMutex(n), 4*30)
}

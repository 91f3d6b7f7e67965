package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A Redisson that renews its read lock sets the time of the whole lock to its
// own, and an early one that of all readers. Whoever reads for a fixed time
// beside it gets back what is left of it, and no more; or is told.
func TestReadLeaseCutShort(t *testing.T) {
	t.Parallel()
	s := redistest.One(t)
	c := open(t, s.URL(), holdfast.Options{WatchdogTimeout: 6 * time.Second})
	n := name(t)
	const whole = 20 * time.Second
	// To the server, what is given back begins when it arrives there: that may
	// be so much later than it was sent.
	const delay = 3 * time.Second
	l := lock(t, t.Context(), c.RWMutex(n).RLocker(), holdfast.LeaseTime(whole))
	start := time.Now()
	own := s.Strings(t, "KEYS", "*"+n+"*:rwlock_timeout:*")
	if len(own) != 1 {
		t.Fatalf("the keys of its own are %q", own)
	}
	time.Sleep(delay - 500*time.Millisecond) // or the whole time could be taken for what is left
	for _, key := range []string{n, own[0]} {
		s.Do(t, "PEXPIRE", key, "6000")
		eventually(t, 5*time.Second, "what was cut short is mended", func() bool { return s.Int(t, "PTTL", key) > 7000 })
		most := (whole - time.Since(start) + delay).Milliseconds()
		if left := s.Int(t, "PTTL", key); left > most {
			t.Errorf("%s lasts for %d ms, want %d: the lease is of fixed time", key, left, most)
		}
	}
	s.Do(t, "DEL", n, own[0])
	select {
	case <-l.Context().Done():
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("released: %v, want ErrLost", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the lock is gone, and its reader has not been told")
	}
}

package redlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// While another holds just a majority, waiters ask about once in a poll
// interval. The votes that they get from the rest, and release, wake neither them
// nor each other. They are woken when the majority is released.
func TestWaitersAskSeldom(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	for _, s := range servers[:2] {
		s.Do(t, "HSET", "m", "0a4b7f6e-3a5e-4f6c-9c1d-1f2e3d4c5b6a:1", "1")
		s.Do(t, "PEXPIRE", "m", "600000")
	}
	const waiters = 3
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got []time.Time
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range waiters {
		m := over(t, urls(servers)).Mutex("m")
		wg.Go(func() {
			err := m.Do(ctx, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, time.Now())
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for _, s := range servers {
		locktest.Eventually(t, time.Minute, "all of them listen", func() bool {
			return s.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{m}").([]any)[1] == int64(waiters)
		})
	}
	const span = 4 * time.Second
	before := locktest.Calls(t, servers[2], "evalsha")
	var n int
	// Each has looked once more, asks once in 5 s, and gives the votes back.
	if redistest.Poll(span, func() bool { n = locktest.Calls(t, servers[2], "evalsha") - before; return n > 6*waiters }) {
		t.Errorf("%d scripts within %v for %d waiters", n, span, waiters)
	}
	t.Logf("%d scripts in %v for %d waiters", n, span, waiters)
	freed := time.Now()
	for _, s := range servers[:2] {
		s.Do(t, "DEL", "m")
		s.Do(t, "PUBLISH", "redisson_lock__channel:{m}", "0")
	}
	wg.Wait()
	if late := got[0].Sub(freed); late > 3*time.Second {
		t.Errorf("the first got in %v after the majority was free", late)
	}
	empty(t, servers)
}

// An error says what the holder has left when the wait ends, not when the servers
// were asked last.
func TestRemainingIsOfNow(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	for _, s := range servers {
		s.Do(t, "HSET", "m", "0a4b7f6e-3a5e-4f6c-9c1d-1f2e3d4c5b6a:1", "1")
		s.Do(t, "PEXPIRE", "m", "600000")
	}
	_, err := over(t, urls(servers)).Mutex("m").TryLock(t.Context(), holdfast.Wait(3*time.Second))
	left := holdfast.Remaining(err)
	ttl := time.Duration(servers[0].Int(t, "PTTL", "m")) * time.Millisecond
	if left > ttl+time.Second || left < ttl-time.Minute {
		t.Errorf("%v remain, the server says %v: %v", left, ttl, err)
	}
}

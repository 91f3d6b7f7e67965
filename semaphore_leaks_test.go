package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// marks returns how many requests the server remembers, and checks that it
// will forget them.
func marks(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	for _, key := range s.Keys(t) {
		if !strings.HasPrefix(key, "holdfast:once:") {
			continue
		}
		n++
		if ttl := s.Int(t, "PTTL", key); ttl <= 0 || ttl > 10*60*1000 {
			t.Errorf("%s: TTL %d", key, ttl)
		}
	}
	return n
}

// Nothing is left of thousands of rounds but marks that the server forgets by
// itself, and of these no more than requests were under way at a time.
func TestPermitsLeaveNothing(t *testing.T) {
	t.Run("undisturbed", func(t *testing.T) { permitsLeaveNothing(t, 10_000, false) })
	t.Run("cut off", func(t *testing.T) { permitsLeaveNothing(t, 3000, true) })
}

func permitsLeaveNothing(t *testing.T, rounds int, cut bool) {
	redistest.CheckGoroutines(t)
	const clients, goroutines, sems, permits = 3, 8, 4, 6
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	var cs []*holdfast.Client
	for range clients {
		cs = append(cs, open(t, p.URL(), quick))
	}
	for i := range sems {
		semaphore(t, cs[0], fmt.Sprint("sem:", i), permits)
	}
	next := make(chan int)
	var doubts atomic.Int64
	var wg sync.WaitGroup
	for g := range clients * goroutines {
		c := cs[g%clients]
		wg.Go(func() {
			for i := range next {
				if !cut && timedRound(t, c, i) {
					doubts.Add(1)
				}
				if permitRound(t, stalls, c.Semaphore(fmt.Sprint("sem:", i%sems)), 1+i%permits, cut) {
					doubts.Add(1)
				}
			}
		})
	}
	for i := range rounds {
		if cut && i%300 == 150 {
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for i := range sems {
		eventually(t, 10*time.Second, "all permits are free", func() bool { return s.Int(t, "GET", fmt.Sprint("sem:", i)) == permits })
	}
	for _, key := range s.Keys(t) {
		if !strings.HasPrefix(key, "holdfast:once:") && !strings.HasPrefix(key, "sem:") {
			t.Errorf("left: %s", key)
		}
	}
	// A latch takes marks like a semaphore, and there is one. Who got no answer
	// in time has left a mark of his own.
	n, most := marks(t, s), (sems+1)*(clients*goroutines+int(doubts.Load()))
	if n > most || doubts.Load() > 50 {
		t.Errorf("%d marks after %d rounds, want %d at most, with %d in doubt", n, rounds, most, doubts.Load())
	}
	t.Logf("%d marks, %d in doubt", n, doubts.Load())
	eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		_ = c.Close()
	}
}

// permitRound takes permits and gives them back. It reports whether that goes on
// in the background, as it does if the machine stands still after a cut.
func permitRound(t *testing.T, stalls *redistest.StallMeter, sem *holdfast.Semaphore, permits int, cut bool) (doubt bool) {
	if err := sem.Acquire(context.Background(), permits); err != nil {
		t.Error(err)
		return false
	}
	start := time.Now()
	err := sem.Release(context.Background(), permits)
	if cut && stoodStill(stalls, err, start) {
		return true
	}
	if err != nil {
		t.Error(err)
	}
	return false
}

// timedRound does now and then what does not wait for as long as it takes. It
// reports whether a busy machine has left it without an answer.
func timedRound(t *testing.T, c *holdfast.Client, i int) (doubt bool) {
	sem, latch := c.Semaphore(fmt.Sprint("sem:", i%4)), c.Latch("latch")
	var err error
	start := time.Now()
	switch i % 20 {
	case 3:
		if err = sem.Acquire(t.Context(), 6, holdfast.Wait(2*time.Millisecond)); err == nil {
			err = sem.Release(t.Context(), 6)
		}
	case 7:
		err = sem.TryAcquire(t.Context(), 7)
	case 11:
		if _, err = latch.TrySet(t.Context(), 1); err == nil {
			_, err = latch.CountDown(t.Context())
		}
	case 13:
		err = latch.Wait(t.Context(), holdfast.Wait(2*time.Millisecond))
	}
	switch {
	case errors.Is(err, holdfast.ErrUnavailable):
		return true
	case errors.Is(err, holdfast.ErrNotAcquired):
		return time.Since(start) > time.Second // the answer to the last request was not waited for any longer
	case err != nil:
		t.Error(err)
	}
	return false
}

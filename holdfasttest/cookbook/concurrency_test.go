package cookbook

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// convert runs fn in at most four places of the cluster at a time.
func convert(ctx context.Context, client *holdfast.Client, fn func(context.Context) error) error {
	slots := client.LeasedSemaphore("convert", holdfast.WithPermits(4))
	return slots.Do(ctx, 1, fn, holdfast.Wait(time.Minute))
}

// Twenty calls in three processes run four at a time. The permits of a process that has
// crashed come back.
func TestConcurrency(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		clients := []*holdfast.Client{s.newClient(), s.newClient(), s.newClient()}
		most := func() int32 {
			var now, most, calls atomic.Int32
			for _, err := range together(20, func(i int) error {
				return convert(t.Context(), clients[i%3], func(context.Context) error {
					n := now.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					time.Sleep(20 * time.Millisecond)
					now.Add(-1)
					calls.Add(1)
					return nil
				})
			}) {
				if err != nil {
					t.Error(err)
				}
			}
			if n := calls.Load(); n != 20 {
				t.Errorf("%d calls", n)
			}
			return most.Load()
		}
		if n := most(); n > 4 || s.memory && n < 4 { // a busy machine may start them one by one
			t.Errorf("%d at a time", n)
		}

		crashed := s.newClient()
		began := time.Now()
		if _, err := crashed.LeasedSemaphore("convert").Acquire(t.Context(), 4, holdfast.LeaseTime(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := clients[0].LeasedSemaphore("convert").TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Error(err)
		}
		if n := most(); n > 4 || s.memory && n < 4 {
			t.Errorf("%d at a time after a crash", n)
		}
		if waited := time.Since(began); waited < 900*time.Millisecond {
			t.Errorf("the permits were free after %v", waited)
		}
		crashed.Close()
	})
}

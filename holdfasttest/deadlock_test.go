package holdfasttest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// A deadlock is reported after about four seconds, however many processes it has.
func TestDeadlockTime(t *testing.T) {
	for _, n := range []int{2, 3, 6} {
		synctest.Test(t, func(t *testing.T) {
			s := holdfasttest.NewServer(t)
			start := time.Now()
			done := make(chan struct{}, n)
			for i := range n {
				c := s.NewClient(&holdfast.Options{Deadlocks: holdfast.EndDeadlocks})
				outer, err := c.Mutex(fmt.Sprint(i)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(time.Duration(i*150) * time.Millisecond)
					inner, err := c.Mutex(fmt.Sprint((i + 1) % n)).Lock(outer.Context())
					switch took := time.Since(start); {
					case err == nil:
						err = inner.Release(t.Context())
					case errors.Is(err, holdfast.ErrDeadlock) && took > 3*time.Second && took < 5*time.Second:
						err = nil
					default:
						err = fmt.Errorf("%d processes, after %v: %w", n, took, err)
					}
					if err := errors.Join(err, outer.Release(t.Context())); err != nil {
						t.Error(err)
					}
					done <- struct{}{}
				}()
			}
			for range n {
				<-done
			}
		})
	}
}

package matrix_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A server that has no room for another client says so before it is asked
// anything. That must not bring the program down.
func TestRow33NoRoomForMany(t *testing.T) {
	t.Parallel()
	alone(t, func(f fleet) {
		w, s := f[0], f.master()
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		for range 8 {
			c := w.open(func(o *holdfast.Options) { o.RetryTimeout = 100 * time.Millisecond })
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						call, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
						if l, err := c.Mutex("name").Lock(call); err == nil {
							_ = l.Release(call)
						}
						cancel()
					}
				})
			}
		}
		for range 5 {
			s.Do(w, "CONFIG", "SET", "maxclients", "1")
			s.Do(w, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			time.Sleep(500 * time.Millisecond)
			s.Do(w, "CONFIG", "SET", "maxclients", "1000")
			time.Sleep(200 * time.Millisecond)
		}
	})
}

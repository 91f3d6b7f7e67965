package faults_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Close returns also without a server, while locks are held and waited for.
func TestCloseWithoutServer(t *testing.T) {
	redistest.CheckGoroutines(t)
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		for name, leave := range map[string]func(*redistest.Server){
			"gone":   (*redistest.Server).Kill,
			"silent": (*redistest.Server).Pause,
		} {
			s := redistest.Start(t)
			c := locktest.Open(t, s.URL())
			locktest.Lock(t, t.Context(), k.Make(c, "held"))
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := k.Make(c, "held").Lock(context.Background()); err == nil {
						t.Errorf("%s: acquired", name)
					}
				})
			}
			leave(s)
			start := time.Now()
			_ = c.Close()
			wg.Wait()
			if took := locktest.Took(start); took > 4*time.Second+locktest.Late { // two for the calls under way, two to free what is held
				t.Errorf("%s: Close took %v", name, took)
			}
		}
	})
}

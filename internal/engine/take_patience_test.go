package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Patience with a server that is away is that of each call, not that of all
// before it in the queue as well.
func TestPatienceInQueue(t *testing.T) {
	for name, traits := range map[string]script.Traits{"orderly": {Queue: script.InOrder}, "sharing": {Queue: script.Together, ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(_ *fake.Driver, e, _ *Engine) {
				r := &room{traits: traits}
				var wg sync.WaitGroup
				var longest time.Duration
				var mu sync.Mutex
				var began time.Time
				for range 5 {
					wg.Go(func() {
						_, err := e.Take(context.Background(), party{r, 1}, Request{Wait: Forever})
						if !errors.Is(err, ErrUnavailable) {
							t.Error(err)
						}
						mu.Lock()
						longest = time.Since(began)
						mu.Unlock()
					})
					synctest.Wait()
				}
				r.mu.Lock()
				r.fail = driver.Unsent(errors.New("away"))
				r.mu.Unlock()
				mu.Lock()
				began = time.Now()
				mu.Unlock()
				wg.Wait()
				if longest > 2*options.Patience {
					t.Errorf("the last one heard after %v that the server is away", longest)
				}
			})
		})
	}
}

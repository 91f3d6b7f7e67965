package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Whoever takes a permit again as soon as it has given it back does not keep
// others from it.
func TestPermitsAreShared(t *testing.T) {
	t.Parallel()
	for _, k := range permitKinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			n := name(t)
			if err := k.setUp(t.Context(), open(t, s.URL()), n); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			rounds := make([]int, 3)
			for i := range rounds {
				c := open(t, s.URL(), holdfast.Options{PollInterval: 30 * time.Second})
				wg.Go(func() {
					for ctx.Err() == nil {
						giveBack, err := k.take(ctx, c, n)
						if err != nil {
							if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							return
						}
						time.Sleep(10 * time.Millisecond)
						if err := giveBack(ctx); err != nil {
							t.Error(err)
						}
						rounds[i]++
					}
				})
			}
			wg.Wait()
			t.Log(rounds)
			all := rounds[0] + rounds[1] + rounds[2]
			for i, n := range rounds {
				if n < all/10 {
					t.Errorf("client %d had %d of %d rounds", i, n, all)
				}
			}
		})
	}
}

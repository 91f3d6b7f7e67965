package faults_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// A server that forgets everything, again and again within a second, gives out
// nothing twice, and nothing below what it gave out before.
func TestTimeIDsForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	var last int64
	draw := func(n int) {
		t.Helper()
		ids := locktest.Must[[]int64](t)(object.NewTimeID(c, "t").NextN(t.Context(), n)) // a new one each time: it knows nothing
		if ids[0] <= last {
			t.Fatalf("%d after %d", ids[0], last)
		}
		last = ids[n-1]
	}
	lost := 0
	for end := time.Now().Add(3500 * time.Millisecond); lost < 100 || time.Now().Before(end); lost++ {
		for range lost % 4 {
			draw(1)
		}
		draw(1000)
		s.Do(t, "FLUSHALL")
	}
	for range 3 {
		draw(1000)
		s.Restart()
		draw(1)
		s.Restart()
		lost += 2
	}
	t.Logf("lost %d times", lost)
}

// The same with many goroutines that draw at full speed.
func TestTimeIDsForgottenByMany(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows := make([][][2]int64, 16)
	var wg sync.WaitGroup
	for i := range rows {
		c := locktest.Open(t, s.URL())
		wg.Go(func() {
			for ctx.Err() == nil {
				ids, err := object.NewTimeID(c, "t").NextN(context.Background(), 1000)
				if err != nil {
					t.Error(err)
					return
				}
				rows[i] = append(rows[i], [2]int64{ids[0], int64(len(ids))})
			}
		})
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		s.Do(t, "FLUSHALL")
	}
	cancel()
	wg.Wait()
	all := slices.Concat(rows...)
	slices.SortFunc(all, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	for i := 1; i < len(all); i++ {
		if all[i][0] < all[i-1][0]+all[i-1][1] {
			t.Fatalf("%v and %v overlap", all[i-1], all[i])
		}
	}
	t.Logf("%d rows of 1000 ids", len(all))
}

package topology_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The locks of a set are in several slots of several masters, of several kinds, and some in
// the same slot. All are released, at each master with one pipeline.
func TestMultiInCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, redistest.WithReplicas(0))
	c := locktest.Open(t, s.URL())
	var locks []holdfast.Locker
	for i := range 6 {
		locks = append(locks, c.Mutex(fmt.Sprint("m", i)), c.Mutex(fmt.Sprint("{tag}", i)), c.FencedMutex(fmt.Sprint("x", i)))
	}
	locks = append(locks, c.FairMutex("{tag}fair"), c.RWMutex("{tag}rw"), c.RWMutex("r").RLocker())
	for range 20 {
		locktest.Release(t, locktest.Lock(t, t.Context(), holdfast.MultiLocker(locks...)))
	}
	for i, l := range locks {
		lease, err := l.TryLock(t.Context())
		if err != nil {
			t.Errorf("lock %d: %v", i, err)
			continue
		}
		locktest.Release(t, lease)
	}
}

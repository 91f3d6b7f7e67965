package holdfast_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A lock that is entered again with a later end lasts until then, for the outer
// lease as well.
func TestInnerLeaseTimeKeepsTheOuter(t *testing.T) {
	t.Parallel()
	c := open(t, redistest.Shared(t).URL())
	for what, m := range map[string]holdfast.Locker{"mutex": c.Mutex(name(t) + "m"), "read lock": c.RWMutex(name(t) + "r").RLocker()} {
		const short = 3 * time.Second
		outer := lock(t, t.Context(), m, holdfast.LeaseTime(short))
		first := outer.Deadline()
		release(t, lock(t, outer.Context(), m, holdfast.LeaseTime(time.Minute)))
		if end := outer.Deadline(); end.Sub(first) < 30*time.Second {
			t.Errorf("%s: the outer lease ends %v later", what, end.Sub(first))
		}
		release(t, outer)
	}
}

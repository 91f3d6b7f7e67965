package holdfast_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Nothing of a retired object is left at the server but the mark of the request,
// which expires.
func TestRetire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL())
	objects := map[string]*holdfast.Object{
		"fenced": c.FencedMutex("fenced").Object(), "fair": c.FairMutex("fair").Object(),
		"election": c.Election("election").Object(), "latch": c.Latch("latch").Object(),
	}
	for range 2 {
		lock(t, t.Context(), c.FencedMutex("fenced"), holdfast.LeaseTime(time.Hour))
		lock(t, t.Context(), c.FairMutex("fair"), holdfast.LeaseTime(time.Hour))
		s.Do(t, "RPUSH", "redisson_lock_queue:{fair}", "dead:1")
		s.Do(t, "SET", "redisson_lock_token:{election}", "41")
		s.Do(t, "SET", "latch", "3")
		for name, o := range objects {
			if retired, err := o.Retire(t.Context()); !retired || err != nil {
				t.Errorf("%s: %v, %v", name, retired, err)
			}
			if retired, err := o.Retire(t.Context()); retired || err != nil {
				t.Errorf("%s once more: %v, %v", name, retired, err)
			}
		}
		for _, key := range s.Keys(t) {
			if !strings.HasPrefix(key, "holdfast:once:") {
				t.Errorf("%s is left", key)
			}
		}
	}
}

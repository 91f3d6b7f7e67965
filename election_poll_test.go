package holdfast_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The options of an election apply to all of its calls: one that polls never
// subscribes, be it to observe.
func TestPollingElectionDoesNotListen(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	e := open(t, s.URL()).Election(name(t), holdfast.Poll(holdfast.Backoff{Max: 10 * time.Millisecond}))
	v := observe(t.Context(), e)
	if got := v.next(t); got != nobody {
		t.Fatalf("saw %+v", got)
	}
	time.Sleep(500 * time.Millisecond)
	if channels := s.Channels(t); len(channels) > 0 {
		t.Errorf("whoever polls listens on %q", channels)
	}
}

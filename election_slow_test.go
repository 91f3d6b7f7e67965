package holdfast_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An observer whose look at the server took longer than a lease tells all the
// same what it has seen.
func TestSlowObserverSeesTheLeader(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	n := name(t)
	seen := observe(t.Context(), open(t, p.URL(), holdfast.Options{WatchdogTimeout: 300 * time.Millisecond, PollInterval: time.Second}).Election(n))
	if got := seen.next(t); got != nobody {
		t.Fatalf("saw %+v", got)
	}
	listened(t, s, "holdfast:leader:{"+n+"}")
	time.Sleep(time.Second) // it waits
	arrived, letGo := p.HoldReply(redistest.Command("EVALSHA"))
	l := campaign(t, t.Context(), open(t, s.URL()).Election(n), "a")
	<-arrived
	time.Sleep(600 * time.Millisecond)
	letGo()
	if got := seen.next(t); got != leaderOf(l, "a") {
		t.Errorf("saw %+v", got)
	}
}

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/fake"
)

// No user joins a hold after its last user has begun to release it.
func TestJoinAtTheEnd(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		h, u := taken(t, a, forever)
		first := new(user)
		if !h.join(h.Lease, first) {
			t.Fatal("cannot join")
		}
		if left, err := h.leave(u, true, false); !left || err != nil {
			t.Errorf("the first user: %v, %v", left, err)
		}
		if left, err := h.leave(first, true, true); left || err != nil {
			t.Errorf("the last user: %v, %v", left, err)
		}
		if h.join(h.Lease, new(user)) {
			t.Error("a user has joined a hold that is being released")
		}
	})
}

// Shares are kept for the next call, but not without limit.
func TestSharesForgotten(t *testing.T) {
	in(t, func(_ *fake.Driver, e, _ *Engine) {
		asked := e.shareOf("asked")
		asked.use(time.Second, new(user))
		for i := range 10 * minGates {
			e.shareOf(fmt.Sprint(i))
		}
		if n := len(e.gates.byKey); n > minGates+1 {
			t.Errorf("%d shares are kept", n)
		}
		if e.shareOf("asked") != asked {
			t.Error("a share was forgotten while a call asks for a hold")
		}
	})
}

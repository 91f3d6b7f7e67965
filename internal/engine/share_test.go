package engine

import (
	"testing"

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
		if left, err := h.leave(u, true); !left || err != nil {
			t.Errorf("the first user: %v, %v", left, err)
		}
		if left, err := h.removeUser(first, true); left || err != nil {
			t.Errorf("the last user: %v, %v", left, err)
		}
		if h.join(h.Lease, new(user)) {
			t.Error("a user has joined a hold that is being released")
		}
	})
}

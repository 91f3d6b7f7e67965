package watchdog

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// On returns exactly the leases on a key, in whatever order they are added and
// removed.
func TestOn(t *testing.T) {
	in(t, func(r *rig) {
		share := func(n int) *Watched {
			c, _ := r.guard("shared", n%2 == 0)
			return c
		}
		same := func(want ...*Watched) {
			t.Helper()
			got := r.w.On("shared")
			if len(got) != len(want) {
				t.Fatalf("%d leases on the key, want %d", len(got), len(want))
			}
			for _, c := range want {
				if !slices.Contains(got, c) {
					t.Fatalf("a lease is missing")
				}
			}
		}
		for i := range 10 {
			r.guard(fmt.Sprint("other", i), true)
		}
		same()
		a, b, c, d := share(0), share(1), share(2), share(3)
		same(a, b, c, d)
		r.w.Drop(b)
		same(a, c, d)
		r.w.Drop(d)
		same(a, c)
		r.w.Drop(a)
		same(c)
		e := share(5)
		same(c, e)
		r.w.Drop(c)
		time.Sleep(lease) // e ends
		same()
		if n := len(r.w.byKey); n != 10 {
			t.Errorf("%d keys are known, want 10", n)
		}
	})
}

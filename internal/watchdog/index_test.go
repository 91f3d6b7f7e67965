package watchdog

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// On returns the leases on a key, and only those, however they come and go.
func TestOn(t *testing.T) {
	in(t, func(k *rig) {
		share := func(n int) *Watched {
			c, _ := k.guard("shared", n%2 == 0)
			return c
		}
		same := func(want ...*Watched) {
			t.Helper()
			got := k.w.On("shared")
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
			k.guard(fmt.Sprint("other", i), true)
		}
		same()
		a, b, c, d := share(0), share(1), share(2), share(3)
		same(a, b, c, d)
		k.w.Drop(b)
		same(a, c, d)
		k.w.Drop(d)
		same(a, c)
		k.w.Drop(a)
		same(c)
		e := share(5)
		same(c, e)
		k.w.Drop(c)
		time.Sleep(lease) // e ends
		same()
		if n := len(k.w.on); n != 10 {
			t.Errorf("%d keys are known, want 10", n)
		}
	})
}

package script

import "testing"

// To delete an object needs keys of one slot only, or no cluster would run it.
func TestDeleteStaysInOneSlot(t *testing.T) {
	for _, name := range []string{"doc", "x{t}", "{t}:x"} {
		for i, shape := range []Shape{One, LatchShape, LeasedShape, GeneratorShape, RateLimiterShape("c-1")} {
			for _, key := range NewObject(shape, name).Delete("a:0:1", false).Keys {
				if slot(key) != slot(name) {
					t.Errorf("shape %d: %q and %q are in different slots", i, name, key)
				}
			}
		}
	}
}

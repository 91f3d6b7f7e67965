package script

import "testing"

// To delete an object needs keys of one slot only, or no cluster would run it.
func TestDeleteStaysInOneSlot(t *testing.T) {
	for _, name := range []string{"doc", "x{t}", "{t}:x"} {
		for _, kind := range Kinds {
			for _, key := range NewObject(kind.Name, name, "c-1").Delete("a:0:1", false).Keys {
				if slot(key) != slot(name) {
					t.Errorf("%s: %q and %q are in different slots", kind.Name, name, key)
				}
			}
		}
	}
}

package holdfast

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
)

// Readers that share a hold publish their waits together. The publication ends with the last
// of them.
func TestWaitsOfOneOwner(t *testing.T) {
	var cs calls
	for i, id := range []string{"a", "b", "a"} {
		var others string
		for _, w := range cs.note("owner", script.Wait{ID: id}) {
			others += w.ID
		}
		if want := []string{"", "a", "b"}[i]; others != want {
			t.Errorf("%s publishes the waits of %q, too, want %q", id, others, want)
		}
	}
	if others := cs.note("another", script.Wait{ID: "c"}); len(others) > 0 {
		t.Errorf("the waits of another owner: %v", others)
	}
	if cs.forget("owner", "a") {
		t.Error("the publication ends while another call waits")
	}
	if !cs.forget("owner", "b") {
		t.Error("the publication does not end with the last call")
	}
}

// A cycle is found through any of the waits of readers that share a hold.
func TestCycleThroughSharedHold(t *testing.T) {
	waits := func(latest string) *detector {
		d := &detector{wait: script.Wait{ID: "writer", Holds: []script.HeldLock{{Owner: "w"}}, By: []string{"r"}}}
		d.waits = map[string]script.Wait{
			"a": {ID: "a", Holds: []script.HeldLock{{Owner: "r"}}, By: []string{"w"}},
			"b": {ID: "b", Holds: []script.HeldLock{{Owner: "r"}}, By: []string{"x"}},
		}
		w := d.waits[latest]
		w.Since = 1
		d.waits[latest] = w
		return d
	}
	for _, latest := range []string{"a", "b"} {
		if cycle := waits(latest).find(); len(cycle) != 2 || cycle[1].wait != "a" {
			t.Errorf("%s waits latest: found %v", latest, cycle)
		}
	}
}

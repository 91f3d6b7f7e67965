package deadlock

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
)

// Readers that share a hold publish their waits together. The publication ends with the last
// of them.
func TestWaitsOfOneOwner(t *testing.T) {
	var c Client
	for i, id := range []string{"a", "b", "a"} {
		var others string
		for _, w := range c.note("owner", script.Wait{ID: id}) {
			others += w.ID
		}
		if want := []string{"", "a", "b"}[i]; others != want {
			t.Errorf("%s publishes the waits of %q, too, want %q", id, others, want)
		}
	}
	if others := c.note("another", script.Wait{ID: "c"}); len(others) > 0 {
		t.Errorf("the waits of another owner: %v", others)
	}
	if c.forget("owner", "a") {
		t.Error("the publication ends while another call waits")
	}
	if !c.forget("owner", "b") {
		t.Error("the publication does not end with the last call")
	}
}

// A cycle is found through any of the waits of readers that share a hold.
func TestCycleThroughSharedHold(t *testing.T) {
	waits := func(latest string) *Detector {
		d := &Detector{wait: script.Wait{ID: "writer", Holds: []script.HeldLock{{Owner: "w"}}, By: []string{"r"}}}
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

package rueidis_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Two nodes send callers to each other: that ends soon, with an error that says
// that the call did not run, and goes away when they agree again.
func TestNodesDisagree(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	d := connect(t, c.URL())
	const key = "k"
	slot := strconv.Itoa(redistest.SlotOf(key))
	a := c.MasterOf(key)
	b := slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == a })[0]
	id := b.Do(t, "CLUSTER", "MYID").(string)
	a.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id) // a says b has it, b says a has it
	begin := time.Now()
	_, err := d.Do(t.Context(), addOne(key))
	if took := time.Since(begin); took > soon {
		t.Errorf("sent to and fro for %v", took)
	}
	if driver.ClassOf(err) != driver.Definite || driver.CodeOf(err) != "MOVED" {
		t.Errorf("the nodes disagree: %v is %v", err, driver.ClassOf(err))
	}
	b.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	eventually(t, patience, "they agree, and the call runs", func() bool {
		r, err := d.Do(t.Context(), addOne(key))
		return err == nil && r.Int == 1
	})
}

package rueidis_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/locktest"
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
	locktest.Eventually(t, patience, "they agree, and the call runs", func() bool {
		r, err := d.Do(t.Context(), addOne(key))
		return err == nil && r.Int == 1
	})
}

// A node of a cluster serves its own keys to those who take it for a lone
// server, and says of the others where it went wrong.
func TestNodeOfCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	d := connect(t, "redis://"+c.MasterOf("a").Addr())
	if _, err := d.Do(t.Context(), addOne("a")); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"b", "c", "d", "e", "f"} {
		if c.MasterOf(key) == c.MasterOf("a") {
			continue
		}
		_, err := d.Do(t.Context(), addOne(key))
		if driver.ClassOf(err) != driver.Fatal || !strings.Contains(err.Error(), "use redis-cluster://") {
			t.Errorf("a key of another node: %v (%v)", err, driver.ClassOf(err))
		}
		return
	}
}

// In a cluster a refused channel costs no other channel its messages either,
// in both families of channels.
func TestForbiddenInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	drivertest.Limit(t, c.Nodes()...)
	d := connect(t, "redis-cluster://limited:secret@"+strings.Join(addrs(c.Nodes()), ","))
	drivertest.Forbidden(t, d, c.MasterOf("x"), redistest.PublishCommands()...)
}

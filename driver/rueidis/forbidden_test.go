package rueidis_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// In a cluster a refused channel costs no other channel its messages either,
// in both families of channels.
func TestForbiddenInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	drivertest.Limit(t, c.Nodes()...)
	d := connect(t, "redis-cluster://limited:secret@"+strings.Join(addrs(c.Nodes()), ","))
	drivertest.Forbidden(t, d, c.MasterOf("x"), "PUBLISH", "SPUBLISH")
}

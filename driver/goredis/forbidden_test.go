package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// In a cluster a refused channel costs no other channel its messages either,
// in both families of channels.
func TestForbiddenInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	drivertest.Limit(t, c.Nodes()...)
	o := redis.ClusterOptions{Username: "limited", Password: "secret", ReadTimeout: silence, MaintNotificationsConfig: unannounced()}
	for _, s := range c.Nodes() {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	drivertest.Forbidden(t, connect(t, redis.NewClusterClient(&o)), c.MasterOf("x"), "PUBLISH", "SPUBLISH")
}

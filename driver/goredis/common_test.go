package goredis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// soon is how long a driver may take, on a busy machine, to notice what has
// happened.
const soon = 15 * time.Second

// silence is how long a client waits for a server that does not answer.
const silence = 5 * time.Second

// calm keeps the nodes of a cluster from taking one for dead that the machine
// has kept from answering, where no test wants a failover.
var calm = redistest.Args("--cluster-node-timeout", "60000")

// connect returns a driver on a client, and closes both.
func connect(t *testing.T, client redis.UniversalClient) *goredis.Driver {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	d, err := goredis.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// unannounced turns off what servers before Redis 8 do not have. The client
// would find out by itself, but not without a race with its Conn.
func unannounced() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func single(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: silence, MaintNotificationsConfig: unannounced()})
}

func cluster(c *redistest.Cluster) *redis.ClusterClient {
	var addrs []string
	for _, s := range c.Nodes() {
		addrs = append(addrs, s.Addr())
	}
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: silence, MaintNotificationsConfig: unannounced()})
}

var incr = driver.NewScript("incr", `return redis.call('incr', KEYS[1])`)

func addOne(key string) driver.Call { return driver.Call{Script: incr, Keys: []string{key}} }

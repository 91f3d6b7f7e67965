package rueidis_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// soon is how long a driver may take, on a busy machine, to notice what has
// happened.
const soon = 5 * time.Second

// patience is how long a test waits for what has no bound of its own.
const patience = 15 * time.Second

// calm keeps the nodes of a cluster from taking one for dead that the machine
// has kept from answering, where no test wants a failover.
var calm = redistest.Args("--cluster-node-timeout", "60000")

func addrs(servers []*redistest.Server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return list
}

// with returns a URL with a parameter set.
func with(t *testing.T, raw, name, value string) string {
	t.Helper()
	base, query, _ := strings.Cut(raw, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	q.Set(name, value)
	return base + "?" + q.Encode()
}

// bear lets a driver bear a machine that stands still for longer than its
// defaults do.
func bear(c *rueidis.Config) {
	c.Timeout, c.DialTimeout = max(c.Timeout, soon), max(c.DialTimeout, soon)
}

// connect opens a URL for the time of a test.
func connect(t *testing.T, url string) *rueidis.Driver {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	bear(&c)
	d, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

var (
	add   = driver.NewScript("add", `return redis.call('incrby', KEYS[1], ARGV[1])`)
	total = driver.NewScript("total", `return redis.call('get', KEYS[1]) + redis.call('get', KEYS[2])`)
)

func addOne(key string) driver.Call {
	return driver.Call{Script: add, Keys: []string{key}, Args: []string{"1"}}
}

func at(t *testing.T, servers []*redistest.Server, addr string) *redistest.Server {
	t.Helper()
	for _, s := range servers {
		if s.Addr() == addr {
			return s
		}
	}
	t.Fatalf("no server at %q", addr)
	return nil
}

package rueidis_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A URL that leads to the wrong kind of server says which would be right.
func TestWrongServers(t *testing.T) {
	t.Parallel()
	one, another := redistest.Start(t), redistest.Start(t)
	closed := redistest.Start(t, "--requirepass", "secret")
	sentinels := redistest.StartSentinels(t)
	for url, want := range map[string]string{
		"redis://" + one.Addr() + "," + another.Addr():                     "both report that they are the master",
		"redis://" + sentinels.Addrs()[0]:                                  "is a sentinel: use redis-sentinel://",
		"redis-sentinel://" + one.Addr() + "?master_name=m":                "the server is not a sentinel",
		"redis-sentinel://" + sentinels.Addrs()[0] + "?master_name=nobody": "No such master",
		"redis-cluster://" + one.Addr():                                    "is not part of a cluster: use redis://",
		"redis://" + closed.Addr():                                         "requires a password",
		"redis://:wrong-secret@" + closed.Addr():                           "WRONGPASS",
	} {
		err := try(t, url)
		if driver.ClassOf(err) != driver.Fatal || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%s: %v (%v), want %q", url, err, driver.ClassOf(err), want)
		}
	}
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

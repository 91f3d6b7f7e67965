package deploy_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// needIPv6 skips a test on a machine without ::1, and returns the argument with
// which a server listens there, too.
func needIPv6(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback address: %v", err)
	}
	_ = l.Close()
	return []string{"--bind", "127.0.0.1", "::1"}
}

// at returns the address of a server on ::1.
func at(s *redistest.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr())
	return net.JoinHostPort("::1", port)
}

// use takes and passes on a lock, by a message.
func use(t *testing.T, a, b *holdfast.Client) {
	t.Helper()
	held := locktest.Lock(t, t.Context(), a.Mutex("m"))
	w := wait(t.Context(), b.Mutex("m"))
	renewed(t, held)
	locktest.Release(t, held)
	locktest.Release(t, w.granted(t))
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	bind := needIPv6(t)
	s := redistest.Start(t, bind...)
	url := "redis://" + at(s)
	use(t, open(t, config(t, url)), open(t, config(t, url)))

	file := filepath.Join(t.TempDir(), "redisson.yaml")
	for section, text := range map[string]string{
		"single":     "singleServerConfig: {address: 'redis://%s'}",
		"replicated": "replicatedServersConfig: {nodeAddresses: ['redis://%s']}",
	} {
		t.Run(section, func(t *testing.T) {
			if err := os.WriteFile(file, fmt.Appendf(nil, text, at(s)), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := holdfast.OpenConfig(t.Context(), file, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("file")))
			fs, err := c.Check(t.Context(), "m")
			if err != nil || len(fs) == 0 || fs[0].Node != at(s) {
				t.Errorf("Check found %v, %v", fs, err)
			}
		})
	}
}

// An address without a port has the default port.
func TestIPv6DefaultPort(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://[::1]":                          "[::1]:6379",
		"redis://[::1]/2":                        "[::1]:6379",
		"redis://user:pw@[fd00::1]:7000/2":       "[fd00::1]:7000",
		"redis-sentinel://[::1]?master_name=m":   "[::1]:26379",
		"redis-cluster://[::1],[fd00::2]:7000":   "[::1]:6379 [fd00::2]:7000",
		"redis://[fe80::1%25eth0]:6379":          "[fe80::1%eth0]:6379",
		"redis://[::1]:7000,[::1]:7001,host:702": "[::1]:7000 [::1]:7001 host:702",
	} {
		c := config(t, url)
		if got := strings.TrimSpace(c.Addr + " " + strings.Join(c.Addrs, " ")); got != want {
			t.Errorf("%s leads to %s, want %s", url, got, want)
		}
	}
}

// The nodes of a cluster announce ::1. They redirect clients to it.
func TestIPv6Cluster(t *testing.T) {
	t.Parallel()
	bind := needIPv6(t)
	s := redistest.Start(t, append(bind, "--cluster-enabled", "yes", "--cluster-announce-ip", "::1")...)
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	locktest.Eventually(t, patience, "a cluster", func() bool {
		return strings.Contains(s.Do(t, "CLUSTER", "INFO").(string), "cluster_state:ok")
	})
	url := "redis-cluster://" + s.Addr() // by IPv4, so that only the announcement leads to ::1
	a, b := open(t, config(t, url)), open(t, config(t, url))
	use(t, a, b)
	if node := a.Driver().Place("m").Node; node != at(s) {
		t.Errorf("the node is %s, want %s", node, at(s))
	}
}

// A sentinel announces a master at ::1.
func TestIPv6Sentinel(t *testing.T) {
	t.Parallel()
	bind := needIPv6(t)
	s := redistest.StartSentinels(t, redistest.WithReplicas(0))
	master := redistest.Start(t, bind...)
	_, port, _ := net.SplitHostPort(master.Addr())
	for _, w := range s.Sentinels() {
		w.Do(t, "SENTINEL", "MONITOR", "six", "::1", port, "2")
	}
	url := "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "?master_name=six"
	a, b := open(t, config(t, url)), open(t, config(t, url))
	use(t, a, b)
	if node := a.Driver().Place("m").Node; node != at(master) {
		t.Errorf("the master is %s, want %s", node, at(master))
	}
}

func TestIPv6Redlock(t *testing.T) {
	t.Parallel()
	bind := needIPv6(t)
	var clients []*holdfast.Client
	for range 3 {
		clients = append(clients, open(t, config(t, "redis://"+at(redistest.Start(t, bind...)))))
	}
	locks, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{NodeTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, locktest.Lock(t, t.Context(), locks.Mutex("m")))
}

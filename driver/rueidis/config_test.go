package rueidis

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func TestConfigDefaults(t *testing.T) {
	for _, c := range []Config{
		{Addr: "h:1"},
		{Network: "unix", Addr: "/s", DB: 3},
		{Mode: Replicated, Addrs: []string{"h:1"}, DB: 3},
		{Mode: Sentinel, Addrs: []string{"h:1"}, MasterName: "m", SentinelPassword: "x", SentinelTLS: &tls.Config{}},
		{Mode: Cluster, Addrs: []string{"h:1"}, Sharded: ShardedOff},
	} {
		if err := c.check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if c.DialTimeout != 2*time.Second || c.Timeout != 2*time.Second || c.ScanInterval != time.Second || c.Network == "" {
			t.Errorf("defaults: %+v", c)
		}
	}
}

func TestConfigContradictions(t *testing.T) {
	one := []string{"h:1"}
	none := func(context.Context, Peer) (string, Secret, error) { return "", "", nil }
	for _, test := range []struct {
		c    Config
		want string
	}{
		{Config{}, "no server address"},
		{Config{Addr: "h:1", Addrs: one}, "give one Addr and no Addrs"},
		{Config{Addr: "h:1", Mode: -1}, "unknown Mode"},
		{Config{Addr: "h:1", Network: "udp"}, "unknown Network"},
		{Config{Addr: "h:1", DB: -1}, "negative"},
		{Config{Addr: "h:1", Timeout: -1}, "positive"},
		{Config{Addr: "h:1", DialTimeout: -1}, "positive"},
		{Config{Addr: "h:1", ScanInterval: -1}, "positive"},
		{Config{Addr: "h:1", MasterName: "m"}, "choose mode Sentinel"},
		{Config{Addr: "h:1", SentinelUsername: "m"}, "choose mode Sentinel"},
		{Config{Addr: "h:1", SentinelPassword: "m"}, "choose mode Sentinel"},
		{Config{Addr: "h:1", SentinelTLS: &tls.Config{}}, "choose mode Sentinel"},
		{Config{Addr: "h:1", Sharded: ShardedOn}, "leave Sharded out"},
		{Config{Mode: Replicated}, "at least one"},
		{Config{Mode: Replicated, Addr: "h:1"}, "takes Addrs"},
		{Config{Mode: Replicated, Addr: "h:1", Addrs: one}, "takes Addrs"},
		{Config{Mode: Replicated, Addrs: one, Network: "unix"}, "single server only"},
		{Config{Mode: Replicated, Addrs: []string{"h:1", ""}}, "address 2 is empty"},
		{Config{Mode: Replicated, Addrs: []string{"h:1", "h:2", "h:1"}}, "addresses 1 and 3"},
		{Config{Mode: Sentinel, Addrs: one}, "no master name given"},
		{Config{Addr: "h:1", Password: "x", Credentials: none}, "credentials are given twice"},
		{Config{Mode: Sentinel, Addrs: one, MasterName: "m", SentinelPassword: "x", Credentials: none}, "credentials are given twice"},
		{Config{Mode: Cluster, Addrs: one, DB: 1}, "database 0 only"},
		{Config{Mode: Cluster, Addrs: one, Sharded: 7}, "unknown Sharded"},
		{Config{Mode: Cluster, Addrs: one, MasterName: "m"}, "choose mode Sentinel"},
	} {
		if err := test.c.check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.c, err, test.want)
		}
	}
}

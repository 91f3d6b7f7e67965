package driver

import "testing"

func TestMode(t *testing.T) {
	t.Parallel()
	for _, info := range []string{"redis_mode:sentinel\r\n", "server_mode:sentinel\r\n"} { // of Redis, of Valkey
		if got := NewFacts(info).Mode(); got != "sentinel" {
			t.Errorf("%q is %q", info, got)
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"redis_version:7.0.15\r\n": "7.0.15",
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n": "Valkey 8.0.1",
		"redict_version:7.3.6\r\nredis_version:7.2.4\r\n":                       "Redict 7.3.6",
		"dragonfly_version:df-v1.40.0\r\nredis_version:7.4.0\r\n":               "Dragonfly df-v1.40.0",
		"# Server\r\n": "",
	} {
		if got := NewFacts(info).Release(); got != want {
			t.Errorf("%q is %q", info, got)
		}
	}
}

func TestReplicaOf(t *testing.T) {
	t.Parallel()
	const replica = "role:slave\r\nmaster_port:6379\r\n"
	for info, want := range map[string]string{
		"role:master\r\n": "",
		replica + "master_host:10.0.0.1\r\nslave_read_only:1\r\n":    "10.0.0.1:6379",
		replica + "master_host:::1\r\n":                              "[::1]:6379",
		replica + "master_host:10.0.0.1\r\nslave_read_only:0\r\n":    "", // it accepts writes
		replica + "slave_read_only:1\r\n":                            "another server",
		replica + "master_host:\x1b[31mred\r\nslave_read_only:1\r\n": `\x1b[31mred:6379`,
	} {
		if got := NewFacts(info).ReplicaOf(); got != want {
			t.Errorf("%q is a replica of %q, want %q", info, got, want)
		}
	}
}

// Numbers that a server makes up cost no work and do not overflow.
func TestForgedFacts(t *testing.T) {
	t.Parallel()
	const online, late = "ip=10.0.0.1,port=6379,state=online,offset=1,lag=0", "ip=10.0.0.1,port=6379,state=wait_bgsave,offset=1,lag=0"
	for info, want := range map[string]Facts{
		"connected_slaves:9223372036854775807\r\nuptime_in_seconds:9223372036854775807\r\n":      {Replicas: maxReplicas, Uptime: maxUptime},
		"connected_slaves:-9223372036854775808\r\nuptime_in_seconds:-5\r\n":                      {},
		"connected_slaves:99999999999999999999\r\nuptime_in_seconds:x\r\n":                       {Replicas: maxReplicas},
		"connected_slaves:3\r\nslave0:" + online + "\r\nslave1:" + late + "\r\nslave2:" + online: {Replicas: 2},
		"connected_slaves:2\r\n":                        {Replicas: 2}, // a server that lists none
		"connected_slaves:1\r\nslave0:" + late + "\r\n": {},
	} {
		got := NewFacts(info)
		if got.Replicas != want.Replicas || got.Uptime != want.Uptime {
			t.Errorf("%q: %d replicas, up for %v; want %d and %v", info, got.Replicas, got.Uptime, want.Replicas, want.Uptime)
		}
	}
}

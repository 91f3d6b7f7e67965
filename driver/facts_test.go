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
		"# Server\r\n": "",
	} {
		if got := NewFacts(info).Release(); got != want {
			t.Errorf("%q is %q", info, got)
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

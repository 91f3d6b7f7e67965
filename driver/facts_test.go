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

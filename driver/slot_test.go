package driver_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The values are those that a server's CLUSTER KEYSLOT gives.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a:{foo}:{bar}": 12182,
		"{}foo": 9500, "foo{": 7673, "{user1000}.following": 3443,
	} {
		if got := driver.Slot(key); got != want {
			t.Errorf("slot of %q: %d, want %d", key, got, want)
		}
	}
}

func TestHome(t *testing.T) {
	for channel, want := range map[string]string{
		"redisson_lock__channel:{a}": "redisson_lock__channel:{a}",
		"__keyspace@0__:a":           "a",
		"__keyspace@12__:a__:b":      "a__:b",
		"__keyevent@0__:del":         "__keyevent@0__:del",
	} {
		if got := driver.Home(channel); got != want {
			t.Errorf("home of %q: %q, want %q", channel, got, want)
		}
	}
}

// What a server repeats of a command that it does not know may be a password.
func TestServerErrorShowsNoArguments(t *testing.T) {
	err := driver.ServerError("ERR unknown command 'AUTH', with args beginning with: 's3cret' ")
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "unknown command 'AUTH'") {
		t.Error(err)
	}
}

package behaviour_test

import (
	"errors"
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

// Open does not connect to a read-only replica, and says where its master is.
func TestOpenReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host, port)
	file := filepath.Join(t.TempDir(), "replica.yaml")
	if err := os.WriteFile(file, []byte("singleServerConfig:\n  address: "+replica.URL()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := replica.Addr() + " is a read-only replica of " + master.Addr() + ": connect to the master"
	for call, open := range map[string]func(*holdfast.Options) (*holdfast.Client, error){
		"Open": func(o *holdfast.Options) (*holdfast.Client, error) {
			return holdfast.Open(t.Context(), replica.URL(), o)
		},
		"OpenConfig": func(o *holdfast.Options) (*holdfast.Client, error) {
			return holdfast.OpenConfig(t.Context(), file, o)
		},
	} {
		if _, err := open(nil); !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", call, err)
		}
		c, err := open(&holdfast.Options{AllowReplica: true, RetryTimeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		defer c.Close()
		name := locktest.Name(t)
		locktest.Lock(t, t.Context(), locktest.Open(t, master.URL()).Mutex(name))
		locktest.Eventually(t, 10*time.Second, "the replica has the lock", func() bool { return replica.Int(t, "EXISTS", name) == 1 })
		if held, err := c.Mutex(name).IsLocked(t.Context()); !held || err != nil {
			t.Errorf("%s: locked %v, %v", call, held, err)
		}
		if _, err := c.Mutex("free").Lock(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), "read-only replica") {
			t.Errorf("%s: locked: %v", call, err)
		}
	}

	both := strings.Replace(replica.URL(), replica.Addr(), replica.Addr()+","+master.Addr(), 1)
	locktest.Lock(t, t.Context(), locktest.Open(t, both).Mutex("found"))
	replica.Do(t, "CONFIG", "SET", "replica-read-only", "no")
	c := locktest.Open(t, replica.URL())
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("writable")))
}

// A server that becomes a replica later is retried, and the error then says what it is.
func TestBecomesReplica(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{RetryTimeout: 300 * time.Millisecond})
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("a")))
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	_, err := c.Mutex("a").Lock(t.Context())
	if !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), "the server is a read-only replica: locks need its master") {
		t.Error(err)
	}
	s.Do(t, "REPLICAOF", "NO", "ONE")
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("a")))
}

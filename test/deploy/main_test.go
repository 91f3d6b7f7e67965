// Package deploy_test checks what deployments do to clients: credentials that
// change, commands that a server forbids, IPv6 addresses, and host names that
// move to another server.
package deploy_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

// lease is the lease time of renewed leases.
const lease = 6 * time.Second

// patience is how long a test waits for what has no bound of its own.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	if err := names.start(); err != nil {
		panic(err)
	}
	locktest.Main(m, nil)
}

// config returns the Config of a URL.
func config(t *testing.T, url string) rueidis.Config {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open returns a client that is closed at the end of the test. Its waiters do not
// poll, so only a message wakes them.
func open(t *testing.T, c rueidis.Config) *holdfast.Client {
	t.Helper()
	return openWith(t, c, holdfast.Options{WatchdogTimeout: lease, RenewEvery: lease / 6, PollInterval: time.Minute, Anonymous: true})
}

// openIn is open for a URL and a replication mode.
func openIn(t *testing.T, url string, mode holdfast.ReplicationMode) *holdfast.Client {
	t.Helper()
	return openWith(t, config(t, url), holdfast.Options{
		WatchdogTimeout: lease, RenewEvery: lease / 6, PollInterval: time.Minute, Anonymous: true, Replication: holdfast.Replication{Mode: mode},
	})
}

func openWith(t *testing.T, c rueidis.Config, o holdfast.Options) *holdfast.Client {
	t.Helper()
	d, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	client, err := holdfast.New(d, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A waiting is a call of Lock that waits.
type waiting struct {
	lease *holdfast.Lease
	err   error
	done  chan struct{}
}

// wait calls Lock in a new goroutine.
func wait(ctx context.Context, m holdfast.Locker) *waiting {
	w := &waiting{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = m.Lock(ctx)
	}()
	return w
}

// granted returns the lease of the call. It fails if there is none in time.
func (w *waiting) granted(t *testing.T) *holdfast.Lease {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(patience):
		t.Fatal("the waiter did not get the lock")
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w.lease
}

// renewed waits until the lease has been renewed on new connections.
func renewed(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	since := time.Now()
	locktest.Eventually(t, patience, "the renewal of the lease", func() bool {
		if err := context.Cause(l.Context()); err != nil {
			t.Fatalf("the lease is lost: %v", err)
		}
		return l.Deadline().After(since.Add(lease))
	})
}

package faults_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A renewal that has nothing to write, since an extension that no replica knows
// of has written more before, tells nothing about the replicas: they still have
// the lease as it was.
func TestStrictRenewalWithoutWrite(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	r := redistest.StartReplicated(t, 1)
	c := locktest.Open(t, r.Master().URL(), holdfast.Options{
		WatchdogTimeout: lease,
		RetryTimeout:    5 * time.Second,
		Replication:     holdfast.Replication{Mode: holdfast.Strict, Replicas: 1, Timeout: 500 * time.Millisecond},
	})
	l := locktest.Lock(t, context.Background(), c.Mutex(locktest.Name(t)))
	defer func() { _ = l.Release(context.Background()) }()

	r.Replicas()[0].Pause() // still connected, as far as the master can tell
	hasty, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel() // giving up while replicas are awaited closes the connection
	if err := l.Extend(hasty, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("extended: %v", err)
	}
	select {
	case <-l.Context().Done():
	case <-time.After(2 * lease):
		t.Errorf("valid: %v, although no replica has heard of it for %v", l.Valid(), 2*lease)
	}
}

// The same goes for an extension.
func TestStrictExtensionWithoutWrite(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Second
	r := redistest.StartReplicated(t, 1)
	c := locktest.Open(t, r.Master().URL(), holdfast.Options{
		RetryTimeout: 5 * time.Second,
		Replication:  holdfast.Replication{Mode: holdfast.Strict, Replicas: 1, Timeout: 500 * time.Millisecond},
	})
	l := locktest.Lock(t, context.Background(), c.Mutex(locktest.Name(t)), holdfast.LeaseTime(lease))
	defer func() { _ = l.Release(context.Background()) }()

	r.Replicas()[0].Pause()
	hasty, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := l.Extend(hasty, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("extended: %v", err)
	}
	if err := l.Extend(context.Background(), time.Minute); !errors.Is(err, holdfast.ErrNotReplicated) {
		t.Errorf("extended by less: %v", err)
	}
}

// Since Redis 7.2, WAIT waits for what the connection has written, and for
// nothing if that was written by others.
func TestStrictExtensionWrites(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	c := locktest.Open(t, r.Master().URL(), holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Strict, Replicas: 1}})
	l := locktest.Lock(t, context.Background(), c.Mutex(locktest.Name(t)), holdfast.LeaseTime(time.Hour))
	defer locktest.Release(t, l)
	changes := func() string {
		info, _ := r.Master().Do(t, "INFO", "persistence").(string)
		_, rest, _ := strings.Cut(info, "rdb_changes_since_last_save:")
		n, _, _ := strings.Cut(rest, "\r\n")
		return n
	}
	before := changes()
	if err := l.Extend(context.Background(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if after := changes(); after == before {
		t.Errorf("%s changes as before: nothing that a replica could acknowledge", after)
	}
}

// A replica that still fetches its first copy cannot acknowledge anything, and cannot
// become the master. It must not block all acquisitions meanwhile.
func TestAckedWhileReplicaSyncs(t *testing.T) {
	t.Parallel()
	m := redistest.Start(t, "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "60")
	host, port, _ := net.SplitHostPort(m.Addr())
	redistest.Start(t).Do(t, "REPLICAOF", host, port)
	locktest.Eventually(t, 20*time.Second, "the replica is there", func() bool {
		info, _ := m.Do(t, "INFO", "replication").(string)
		return strings.Contains(info, "connected_slaves:1") && !strings.Contains(info, "state=online")
	})
	c := locktest.Open(t, m.URL())
	l, err := c.Mutex(locktest.Name(t)).TryLock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, l)
}

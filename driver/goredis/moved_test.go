package goredis_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A lease survives that its host name moves to a promoted replica, while the old
// server goes on as a replica of that one.
func TestNameMoves(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	before, after := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t, "--repl-diskless-sync-delay", "0")
	name := redistest.NewProxy(t, before.Addr())
	replicate := func(s, of *redistest.Server) {
		host, port, _ := net.SplitHostPort(of.Addr())
		s.Do(t, "REPLICAOF", host, port)
		locktest.Eventually(t, soon, "a replica", func() bool {
			return strings.Contains(of.Do(t, "INFO", "replication").(string), "state=online")
		})
	}
	replicate(after, before)
	c := locker(t, single(name.Addr()), holdfast.Options{WatchdogTimeout: lease, RenewEvery: lease / 6})
	held := locktest.Lock(t, t.Context(), c.Mutex("m"))
	locktest.Eventually(t, soon, "the lock at the replica", func() bool { return after.Int(t, "EXISTS", "m") == 1 })
	name.Lead(after.Addr())
	after.Do(t, "REPLICAOF", "NO", "ONE")
	replicate(before, after)
	since := time.Now()
	locktest.Eventually(t, soon, "the renewal of the lease", func() bool {
		if err := context.Cause(held.Context()); err != nil {
			t.Fatalf("the lease is lost: %v", err)
		}
		return held.Deadline().After(since.Add(lease))
	})
	if err := c.Mutex("other").Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	locktest.Release(t, held)
}

package holdfast_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// workers are what the test binary does when a test has started it as a
// process of its own, by name. Test files add theirs in init.
var workers = map[string]func(){}

func TestMain(m *testing.M) {
	if name := redistest.WorkerName(); name != "" {
		work, ok := workers[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no worker %q\n", name)
			os.Exit(2)
		}
		work()
		os.Exit(0)
	}
	if prefixes := os.Getenv("HOLDFAST_TEST_ACL"); prefixes != "" {
		var rights []string
		for p := range strings.SplitSeq(prefixes, ",") {
			keys, channels, commands := check.Rule("", p, 0, false)
			rights = slices.Concat(rights, keys, channels, commands)
		}
		redistest.LimitEverybody(rights...)
	}
	os.Exit(redistest.RunTests(m))
}

// open returns a client for one test.
func open(tb testing.TB, url string, options ...holdfast.Options) *holdfast.Client {
	tb.Helper()
	var o holdfast.Options
	if len(options) > 0 {
		o = options[0]
	}
	if os.Getenv("HOLDFAST_TEST_REPLICATION") == "strict" && o.Replication == (holdfast.Replication{}) {
		o.Replication = holdfast.Replication{Mode: holdfast.Strict, Replicas: redistest.Replicas}
		o.ClockSkew = 20 * time.Millisecond // the servers have one clock, and tests short leases
	}
	if o.Replication == (holdfast.Replication{}) {
		// A replica may stand still for longer than the second that is the default.
		o.Replication.Timeout = min(5*time.Second, cmp.Or(o.WatchdogTimeout, time.Minute))
	}
	c, err := holdfast.Open(context.Background(), address(tb, url), o)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(end); {
		c, err = holdfast.Open(context.Background(), address(tb, url), o) // the server stood still
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// address returns the URL for a client: an enduring one of the shared server, which
// nobody stops.
func address(tb testing.TB, url string) string {
	tb.Helper()
	if url == redistest.Shared(tb).URL() {
		return enduring(url)
	}
	return url
}

// enduring returns a URL for clients that wait for the answer of a server that
// may stand still, but is never stopped: the two seconds that are the default
// are as long as that.
func enduring(url string) string {
	sep := "?"
	if strings.Contains(url, sep) {
		sep = "&"
	}
	return url + sep + "timeout=10s&dial_timeout=10s"
}

// inDatabase returns the URL of a database and its number, which is 0 in a
// cluster, where there is no other.
func inDatabase(s *redistest.Server, n int) (url string, db int) {
	switch redistest.Topology() {
	case "cluster":
		return s.URL(), 0
	case "sentinel":
		return strings.Replace(s.URL(), "/0?", fmt.Sprintf("/%d?", n), 1), n
	}
	return fmt.Sprintf("%s/%d", s.URL(), n), n
}

// often returns how often to do something for the sake of load: as often as
// wanted with one server, and less often elsewhere, where the load is the same
// and every server costs.
func often(n int) int {
	if redistest.Topology() == "single" {
		return n
	}
	return max(1, n/5)
}

var names atomic.Int64

// name returns the name of a lock that no other test uses.
func name(tb testing.TB) string {
	return fmt.Sprintf("%s:%d", strings.ReplaceAll(tb.Name(), "/", ":"), names.Add(1))
}

// lock locks m, or ends the test.
func lock(tb testing.TB, ctx context.Context, m holdfast.Locker, opts ...holdfast.Option) *holdfast.Lease {
	tb.Helper()
	l, err := m.Lock(ctx, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// release gives a lease back, or marks the test as failed.
func release(tb testing.TB, l *holdfast.Lease) {
	tb.Helper()
	if err := l.Release(context.Background()); err != nil {
		tb.Error(err)
	}
}

// eventually waits until cond is true, or ends the test.
func eventually(tb testing.TB, limit time.Duration, what string, cond func() bool) {
	tb.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		over := time.Now().After(end) // before the look: one that comes after the end counts
		if cond() {
			return
		}
		if over {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

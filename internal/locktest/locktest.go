package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Late is how late things may be that are awaited: the machine may be busy, or
// stand still for two seconds. Who is not told and looks at intervals is later.
const Late = 4 * time.Second

// AWhile is how long to watch that nothing happens.
const AWhile = 500 * time.Millisecond

// Parallel runs f in n goroutines and waits for their end.
func Parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func Median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// Tolerable reports whether an error is one that a bad network explains.
func Tolerable(err error) bool {
	for _, target := range []error{holdfast.ErrUnavailable, holdfast.ErrNotAcquired, holdfast.ErrLost, context.Canceled} {
		if errors.Is(err, target) {
			return true
		}
	}
	return err == nil
}

// Must returns a result, or ends the test.
func Must[T any](tb testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// Open returns a client for one test.
func Open(tb testing.TB, url string, options ...holdfast.Options) *holdfast.Client {
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
	c, err := holdfast.Open(context.Background(), Address(tb, url), o)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(end); {
		c, err = holdfast.Open(context.Background(), Address(tb, url), o) // the server stood still
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Address returns the URL for a client: an enduring one of the shared server, which
// nobody stops.
func Address(tb testing.TB, url string) string {
	tb.Helper()
	if url == redistest.Shared(tb).URL() {
		return Enduring(url)
	}
	return url
}

// Enduring returns a URL for clients that wait for the answer of a server that
// may stand still, but is never stopped: the two seconds that are the default
// are as long as that.
func Enduring(url string) string {
	sep := "?"
	if strings.Contains(url, sep) {
		sep = "&"
	}
	return url + sep + "timeout=10s&dial_timeout=10s"
}

// Often returns how often to do something for the sake of load: as often as
// wanted with one server, and less often elsewhere, where the load is the same
// and every server costs.
func Often(n int) int {
	if redistest.Topology() == "single" {
		return n
	}
	return max(1, n/5)
}

var names atomic.Int64

// Name returns the name of a lock that no other test uses.
func Name(tb testing.TB) string {
	return fmt.Sprintf("%s:%d", strings.ReplaceAll(tb.Name(), "/", ":"), names.Add(1))
}

// Lock locks m, or ends the test.
func Lock(tb testing.TB, ctx context.Context, m holdfast.Locker, opts ...holdfast.Option) *holdfast.Lease {
	tb.Helper()
	l, err := m.Lock(ctx, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Release gives a lease back, or marks the test as failed.
func Release(tb testing.TB, l *holdfast.Lease) {
	tb.Helper()
	if err := l.Release(context.Background()); err != nil {
		tb.Error(err)
	}
}

// Eventually waits until cond is true, or ends the test.
func Eventually(tb testing.TB, limit time.Duration, what string, cond func() bool) {
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

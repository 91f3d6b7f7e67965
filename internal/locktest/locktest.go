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

// Late is how late an awaited event may be. The machine may be busy. Time in which
// it stands still does not count where Took and Receive measure it. Late
// is shorter than the interval at which waiters poll.
const Late = 4 * time.Second

// AWhile is how long a test watches that nothing happens.
const AWhile = 500 * time.Millisecond

// Parallel runs f in n goroutines and waits until all have returned.
func Parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// Median returns the median of ds. It sorts ds.
func Median(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

// Tolerable reports whether err is nil or an error that a bad network explains.
func Tolerable(err error) bool {
	for _, target := range []error{holdfast.ErrUnavailable, holdfast.ErrNotAcquired, holdfast.ErrLost, context.Canceled} {
		if errors.Is(err, target) {
			return true
		}
	}
	return err == nil
}

// Must returns a function that returns a result, or ends the test on an error.
func Must[T any](tb testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// Open returns a client that is closed at the end of the test. It is anonymous unless it
// has a label, so that tests can compare all keys of a server.
// HOLDFAST_TEST_REPLICATION=strict makes it wait for replicas.
func Open(tb testing.TB, url string, options ...holdfast.Options) *holdfast.Client {
	tb.Helper()
	var o holdfast.Options
	if len(options) > 0 {
		o = options[0]
	}
	if os.Getenv("HOLDFAST_TEST_REPLICATION") == "strict" && o.Replication == (holdfast.Replication{}) {
		o.Replication = holdfast.Replication{Mode: holdfast.Strict, Replicas: redistest.Replicas}
		o.ClockSkew = 20 * time.Millisecond // the servers share a clock, and tests use short leases
	}
	if o.Replication == (holdfast.Replication{}) {
		// A replica may stand still for longer than the default of one second.
		o.Replication.Timeout = min(5*time.Second, cmp.Or(o.WatchdogTimeout, time.Minute))
	}
	o.Anonymous = o.Label == ""
	c, err := holdfast.Open(context.Background(), Address(tb, url), &o)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(end); {
		c, err = holdfast.Open(context.Background(), Address(tb, url), &o) // the server stood still
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Address returns the URL for a client. For the shared server, which no test
// stops, it is an enduring one.
func Address(tb testing.TB, url string) string {
	tb.Helper()
	if url == redistest.Shared(tb).URL() {
		return Enduring(url)
	}
	return url
}

// Enduring returns a URL for clients that wait longer for a reply. A server that is
// never stopped may stand still for two seconds, which is the default timeout.
func Enduring(url string) string {
	sep := "?"
	if strings.Contains(url, sep) {
		sep = "&"
	}
	return url + sep + "timeout=10s&dial_timeout=10s"
}

// Often returns how often to repeat something that only makes load: n times with
// one server, and fewer times with several servers, which share the machine.
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
func Lock(tb testing.TB, ctx context.Context, m holdfast.Locker, opts ...holdfast.LockOption) *holdfast.Lease {
	tb.Helper()
	l, err := m.Lock(ctx, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Release releases a lease, or marks the test as failed.
func Release(tb testing.TB, l *holdfast.Lease) {
	tb.Helper()
	start := time.Now()
	switch err := l.Release(context.Background()); {
	case errors.Is(err, holdfast.ErrUnavailable) && time.Since(start) >= requestTime:
		tb.Log("the machine stood still, and the release goes on in the background:", err)
	case err != nil:
		tb.Error(err)
	}
}

// requestTime is how long a client waits for the answer to a request.
const requestTime = 2 * time.Second

// Eventually waits until cond is true, or ends the test.
func Eventually(tb testing.TB, limit time.Duration, what string, cond func() bool) {
	tb.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		over := Took(start) > limit // before cond: a result that comes after the end counts
		if cond() {
			return
		}
		if over {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

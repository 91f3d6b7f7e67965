package holdfast_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
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
	os.Exit(m.Run())
}

// open returns a client for one test.
func open(tb testing.TB, url string, o ...holdfast.Options) *holdfast.Client {
	tb.Helper()
	c, err := holdfast.Open(context.Background(), url, o...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
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
	for end := time.Now().Add(limit); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

package locktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// HoldKey returns the key whose TTL is that of the n-th hold of a reader.
func HoldKey(l *holdfast.Lease, n int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", l.Name(), l.Owner(), n)
}

// WantSides checks which sides of m are locked.
func WantSides(tb testing.TB, m *holdfast.RWMutex, write, read bool) {
	tb.Helper()
	if Locked(tb, m) != write {
		tb.Errorf("locked to write: %v, want %v", !write, write)
	}
	if Locked(tb, Readers(m)) != read {
		tb.Errorf("locked to read: %v, want %v", !read, read)
	}
}

// WritersKey returns the key of the waiting writers with WriterFirst.
func WritersKey(name string) string { return "holdfast:writers:{" + name + "}" }

// WantNoWriters checks that the server knows of no waiting writer.
func WantNoWriters(tb testing.TB, s *redistest.Server, name string) {
	tb.Helper()
	if s.Int(tb, "EXISTS", WritersKey(name)) != 0 {
		tb.Errorf("writers left: %v", s.Do(tb, "ZRANGE", WritersKey(name), "0", "-1"))
	}
}

// AwaitFirstWriters waits until the server knows of n waiting writers.
func AwaitFirstWriters(tb testing.TB, s *redistest.Server, name string, n int64) {
	tb.Helper()
	Eventually(tb, 5*time.Second, "the writer waits", func() bool { return s.Int(tb, "ZCARD", WritersKey(name)) == n })
}

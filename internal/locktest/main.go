// Package locktest holds what the tests of several packages share: clients, locks
// of every kind, and checks.
package locktest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Main runs the tests of a package and exits. If a test has started this binary
// as a worker process, Main runs that worker instead. A worker is one of workers
// or of those in this package.
//
// HOLDFAST_TEST_ACL limits all clients to the rights that the given prefixes of
// names need, separated by commas.
func Main(m *testing.M, workers map[string]func()) {
	if name := redistest.WorkerName(); name != "" {
		work, ok := workers[name]
		if name == "queue" {
			work, ok = queueWorker, true
		}
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

package redistest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	leakGrace = 20 * time.Second
)

// CheckGoroutines fails the test if goroutines that it started still run after
// its cleanup.
//
// Call it first in a test. Cleanups run in reverse order, so goroutines that an
// earlier call cleans up would still run during the check. It checks all
// goroutines of the process, so do not use it in parallel tests.
func CheckGoroutines(tb testing.TB) {
	tb.Helper()
	checkGoroutines(tb, leakGrace)
}

func checkGoroutines(tb testing.TB, grace time.Duration) {
	tb.Helper()
	before := goroutines()
	tb.Cleanup(func() {
		if err := awaitGoroutines(before, grace); err != nil {
			tb.Errorf("%v", err)
		}
	})
}

// RunTests runs the tests of a binary for its TestMain. It also fails if
// goroutines still run after the last test.
func RunTests(m *testing.M) (code int) {
	before := goroutines()
	code = m.Run()
	if err := awaitGoroutines(before, leakGrace); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// awaitGoroutines waits until only the goroutines run that ran before.
func awaitGoroutines(before map[string]string, grace time.Duration) error {
	var extra map[string]string
	ended := Poll(grace, func() bool {
		extra = goroutines()
		maps.DeleteFunc(extra, func(id, _ string) bool {
			_, known := before[id]
			return known
		})
		return len(extra) == 0
	})
	if ended {
		return nil
	}
	stacks := slices.Sorted(maps.Values(extra))
	return fmt.Errorf("redistest: %d goroutines left running:\n\n%s", len(stacks), strings.Join(stacks, "\n\n"))
}

// foreign are parts of the stacks of goroutines that a test need not end: those
// of the runtime and of package testing, and the supervisors of processes. The
// supervisor of the shared server never ends.
var foreign = []string{
	"\ncreated by runtime.",
	"\ncreated by testing.",
	"\ncreated by os/signal.",
	"redistest.(*child).supervise(",
}

// goroutines returns the stacks of the goroutines of the process by their ids,
// except the foreign ones.
func goroutines() map[string]string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) {
		buf = make([]byte, 2*len(buf))
		n = runtime.Stack(buf, true)
	}
	stacks := make(map[string]string)
	for stack := range strings.SplitSeq(strings.TrimSpace(string(buf[:n])), "\n\n") {
		isForeign := slices.ContainsFunc(foreign, func(part string) bool {
			return strings.Contains(stack, part)
		})
		if isForeign {
			continue
		}
		// The first line reads "goroutine 12 [running]:".
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		stacks[id] = stack
	}
	return stacks
}

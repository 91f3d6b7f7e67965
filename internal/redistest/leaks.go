package redistest

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	leakGrace = 5 * time.Second
	leakPoll  = 5 * time.Millisecond
)

// CheckGoroutines fails the test if goroutines that it started still run after
// its cleanup.
//
// Call it first in a test. Cleanups run in reverse order, so what is cleaned up
// by calls that came earlier would still be running when it looks. It sees the
// goroutines of the whole process and is not for tests that run in parallel
// with others.
func CheckGoroutines(tb testing.TB) {
	tb.Helper()
	checkGoroutines(tb, leakGrace)
}

func checkGoroutines(tb testing.TB, grace time.Duration) {
	tb.Helper()
	before := goroutines()
	tb.Cleanup(func() {
		deadline := time.Now().Add(grace)
		for {
			extra := goroutines()
			maps.DeleteFunc(extra, func(id, _ string) bool {
				_, known := before[id]
				return known
			})
			if len(extra) == 0 {
				return
			}
			if time.Now().After(deadline) {
				stacks := slices.Sorted(maps.Values(extra))
				tb.Errorf("redistest: %d goroutines left running:\n\n%s", len(stacks), strings.Join(stacks, "\n\n"))
				return
			}
			time.Sleep(leakPoll)
		}
	})
}

// foreign are parts of the stacks of goroutines that no test has to end: those
// of the runtime and of package testing, and the keepers of processes, of which
// that of the shared server never ends.
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

package redistest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// fakeTB is a test that is under test itself.
type fakeTB struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (tb *fakeTB) Cleanup(f func()) { tb.cleanups = append(tb.cleanups, f) }

func (tb *fakeTB) Errorf(format string, args ...any) {
	tb.errors = append(tb.errors, fmt.Sprintf(format, args...))
}

func (tb *fakeTB) end() {
	for len(tb.cleanups) > 0 {
		last := len(tb.cleanups) - 1
		cleanup := tb.cleanups[last]
		tb.cleanups = tb.cleanups[:last]
		cleanup()
	}
}

func lingerUntil(stop <-chan struct{}) { <-stop }

func TestCheckGoroutinesReportsLeak(t *testing.T) {
	tb := &fakeTB{TB: t}
	early, late := make(chan struct{}), make(chan struct{})
	defer close(early)
	defer close(late)
	go lingerUntil(early)
	checkGoroutines(tb, 200*time.Millisecond) // for what an earlier test has left to end
	go lingerUntil(late)
	tb.end()
	if len(tb.errors) != 1 || !strings.Contains(tb.errors[0], "1 goroutines left") || !strings.Contains(tb.errors[0], "lingerUntil") {
		t.Errorf("errors %q, want one about lingerUntil", tb.errors)
	}
}

func TestCheckGoroutinesWaits(t *testing.T) {
	tb := &fakeTB{TB: t}
	checkGoroutines(tb, 10*time.Second)
	stop := make(chan struct{})
	go lingerUntil(stop)
	go func() {
		Poll(10*time.Second, func() bool { // the check has found the goroutine, and pauses
			stacks := make([]byte, 1<<20)
			for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
				if state, calls, _ := strings.Cut(stack, "\n"); strings.Contains(state, "[sleep") && strings.Contains(calls, "redistest.awaitGoroutines(") {
					return true
				}
			}
			return false
		})
		close(stop)
	}()
	tb.end()
	if len(tb.errors) != 0 {
		t.Errorf("errors %q, want none", tb.errors)
	}
}

func TestCheckGoroutinesIgnoresSharedServer(t *testing.T) {
	tb := &fakeTB{TB: t}
	checkGoroutines(tb, 10*time.Second)
	s, err := start(t.TempDir(), spec{host: localhost}) // like Shared, but certainly a new one
	if err != nil {
		giveUp(t, err)
	}
	tb.end()
	s.proc.kill()
	if len(tb.errors) != 0 {
		t.Errorf("errors %q, want none", tb.errors)
	}
}

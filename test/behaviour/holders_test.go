package behaviour_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// scriptsRun returns how many scripts the server has run.
func scriptsRun(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(s.Do(t, "INFO", "commandstats").(string), "cmdstat_evalsha:calls=")
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The error of a call that did not get a lock names the process that holds it, once the
// client has looked. That costs the call no request.
func TestErrorNamesHolder(t *testing.T) {
	s := redistest.Start(t)
	holder := locktest.Open(t, s.URL(), holdfast.Options{Label: "blue", WatchdogTimeout: 3 * time.Second})
	locktest.Lock(t, t.Context(), holder.Mutex("a"))
	who := fmt.Sprintf("(blue, pid %d)", os.Getpid())
	c := locktest.Open(t, s.URL())
	try := func(opts ...holdfast.LockOption) string {
		_, err := c.Mutex("a").TryLock(t.Context(), opts...)
		return err.Error()
	}
	if text := try(); !strings.Contains(text, "held by another owner, whose lease ends in") {
		t.Error(text)
	}
	var text string
	locktest.Eventually(t, 30*time.Second, "the error names the holder", func() bool {
		text = try()
		return strings.Contains(text, who)
	})
	locktest.Eventually(t, 30*time.Second, "the error says how long the lock was held", func() bool {
		text = try()
		return strings.Contains(text, who+" for at least ") && strings.Contains(text, ", renewed")
	})

	// A call that waits with a limit also knows.
	other := locktest.Open(t, s.URL())
	locktest.Eventually(t, 30*time.Second, "the call knows the holder", func() bool {
		_, err := other.Mutex("a").TryLock(t.Context(), holdfast.Wait(1500*time.Millisecond))
		return strings.Contains(err.Error(), who)
	})

	// Looks are rare: at most one per second, however many locks there are.
	const n = 50
	for i := range n {
		locktest.Lock(t, t.Context(), holder.Mutex(fmt.Sprint("b", i)))
	}
	before, begun := scriptsRun(t, s), time.Now()
	for range 2 {
		for i := range n {
			_, _ = c.Mutex(fmt.Sprint("b", i)).TryLock(t.Context())
		}
		locktest.Work(1100 * time.Millisecond)
	}
	looks := scriptsRun(t, s) - before - 2*n
	if most := 4*int(time.Since(begun)/time.Second) + 8; looks > most { // with renewals
		t.Errorf("%d requests beside the calls, want at most %d", looks, most)
	}
}

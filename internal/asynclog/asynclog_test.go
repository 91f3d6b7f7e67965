package asynclog

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A recorder is a handler that keeps what it gets, once it is let.
type recorder struct {
	gate  chan struct{} // nil: open
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Enabled(_ context.Context, l slog.Level) bool {
	if r.gate != nil {
		<-r.gate
	}
	return l >= slog.LevelInfo
}

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := rec.Message
	rec.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	r.lines = append(r.lines, line)
	return nil
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recorder) WithGroup(string) slog.Handler      { return r }

func (r *recorder) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

// Records arrive in their order, the levels that are not wanted do not, and no
// goroutine stays.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(recorder)
		log := New(slog.New(r), nil)
		for i := range 500 {
			log.Info(fmt.Sprint(i))
			log.Debug("unwanted")
		}
		Flush(log, time.Second)
		got := r.heard()
		if len(got) != 500 {
			t.Fatalf("%d records", len(got))
		}
		for i, line := range got {
			if line != fmt.Sprint(i) {
				t.Fatalf("record %d is %q", i, line)
			}
		}
	})
}

// A handler that blocks does not delay the logging call. Records that do not fit
// into the buffer are counted.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		log := New(slog.New(r), nil)
		start := time.Now()
		for i := range 3 * size {
			log.Warn(fmt.Sprint(i))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("logging took %v", took)
		}
		Flush(log, 100*time.Millisecond)
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("flushing took %v", took)
		}
		close(r.gate)
		Flush(log, time.Second)
		log.Warn("last")
		Flush(log, time.Second)
		got := r.heard()
		dropped, notes := 0, 0
		for _, line := range got {
			if i := strings.Index(line, "dropped="); i >= 0 {
				n := 0
				if _, err := fmt.Sscanf(line[i:], "dropped=%d", &n); err != nil {
					t.Fatal(err)
				}
				dropped += n
				notes++
			}
		}
		if kept := len(got) - 1 - notes; dropped+kept != 3*size || kept < size || kept > 2*size { // without "last" and the notes
			t.Errorf("%d records kept, %d dropped, of %d", kept, dropped, 3*size)
		}
		if got[len(got)-1] != "last" {
			t.Errorf("at last: %q", got[len(got)-1])
		}
	})
}

// With and WithGroup work as on the user's own logger.
func TestDerived(t *testing.T) {
	var out strings.Builder
	log := New(slog.New(slog.NewTextHandler(&out, nil)), nil)
	log.With("a", 1).WithGroup("g").Warn("hello", "b", 2)
	Flush(log, 10*time.Second)
	if !strings.Contains(out.String(), "a=1 g.b=2") {
		t.Errorf("logged %q", out.String())
	}
}

// What never blocks needs no queue.
func TestNotWrapped(t *testing.T) {
	discard := slog.New(slog.DiscardHandler)
	if New(discard, nil) != discard {
		t.Error("a logger that discards everything is wrapped")
	}
	if log := New(slog.New(new(recorder)), nil); New(log, nil) != log {
		t.Error("wrapped twice")
	}
	before := runtime.NumGoroutine()
	Flush(discard, time.Hour)
	if n := runtime.NumGoroutine(); n > before {
		t.Error("goroutines are left")
	}
}

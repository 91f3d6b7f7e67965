package holdfast_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The log of a lost lease names the semaphore and its owner, not the ids of all
// permits: whoever knows those can release them.
func TestLogOfLostPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	log := new(safeBuffer)
	o := quick
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	sem := open(t, s.URL(), o).LeasedSemaphore("pool")
	if err := sem.Set(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	l, err := sem.Acquire(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "FLUSHALL")
	<-l.Context().Done()
	eventually(t, 10*time.Second, "a word in the log", func() bool { return strings.Contains(log.String(), "lost") })
	text := log.String()
	if len(text) > 1000 || !strings.Contains(text, l.Owner()) || strings.Contains(text, "{pool}:timeout") {
		t.Errorf("%d bytes in the log: %.300s", len(text), text)
	}
}

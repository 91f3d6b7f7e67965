package locktest

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
)

// A Buffer is a bytes.Buffer that is safe for concurrent use, such as for a log.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String returns what has been written so far.
func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// CaptureDefaultLog makes slog.Default write into the buffer that it returns, from
// level Debug on. Tests that call it cannot run in parallel.
func CaptureDefaultLog(t *testing.T) *Buffer {
	t.Helper()
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var b Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return &b
}

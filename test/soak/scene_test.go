package soak_test

import (
	"os"
	"slices"
	"sync"
	"testing"
)

// A scene is the testing.TB of what lasts for a round: a soak has more rounds than a test could
// keep processes and files for. A failure of the servers ends the whole soak.
type scene struct {
	testing.TB
	dir string

	mu       sync.Mutex
	cleanups []func()
}

// Cleanup registers what to do at the end of the round.
func (s *scene) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

// TempDir returns a new directory in that of the round.
func (s *scene) TempDir() string {
	dir, err := os.MkdirTemp(s.dir, "")
	if err != nil {
		s.Fatal(err)
	}
	return dir
}

// end ends the round.
func (s *scene) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

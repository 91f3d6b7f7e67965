package redistest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed shim/clock.c
var clockSource []byte

// WithClock gives every data server a wall clock of its own, which
// [Server.MoveClock] moves. It needs Linux and a C compiler.
func WithClock() Option { return func(s *setup) { s.clock = true } }

// MoveClock moves the wall clock of the server by d, forward or back. Leases
// expire by that clock. It stays moved when the server is restarted. If the server
// runs, MoveClock returns when the server has noticed: Valkey 9.1 reads the clock
// only now and then, and uses a monotonic clock in between.
func (s *Server) MoveClock(d time.Duration) {
	s.own()
	s.tb.Helper()
	if s.clock == nil {
		s.tb.Fatal("redistest: MoveClock needs a server started with WithClock")
	}
	offset, err := s.clock.add(d)
	if err != nil {
		s.tb.Fatalf("redistest: cannot move the clock: %v", err)
	}
	if s.Running() {
		awaitThat(s.tb, "the server uses its moved clock", func() bool {
			from := time.Now().Add(offset - d.Abs()/2)
			reply, err := s.Try("TIME")
			words, _ := reply.([]any)
			if err != nil || len(words) != 2 {
				return false
			}
			now, err := time.ParseDuration(fmt.Sprintf("%vs%vus", words...))
			at := time.Unix(0, int64(now))
			return err == nil && at.After(from) && at.Before(time.Now().Add(offset+d.Abs()/2))
		})
	}
}

// offsetFile is the file that the shim in a server maps. It holds the offset of
// the clock: a number of microseconds in native byte order.
type offsetFile struct {
	path string

	mu     sync.Mutex
	offset time.Duration
}

// add moves the clock by d and returns its offset.
func (f *offsetFile) add(d time.Duration) (offset time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], uint64((f.offset + d).Microseconds()))
	if _, err := file.WriteAt(word[:], 0); err != nil {
		return 0, err
	}
	f.offset += d
	return f.offset, nil
}

// newClock returns a file for the offset of one server and the environment that
// makes the server use it.
func newClock(tb testing.TB) (*offsetFile, []string) {
	tb.Helper()
	shim, err := clockShim()
	if err != nil {
		tb.Fatal(err)
	}
	f := &offsetFile{path: filepath.Join(tb.TempDir(), "offset")}
	if err := os.WriteFile(f.path, make([]byte, 4096), 0o600); err != nil {
		tb.Fatal(err)
	}
	// The library is needed until the server runs. Nothing else keeps the file.
	preload := filepath.Join(filepath.Dir(f.path), "clock.so")
	if err := os.WriteFile(preload, shim, 0o700); err != nil {
		tb.Fatal(err)
	}
	return f, []string{"LD_PRELOAD=" + preload, "HOLDFAST_CLOCK=" + f.path}
}

// clockShim compiles the library that shifts the clock of a process, once per
// test binary, and returns its bytes.
var clockShim = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return nil, err
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("redistest: WithClock needs Linux and a C compiler, install one with: make deps, or apt-get install gcc libc6-dev: %w\n%s", err, out)
	}
	return os.ReadFile(library)
})

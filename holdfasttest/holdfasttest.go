// Package holdfasttest helps to test code that uses Holdfast, without a server.
//
// [NewClient] returns a real client. Its server is in memory and runs the same scripts as a
// Redis server, so all kinds of locks and synchronizers behave as in production, see package
// memory. There is no network, so a test can run in a bubble of testing/synctest, in which
// time is faked: a lease of 30 s expires within microseconds.
//
//	func TestCheckout(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			client := holdfasttest.NewClient(t, nil)
//			...
//		})
//	}
//
// [NewServer] is for tests with several clients, which stand for several processes, and for
// tests in which something goes wrong: [Server.Take], [Server.Expire], [Server.Cut],
// [Server.FailOver] and [Server.Fill].
//
// A test fails if a lease was not released, or if a call still waits, at its end. The failure
// has the line that created the client. To leave a lease on purpose, as a process that crashes
// does, close the client before the test ends.
//
// Import this package in tests only: it makes Holdfast measure leases with the wall clock,
// so that faked time works.
package holdfasttest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest/memory"
	"github.com/holdfast-go/holdfast/internal/clock"
)

func init() { clock.Fake() }

// NewClient returns a client of a new server in memory. It is closed at the end of the test.
// The options may be nil.
func NewClient(tb testing.TB, options *holdfast.Options) *holdfast.Client {
	tb.Helper()
	return NewServer(tb).NewClient(options)
}

// A Server is a Redis server in memory, for one test.
type Server struct {
	tb     testing.TB
	memory *memory.Server
}

// NewServer returns an empty server.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	return &Server{tb, memory.New()}
}

// NewClient returns a client of the server. Clients of one server stand for processes that
// share it. The client is closed at the end of the test, if it is not closed before. The options
// may be nil. Without Options.Logger, warnings and errors are part of the output of the test.
func (s *Server) NewClient(options *holdfast.Options) *holdfast.Client {
	s.tb.Helper()
	var o holdfast.Options
	if options != nil {
		o = *options
	}
	out := &output{w: s.tb.Output()}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	c, err := holdfast.New(s.memory.Driver(), &o)
	if err != nil {
		s.tb.Fatal(err)
	}
	where := caller()
	s.tb.Cleanup(func() {
		s.end(c, where)
		out.end()
	})
	return c
}

// caller returns the file and the line that called this package. In a bubble of
// testing/synctest, Helper does not find it for a Cleanup function.
func caller() string {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !more || filepath.Base(f.File) != "holdfasttest.go" {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

// An output is the output of a test, which must not be used after its end.
type output struct {
	mu sync.Mutex
	w  io.Writer // nil: the test has ended
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.w == nil {
		return len(b), nil
	}
	return o.w.Write(b)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = nil
}

// end closes a client, and reports what the test has left.
func (s *Server) end(c *holdfast.Client, where string) {
	stats := c.Stats()
	for _, l := range stats.Leases {
		s.tb.Errorf("%s: holdfasttest: a lease of this client on the %s %q was not released", where, l.Kind, l.Name)
	}
	if stats.Waiting > 0 {
		var names []string
		for _, call := range stats.Calls {
			names = append(names, fmt.Sprintf("for the %s %q", call.Kind, call.Name))
		}
		s.tb.Errorf("%s: holdfasttest: %d calls of this client still wait %s", where, stats.Waiting, strings.Join(names, ", "))
	}
	if err := c.Close(); err != nil && !errors.Is(err, holdfast.ErrClosed) {
		s.tb.Errorf("%s: holdfasttest: %v", where, err)
	}
}

// Take takes a lock or all permits of a semaphore away from their holders, as an operator
// does who deletes a key. The holders learn it from their next renewal. Waiting calls are
// not woken: they find out by polling.
func (s *Server) Take(name string) {
	s.tb.Helper()
	s.do(append([]string{"DEL"}, keysOf(name)...)...)
}

// Expire ends the TTL of a lock now. The holders learn it from their next renewal.
func (s *Server) Expire(name string) {
	s.tb.Helper()
	for _, key := range keysOf(name) {
		s.do("PEXPIRE", key, "1")
	}
}

// keysOf returns the keys that say who holds an object.
func keysOf(name string) []string {
	tag := "{" + name + "}"
	if i := strings.IndexByte(name, '{'); i >= 0 && strings.IndexByte(name[i:], '}') > 1 {
		tag = name
	}
	return []string{name, tag + ":timeout"}
}

// Cut cuts the server off from all clients: requests fail and no messages arrive, until
// Restore. The server keeps its data, and TTLs run on.
func (s *Server) Cut() {
	s.memory.Cut(errors.New("the test has cut the server off"))
}

// Restore connects the server again after [Server.Cut].
func (s *Server) Restore() { s.memory.Restore() }

// FailOver makes a replica the master. The replica has not received the locks with the
// given names. Clients verify their leases.
func (s *Server) FailOver(lost ...string) {
	var keys []string
	for _, name := range lost {
		keys = append(keys, keysOf(name)...)
	}
	s.memory.FailOver(errors.New("the test has made a replica the master"), keys...)
}

// Fill makes the memory of the server full, or not: it refuses requests that need more.
func (s *Server) Fill(full bool) { s.memory.SetFull(full) }

// SetReplicas sets the number of replicas, which acknowledge every write, see
// holdfast.Options.Replication. There are none at first.
func (s *Server) SetReplicas(n int) { s.memory.SetReplicas(n) }

// Do runs a command on the server, such as Do("HGETALL", "order:42"), and returns its reply:
// nil, an int64, a string or a []any of these.
func (s *Server) Do(args ...string) any {
	s.tb.Helper()
	return s.do(args...)
}

func (s *Server) do(args ...string) any {
	s.tb.Helper()
	r, err := s.memory.Do(args...)
	if err != nil {
		s.tb.Fatalf("holdfasttest: %q: %v", args, err)
	}
	return r
}

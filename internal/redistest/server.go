package redistest

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is one real server process on a loopback port of its own. It keeps
// no data on disk unless its arguments say so.
//
// The methods that control the process must not be used on the server of
// [Shared]; they panic.
type Server struct {
	spec
	tb    testing.TB // nil for the shared server
	bin   string
	dir   string
	port  int
	claim io.Closer // keeps the port from others
	admin admin

	several *deployment // not nil if it stands for several, and has no process

	paused atomic.Bool

	mu   sync.Mutex // held while the process is replaced
	proc *child
}

// Start starts a server for one test and ends it in the cleanup of tb. The
// arguments are passed on, as in Start(tb, "--maxmemory", "10mb"), and win over
// the defaults.
//
// The program is the one HOLDFAST_TEST_SERVER names, else redis-server, else
// valkey-server. Without any of the latter two the test fails, or is skipped
// in short mode.
//
// The test is skipped where [Topology] is not "single", since it is about one
// server; others use [Shared] or [Fresh].
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	skipElsewhere(tb)
	return StartWith(tb, Args(args...))
}

// StartWith is [Start] with options.
func StartWith(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	t := newTopology(tb, opts)
	return t.start([]spec{limit(t.plain())})[0]
}

// one starts the server of [One]. Its directory is gone once it runs: nothing
// would remove it at the end of the test binary.
var one = sync.OnceValues(func() (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return start(dir, limit(spec{host: localhost, front: localhost}))
})

// One returns a server that all tests of the binary may use at the same time,
// like [Shared], and that stands alone wherever the others run.
func One(tb testing.TB) *Server {
	tb.Helper()
	s, err := one()
	if err != nil {
		giveUp(tb, err)
	}
	return s
}

// shared starts the servers of [Shared] where there are several.
var shared = sync.OnceValues(func() (*Server, error) {
	d, err := deploy()
	return &Server{several: d}, err
})

// Shared returns the one server that all tests of the binary may use at the
// same time. It is started at first use and ends with the binary, so tests
// must keep apart by the names of their keys. Where [Topology] is not "single",
// it stands for several servers: commands go to the one that has the key.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if Topology() == "single" {
		return One(tb)
	}
	s, err := shared()
	if err != nil {
		giveUp(tb, err)
	}
	return s
}

// Addr returns the host and port that clients and other servers connect to.
func (s *Server) Addr() string {
	if s.several != nil {
		panic("redistest: several servers have no one address")
	}
	return net.JoinHostPort(s.front, strconv.Itoa(s.port))
}

// realAddr returns where the server listens, past the network of the test.
func (s *Server) realAddr() string {
	return net.JoinHostPort(s.host, strconv.Itoa(s.port))
}

// URL returns the address as clients are configured with it. It has the
// credentials of [WithPassword], [WithUser] and [WithTLS].
func (s *Server) URL() string {
	if s.several != nil {
		return s.several.url
	}
	return s.url("redis", "", nil, s)
}

// PID returns the id of the process, which is the last one if the server is
// stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// Stop ends the server in an orderly way and waits until it is gone. Stopping
// a stopped server does nothing.
func (s *Server) Stop() {
	s.own()
	s.process().stop()
	s.paused.Store(false)
}

// Kill ends the server like a crash and waits until it is gone.
func (s *Server) Kill() {
	s.own()
	s.process().kill()
	s.paused.Store(false)
}

// Pause halts the server: its connections stay open and nothing answers. It
// returns once the process stands still.
func (s *Server) Pause() {
	s.own()
	if err := s.process().pause(); err != nil {
		s.tb.Fatalf("redistest: cannot pause the server: %v", err)
	}
	s.paused.Store(true)
}

// Resume ends a Pause.
func (s *Server) Resume() {
	s.own()
	if err := s.process().resume(); err != nil {
		s.tb.Fatalf("redistest: cannot resume the server: %v", err)
	}
	s.paused.Store(false)
}

// Running reports whether the process is there and not paused.
func (s *Server) Running() bool {
	select {
	case <-s.process().done:
		return false
	default:
		return !s.paused.Load()
	}
}

// Restart stops the server if it runs, and starts it again on the same port
// without any data. It remembers its settings, and whom it followed: a replica
// of Sentinels is what they made it, a node of a cluster keeps its id and its
// slots.
func (s *Server) Restart() {
	s.own()
	s.replace(func() error {
		s.proc.stop()
		return os.RemoveAll(s.dataDir())
	})
}

// RestartWithData kills the server and starts it again on the same port with
// the data it had written. It needs a server started with "--appendonly",
// "yes". Every write is on disk before it is answered, unless the server was
// started with another "--appendfsync".
func (s *Server) RestartWithData() {
	s.own()
	if option(s.args, "--appendonly") != "yes" {
		s.tb.Fatal(`redistest: RestartWithData needs a server started with "--appendonly", "yes"`)
	}
	s.replace(func() error {
		s.proc.kill()
		return nil
	})
}

// replace ends the process by means of end and starts another one.
func (s *Server) replace(end func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := end()
	s.paused.Store(false)
	if err == nil {
		err = s.launch()
	}
	// A child of the process that is gone, or somebody who looks for a free port,
	// may have the port for another moment.
	for begin := time.Now(); errors.Is(err, errPortTaken) && time.Since(begin) < startTimeout; {
		time.Sleep(startPoll)
		err = s.launch()
	}
	if err != nil {
		s.tb.Fatalf("redistest: cannot restart the server: %v", err)
	}
}

// own guards what may only be done to a server that belongs to one test.
func (s *Server) own() {
	if s.tb == nil {
		panic("redistest: the shared server must be left alone")
	}
}

func (s *Server) process() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *Server) dataDir() string  { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string  { return filepath.Join(s.dir, "log") }
func (s *Server) confFile() string { return filepath.Join(s.dir, "conf") }

// option returns the value that a server takes for the named setting from
// args, or "" when it is not among them.
func option(args []string, name string) (value string) {
	for i, arg := range args {
		if arg == name && i+1 < len(args) {
			value = args[i+1]
		}
	}
	return value
}

package redistest

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
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

	several *deployment // not nil if it represents several servers and has no process

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
	skipUnlessSingle(tb)
	return StartWith(tb, Args(args...))
}

// StartWith is [Start] with options.
func StartWith(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	t := newTopology(tb, opts)
	return t.start([]spec{limitAnonymous(t.plain())})[0]
}

// one starts the server of [One]. It removes the server's directory at once,
// since nothing would remove it at the end of the test binary.
var one = sync.OnceValues(func() (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return start(dir, limitAnonymous(spec{host: localhost, front: localhost}))
})

// One returns a server that all tests of the binary may use at the same time,
// like [Shared]. It is a single server in every topology.
func One(tb testing.TB) *Server {
	tb.Helper()
	s, err := one()
	if err != nil {
		giveUp(tb, err)
	}
	return s
}

// shared starts the servers of [Shared] if the topology is not "single".
var shared = sync.OnceValues(func() (*Server, error) {
	d, err := deploy()
	return &Server{several: d}, err
})

// Shared returns the server that all tests of the binary may use at the same
// time. It is started at first use and ends with the binary, so tests must use
// different keys. If [Topology] is not "single", it represents several servers,
// and a command goes to the server that has its key.
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
		panic("redistest: several servers have no single address")
	}
	return net.JoinHostPort(s.front, strconv.Itoa(s.port))
}

// realAddr returns the address that the server listens on, behind the network of
// the test.
func (s *Server) realAddr() string {
	return net.JoinHostPort(s.host, strconv.Itoa(s.port))
}

// URL returns the URL for clients. It contains the credentials of
// [WithPassword], [WithUser] and [WithTLS].
func (s *Server) URL() string {
	if s.several != nil {
		return s.several.url
	}
	return s.url("redis", "", nil, s)
}

// PID returns the id of the process, or of the last one if the server is
// stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// Stop shuts the server down and waits until it has ended. Stopping a stopped
// server does nothing.
func (s *Server) Stop() {
	s.own()
	s.process().stop()
	s.paused.Store(false)
}

// Kill kills the server and waits until it has ended.
func (s *Server) Kill() {
	s.own()
	s.process().kill()
	s.paused.Store(false)
}

// Pause stops the server: its connections stay open and nothing answers. It
// returns when the process no longer runs.
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

// Running reports whether the process exists and is not paused.
func (s *Server) Running() bool {
	select {
	case <-s.process().done:
		return false
	default:
		return !s.paused.Load()
	}
}

// Restart stops the server if it runs, and starts it again on the same port
// without any data. The server keeps its settings and its master: a server of a
// [Sentinels] group keeps its last role, and a cluster node keeps its id and its
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

// replace ends the process with end and starts another one.
func (s *Server) replace(end func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := end()
	s.paused.Store(false)
	if err == nil {
		err = s.launch()
	}
	if errors.Is(err, errNodes) && dropShards(s.nodesFile()) == nil {
		err = s.launch()
	}
	// A child of the old process, or another process that looks for a free port,
	// may still have the port for a moment.
	if errors.Is(err, errPortTaken) {
		Poll(startTimeout, func() bool {
			err = s.launch()
			return !errors.Is(err, errPortTaken)
		})
	}
	if err != nil {
		s.tb.Fatalf("redistest: cannot restart the server: %v", err)
	}
}

// own panics if the server is shared. Methods that control the process call it.
func (s *Server) own() {
	if s.tb == nil {
		panic("redistest: the shared server must not be stopped, paused or restarted")
	}
}

func (s *Server) process() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// nodesFile is where a cluster node keeps what it knows of the others.
func (s *Server) nodesFile() string { return filepath.Join(s.dir, "nodes.conf") }

// dropShards removes the ids of shards from the file of a cluster node. Valkey 8.1.1 does not
// read the file that it wrote during a failover, if a replica and its master have different
// ones (valkey-io/valkey#2171). A node that has no id takes that of its master.
func dropShards(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, regexp.MustCompile(`,shard-id=\w*`).ReplaceAll(text, nil), 0o600)
}

func (s *Server) dataDir() string  { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string  { return filepath.Join(s.dir, "log") }
func (s *Server) confFile() string { return filepath.Join(s.dir, "conf") }

// option returns the value of the named setting in args, or "" if it is not set.
func option(args []string, name string) (value string) {
	for i, arg := range args {
		if arg == name && i+1 < len(args) {
			value = args[i+1]
		}
	}
	return value
}

package redistest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout is how long a server may take until it serves commands.
const startTimeout = 60 * time.Second

// serverEnv is the environment variable for the path of the server program.
const serverEnv = "HOLDFAST_TEST_SERVER"

var (
	errNotInstalled = errors.New("redistest: no redis-server on PATH, install it with: make deps, or apt-get install redis-server")
	errPortTaken    = errors.New("redistest: port taken")
	errNodes        = errors.New("redistest: the server does not read its cluster file")
	errNoTLS        = errors.New("redistest: the server of " + serverEnv + " was built without TLS")
)

// unknownTLS matches the log of a server that does not know the settings of TLS.
var unknownTLS = regexp.MustCompile(`>>> 'tls-.*\s+Bad directive`)

// giveUp ends a test whose server cannot be started.
func giveUp(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNotInstalled) && testing.Short() || errors.Is(err, errNoTLS) {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// findServer returns the path of the server program.
func findServer() (string, error) {
	if name := os.Getenv(serverEnv); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("redistest: %s: %w", serverEnv, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNotInstalled
}

// sinceSeven reports whether the server program is version 7.0 or later. Older
// ones lack some settings and commands. A program that does not print its
// version counts as new.
var sinceSeven = sync.OnceValue(func() bool {
	bin, err := findServer()
	if err != nil {
		return true // the start reports the error
	}
	out, _ := exec.Command(bin, "--version").Output()
	_, version, _ := strings.Cut(string(out), " v=")
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= 7
})

// HasSharded reports whether the servers have sharded channels (SPUBLISH and
// SSUBSCRIBE), as Redis has from 7.0 on.
func HasSharded() bool { return sinceSeven() }

// PublishCommands returns the commands that publish in a cluster: PUBLISH, and
// SPUBLISH if the servers have it.
func PublishCommands() []string {
	if !HasSharded() {
		return []string{"PUBLISH"}
	}
	return []string{"PUBLISH", "SPUBLISH"}
}

// start starts a server whose files are in dir.
func start(dir string, sp spec) (*Server, error) {
	bin, err := findServer()
	if err != nil {
		return nil, err
	}
	for range 10 {
		s := &Server{spec: sp, bin: bin, dir: dir}
		if s.port, s.claim, err = freePort(sp.host); err != nil {
			return nil, err
		}
		if s.admin.tls, err = sp.tls.config(); err != nil {
			return nil, err
		}
		s.admin.addr, s.admin.login = s.realAddr(), sp.testLogin
		if password := option(sp.args, "--requirepass"); sp.testLogin == nil && password != "" {
			s.admin.login = url.UserPassword("", password)
		}
		if err = s.configure(); err != nil {
			return nil, err
		}
		if err = s.launch(); err == nil {
			return s, nil
		}
		s.claim.Close()
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// freePort returns a free port of host. The port, and the bus port of a cluster
// node, which is 10000 higher, are below the default range for outgoing
// connections. So no outgoing connection occupies the port while its server is
// stopped.
//
// Until the claim is closed, no other test gets the port, even while the server
// is stopped. The claim is the UDP port of the same number, which servers do not
// use.
func freePort(host string) (port int, claim io.Closer, err error) {
	low, high := 20000, 32000
	if host != localhost {
		high = 22700
	}
	for range 100 {
		port = low + rand.IntN(high-low)
		addr := net.JoinHostPort(host, strconv.Itoa(port))
		if claim, err = net.ListenPacket("udp", addr); err != nil {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return port, claim, l.Close()
		}
		claim.Close()
	}
	return 0, nil, fmt.Errorf("redistest: no free port: %w", err)
}

// launch starts the process and returns when it answers. The error includes
// the log of a process that did not come up.
func (s *Server) launch() error {
	if err := os.MkdirAll(s.dataDir(), 0o700); err != nil {
		return err
	}
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.bin, s.confFile())
	if s.sentinel {
		cmd.Args = append(cmd.Args, "--sentinel")
	}
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	proc, err := spawn(cmd)
	if err != nil {
		return err
	}
	if err := s.awaitReady(proc); err != nil {
		proc.kill()
		text, _ := os.ReadFile(s.logFile())
		switch {
		case strings.Contains(string(text), "Address already in use"):
			err = errPortTaken
		case strings.Contains(string(text), "corrupted cluster config file"):
			err = errNodes
		case os.Getenv(serverEnv) != "" && unknownTLS.Match(text):
			err = errNoTLS
		}
		return fmt.Errorf("%w, the log of the server follows\n%s", err, text)
	}
	s.proc = proc
	if len(s.initCommand) > 0 {
		_, err = s.Try(s.initCommand...)
	}
	return err
}

// awaitReady waits until proc serves commands. Another process might have taken
// the port and answer, so awaitReady checks the process id.
func (s *Server) awaitReady(proc *child) error {
	probe := admin{addr: s.admin.addr, login: s.admin.login, tls: s.admin.tls}
	defer probe.close()
	id := fmt.Sprintf("process_id:%d\r\n", proc.pid())
	var err error
	ready := Poll(startTimeout, func() bool {
		select {
		case <-proc.done:
			err = fmt.Errorf("redistest: the server ended during startup: %w", proc.err)
			return true
		default:
		}
		var info any
		info, err = probe.do("INFO", "server")
		if text, _ := info.(string); err == nil && !strings.Contains(text, id) {
			err = errPortTaken
		}
		if err == nil {
			_, err = probe.do("PING") // an error while it loads its data
		}
		return err == nil
	})
	if !ready {
		return fmt.Errorf("redistest: the server does not answer: %w", err)
	}
	return err
}

package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen. Nothing takes as long, also not on a
// busy machine with the race detector.
const patience = 3 * time.Minute

// served returns a server and its address.
func served(tb testing.TB) (*Server, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := New()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	tb.Cleanup(func() {
		_ = l.Close()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return s, l.Addr().String()
}

// A wire is a connection without a client.
type wire struct {
	net.Conn
	tb testing.TB
	in *bufio.Reader
}

func dial(tb testing.TB, addr string) *wire {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &wire{c, tb, bufio.NewReader(c)}
}

// resp returns a command as clients send it.
func resp(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// line returns the first line of the next reply.
func (w *wire) line() string {
	line, err := w.in.ReadString('\n')
	if err != nil {
		w.tb.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

func (w *wire) do(args ...string) string {
	if _, err := io.WriteString(w, resp(args...)); err != nil {
		w.tb.Fatal(err)
	}
	return w.line()
}

// A request of a browser ends the connection before its body runs.
func TestHTTP(t *testing.T) {
	s, addr := served(t)
	log := make(lines, 10)
	s.SetLogger(slog.New(slog.NewTextHandler(log, nil)))
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET hacked 1\r\n",
		"pOsT / HTTP/1.1\r\nX: y\r\n\r\nSET hacked 1\r\n",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\nUser-Agent: x\r\n\r\nSET hacked 1\r\n",
		"PUT / HTTP/1.1\r\nhost: 127.0.0.1:6379\r\n\r\n" + resp("SET", "hacked", "1"),
		resp("POST", "/") + "SET hacked 1\r\n",
		resp("Host:", "x") + "SET hacked 1\r\n",
	} {
		w := dial(t, addr)
		_, _ = io.WriteString(w, request) // the server may have closed the connection
		_, _ = io.ReadAll(w.in)
		if got := dial(t, addr).do("GET", "hacked"); got != "$-1" {
			t.Fatalf("%q stored a value", request)
		}
	}
	if got := <-log; !strings.Contains(got, "possible security attack") || !strings.Contains(got, "client=127.0.0.1:") {
		t.Errorf("the log is %q", got)
	}
	if len(log) > 0 {
		t.Error("more than one message within a minute")
	}
}

// lines receives what a logger writes.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// What breaks the protocol ends the connection, without memory for what is only announced.
func TestProtocol(t *testing.T) {
	_, addr := served(t)
	for sent, want := range map[string]string{
		"*1000000000\r\n":                      "-ERR Protocol error: invalid multibulk length",
		"*99999999999999999999\r\n":            "-ERR Protocol error: invalid multibulk length",
		"*x\r\n":                               "-ERR Protocol error: invalid multibulk length",
		"*1\r\n$1000000000\r\n":                "-ERR Protocol error: invalid bulk length",
		"*2\r\n$1\r\nx\r\n$67108864\r\n":       "-ERR Protocol error: invalid bulk length",
		"*1\r\n$-1\r\n":                        "-ERR Protocol error: invalid bulk length",
		"*1\r\n*1\r\n":                         "-ERR Protocol error: invalid bulk length",
		strings.Repeat("x", 1<<20):             "-ERR Protocol error: too big request",
		"*1\r\n$" + strings.Repeat("1", 1<<20): "-ERR Protocol error: too big request",
		resp(strings.Repeat("x", 1<<20)):       "-ERR unknown command '" + strings.Repeat("x", 128) + "'",
		resp("EVAL", "return redis.error_reply('a\\r\\n+b')", "0"):  "-a  +b",
		resp("EVAL", "return redis.status_reply('a\\r\\n+b')", "0"): "+a  +b",
	} {
		w := dial(t, addr)
		go func() { _, _ = io.WriteString(w, sent) }()
		line, _ := w.in.ReadString('\n')
		if got := strings.TrimSpace(line); got != want {
			t.Errorf("%.40q: %q, want %q", sent, got, want)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := io.WriteString(dial(t, addr), "PING\r\n*1\r\n$60000000\r\nx"); err != nil {
			t.Fatal(err)
		}
	}
	if got := dial(t, addr).do("PING"); got != "+PONG" {
		t.Error(got)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 500<<20 {
		t.Errorf("%d MB allocated for what is only announced", taken>>20)
	}
}

// A subscriber that does not read is closed, and delays no others.
func TestSlowSubscriber(t *testing.T) {
	s, addr := served(t)
	slow, watcher, w := dial(t, addr), dial(t, addr), dial(t, addr)
	if got := slow.do("SUBSCRIBE", "news"); got != "*3" {
		t.Fatal(got)
	}
	if got := watcher.do("MONITOR"); got != "+OK" {
		t.Fatal(got)
	}
	message := strings.Repeat("x", 1<<20)
	for w.do("PUBLISH", "news", message) == ":1" {
	}
	for {
		s.mu.Lock()
		left := len(s.listeners)
		s.mu.Unlock()
		if left == 0 {
			break
		}
		w.do("PUBLISH", "news", message)
	}
	for _, c := range []*wire{slow, watcher} {
		if _, err := io.Copy(io.Discard, c.in); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection of a client that does not read is open")
		}
	}
}

// A key that expires in the far future does not keep the server busy.
func TestFarFuture(t *testing.T) {
	s, addr := served(t)
	if got := dial(t, addr).do("SUBSCRIBE", "__keyspace@0__:x"); got != "*3" {
		t.Fatal(got)
	}
	if got := dial(t, addr).do("SET", "x", "1", "PXAT", "9223372036854775807"); got != "+OK" {
		t.Fatal(got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.due.Stop() {
		t.Error("the server looked for keys that expire at once")
	}
}

// A pause does not outlast the server.
func TestPauseEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, done := New(), make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	w := dial(t, l.Addr().String())
	if got := w.do("CLIENT", "PAUSE", "9223372036854775807"); got != "+OK" {
		t.Fatal(got)
	}
	_, _ = io.WriteString(w, resp("EVAL", "return 1", "0"))
	_ = l.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the server waits for the end of the pause")
	}
}

// A full listener fails once with an error, and then has a connection.
type fullListener struct {
	net.Listener
	failed bool
}

func (l *fullListener) Accept() (net.Conn, error) {
	if !l.failed {
		l.failed = true
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// Too many open connections do not end the server.
func TestTooManyOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- New().Serve(&fullListener{Listener: l}) }()
	if got := dial(t, l.Addr().String()).do("PING"); got != "+PONG" {
		t.Error(got)
	}
	_ = l.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

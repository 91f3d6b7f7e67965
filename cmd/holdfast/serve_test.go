package main_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// serves starts a server with the command and returns its address.
func serves(t *testing.T, env []string, args ...string) (*process, string) {
	t.Helper()
	p := start(t, env, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	url := p.awaitOutput(t, `redis://127\.0\.0\.1:\d+\n`)
	return p, strings.TrimSpace(strings.TrimPrefix(url, "redis://"))
}

func listens(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestServe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode string
		env  []string
		says string
	}{
		{"auto", nil, `^(redis|valkey)-server \d+\.\d+\.\d+ is running.*export HOLDFAST_URL=redis://127`},
		{"auto", []string{"PATH="}, `^embedded server \S+ is running.*This is an embedded server, for trying things out: `},
		{"embedded", nil, `^embedded server .*embedded server`},
		{"real", nil, `^(redis|valkey)-server`},
	} {
		t.Run(tt.mode+strings.Join(tt.env, ""), func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			p, addr := serves(t, append(tt.env, "TMPDIR="+tmp), "--server", tt.mode)
			execute(t, "doctor", "--fail-at", "danger", "--url", "redis://"+addr).want(t, 0, "master", "")
			p.signal(t, os.Interrupt)
			p.wait(t).want(t, 0, `^redis://`+addr+`\n$`, tt.says)
			if listens(addr) {
				t.Error("the server is still there")
			}
			if left, _ := os.ReadDir(tmp); len(left) > 0 {
				t.Error("left behind: ", left)
			}
		})
	}
}

// A request of a web page does nothing, and is reported.
func TestServeHTTP(t *testing.T) {
	t.Parallel()
	p, addr := serves(t, nil, "--server", "embedded")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: "+addr+"\r\n\r\nSET hacked 1\r\n")
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("the reply is %q", got)
	}
	p.signal(t, os.Interrupt)
	p.wait(t).want(t, 0, "^redis://", `level=WARN msg="possible security attack: .*client=127\.0\.0\.1:`)
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	taken := redistest.One(t).Addr()
	for _, tt := range []struct {
		name   string
		env    []string
		args   []string
		status int
		says   string
	}{
		{"a port that is taken", nil, []string{"--addr", taken}, 1, `^holdfast: ` + taken + `: address in use by another program\n.*--url redis://` + taken + `.*--addr 127\.0\.0\.1:0`},
		{"a port that is taken, embedded", nil, []string{"--addr", taken, "--server", "embedded"}, 1, `address in use by another program\n.*--addr`},
		{"all addresses", nil, []string{"--addr", ":0"}, 2, `the server requires no password and must not be reachable from other machines: use 127\.0\.0\.1`},
		{"a public address", nil, []string{"--addr", "0.0.0.0:0"}, 2, `requires no password`},
		{"a name", nil, []string{"--addr", "example.com:0"}, 2, `requires no password`},
		{"no port", nil, []string{"--addr", "127.0.0.1"}, 2, `must be a host and a port, such as`},
		{"no number", nil, []string{"--addr", "127.0.0.1:redis"}, 2, `must be a host and a port, such as`},
		{"a terminal's command", nil, []string{"--addr", "\x1b[2J"}, 2, `--addr is \\x1b\[2J: it must be`},
		{"--url", nil, []string{"--url", "redis://:secret@localhost"}, 2, `serve starts its own server: omit --url and --config`},
		{"no server program", []string{"PATH="}, []string{"--server", "real"}, 1, `no redis-server or valkey-server on the PATH: install one, or use --server embedded`},
		{"another mode", nil, []string{"--server", "fast"}, 2, `it must be auto, embedded or real\nRun holdfast serve --help`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := executeWith(t, tt.env, "", append([]string{"serve"}, tt.args...)...)
			r.want(t, tt.status, "", tt.says)
			if strings.Contains(r.err, "secret") {
				t.Error("it shows a password:", r.err)
			}
		})
	}
}

// child returns the id of a process that the command has started.
func child(t *testing.T, p *process) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("requires /proc")
	}
	found := 0
	eventually(t, "the command has a child", func() bool {
		tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/task/*/children")
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			for _, pid := range strings.Fields(string(text)) {
				found, _ = strconv.Atoi(pid)
			}
		}
		return found != 0
	})
	return found
}

func TestServeServerDies(t *testing.T) {
	t.Parallel()
	p, _ := serves(t, nil, "--server", "real")
	server, err := os.FindProcess(child(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.wait(t).want(t, 1, "^redis://", `holdfast: (redis|valkey)-server \S+ stopped unexpectedly: .*bye bye\.\.\.\nIts locks are lost.*holdfast serve\.\n$`)
}

// TestServeKilled checks that the server ends when the command is killed.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	p, addr := serves(t, []string{"TMPDIR=" + tmp}, "--server", "real")
	child(t, p) // waits for the server process
	p.signal(t, os.Kill)
	<-p.ended
	eventually(t, "the server is gone", func() bool { return !listens(addr) })
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Error("left behind: ", left)
	}
}

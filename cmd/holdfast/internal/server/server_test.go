package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/server"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.RunTests(m)) }

func start(t *testing.T, mode server.Mode) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), mode, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// open connects to the server. The client polls once per minute, so only a message
// can wake a waiter in time. Its timeout is longer than the default of 2 s, which is
// too short for a busy machine.
func open(t *testing.T, s *server.Server) *holdfast.Client {
	t.Helper()
	c, err := holdfast.Open(t.Context(), s.URL+"?timeout=20s", &holdfast.Options{PollInterval: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func address(s *server.Server) string { return strings.TrimPrefix(s.URL, "redis://") }

// both runs a test with both kinds of servers.
func both(t *testing.T, test func(*testing.T, server.Mode)) {
	t.Parallel()
	for _, mode := range []server.Mode{server.Embedded, server.Real} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

func TestServer(t *testing.T) {
	both(t, func(t *testing.T, mode server.Mode) {
		s := start(t, mode)
		facts := open(t, s).Driver().Facts(t.Context())[0]
		name, _, _ := strings.Cut(s.What, " ")
		if s.Embedded != (mode == server.Embedded) || s.Embedded != (name == "embedded") || s.Embedded != server.IsEmbedded(facts.Info) {
			t.Errorf("%+v is embedded: %v", s, server.IsEmbedded(facts.Info))
		}
		if name == s.What || facts.Role != "master" || facts.RunID == "" {
			t.Errorf("what it is: %q, facts %+v", s.What, facts)
		}
		select {
		case <-s.Ended:
			t.Error("the server ended unexpectedly")
		default:
		}
		s.Stop()
		s.Stop()
		<-s.Ended
		if conn, err := net.Dial("tcp", address(s)); err == nil {
			t.Error("the server still listens on ", conn.RemoteAddr())
		}
	})
}

// TestTime checks that keys expire, but not during a script.
func TestTime(t *testing.T) {
	both(t, func(t *testing.T, mode server.Mode) {
		d := open(t, start(t, mode)).Driver()
		do := func(source string) int64 {
			r, err := d.Do(t.Context(), driver.Call{Script: driver.NewScript("test", source), Keys: []string{"key"}})
			if err != nil {
				t.Fatal(err)
			}
			return r.Int
		}
		if n := do(`redis.call('SET', KEYS[1], 1, 'PX', 50000); return redis.call('PTTL', KEYS[1])`); n < 40000 || n > 50000 {
			t.Errorf("the TTL is %d ms, want 50000", n)
		}
		do(`redis.call('SET', KEYS[1], 1, 'PX', 50); return 1`)
		if !redistest.Poll(20*time.Second, func() bool { return do(`return redis.call('EXISTS', KEYS[1])`) == 0 }) {
			t.Fatal("the key does not expire")
		}
		for n := 10_000; ; n *= 2 { // until the script takes longer than the TTL
			began := time.Now()
			if do(fmt.Sprintf(`redis.call('SET', KEYS[1], 1, 'PX', 5)
				for i = 1, %d do local _ = tostring(i) end
				return redis.call('EXISTS', KEYS[1])`, n)) != 1 {
				t.Fatal("the key expired during a script")
			}
			if time.Since(began) > 20*time.Millisecond {
				break
			}
		}
	})
}

// TestStoppedSubscriber subscribes a client that does not read. It must not block
// other clients, and the server must limit its buffer.
func TestStoppedSubscriber(t *testing.T) {
	t.Parallel()
	s := start(t, server.Embedded)
	dial := func() (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", address(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		return conn, bufio.NewReader(conn)
	}
	stopped, unread := dial()
	fmt.Fprint(stopped, "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nnews\r\n")
	if _, err := unread.Peek(1); err != nil {
		t.Fatal(err)
	}
	publisher, replies := dial()
	const size, most = 16 << 10, 4096
	message := fmt.Sprintf("*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	heard := 0
	for ; heard < most; heard++ {
		if _, err := io.WriteString(publisher, message); err != nil {
			t.Fatal(err)
		}
		n, err := replies.ReadString('\n')
		if err != nil {
			t.Fatalf("the server blocks after %d messages: %v", heard, err)
		}
		if n == ":0\r\n" {
			break
		}
	}
	if heard*size < 10<<20 || heard == most {
		t.Errorf("the client was disconnected after %d messages, want after about 16 MB", heard)
	}
	if _, err := io.Copy(io.Discard, unread); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection of the client is still open")
	}
}

func TestTaken(t *testing.T) {
	both(t, func(t *testing.T, mode server.Mode) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := server.Start(t.Context(), mode, l.Addr().String()); !errors.Is(err, server.ErrTaken) {
			t.Errorf("%v, want ErrTaken", err)
		}
	})
}

// TestStranger checks that another server on the port is not taken for the child.
func TestStranger(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := server.Answers(ctx, exec.Command("sleep", "60"), redistest.One(t).Addr()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want a timeout: another server was taken for the child", err)
	}
}

// TestPrograms starts programs on the PATH that are not working servers.
func TestPrograms(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	for _, tt := range []struct {
		name, text string
		mode       server.Mode
		cancel     bool // cancel the context when the program runs
		want       string
	}{
		{"none", "", server.Real, false, `^no redis-server or valkey-server on the PATH: install one, or use --server embedded$`},
		{"none, any will do", "", server.Auto, false, `^$`},
		{"that fails", "echo first\necho out of memory >&2\nexit 1", server.Auto, false, `redis-server: it exited immediately: out of memory`},
		{"that is mute", "echo > " + ready + "\nexec sleep 60", server.Real, true, `redis-server: no answer on 127.0.0.1:.*: context canceled`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			if tt.text != "" {
				sleep, err := exec.LookPath("sleep")
				if err != nil {
					t.Fatal(err)
				}
				text := "#!/bin/sh\n" + strings.ReplaceAll(tt.text, "sleep", sleep) + "\n"
				if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancel {
				go func() {
					redistest.Poll(time.Minute, func() bool { _, err := os.Stat(ready); return err == nil })
					cancel()
				}()
			}
			s, err := server.Start(ctx, tt.mode, "127.0.0.1:0")
			if err == nil {
				s.Stop()
				err = errors.New("")
			}
			if !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if tt.cancel && !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want the error of the context", err)
			}
			if left, _ := os.ReadDir(tmp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := server.Start(ctx, server.Embedded, "127.0.0.1:0"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want an error because the context is done", err)
	}
}

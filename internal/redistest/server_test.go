package redistest_test

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestServerCommands(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t, "--maxmemory", "64mb")
	if got := s.Do(t, "SET", "k", "v"); got != "OK" {
		t.Errorf("SET: %v", got)
	}
	if got := s.Do(t, "GET", "none"); got != nil {
		t.Errorf("GET of no key: %v", got)
	}
	if got := s.Int(t, "INCR", "n"); got != 1 {
		t.Errorf("INCR: %d", got)
	}
	if got := s.Int(t, "GET", "n"); got != 1 {
		t.Errorf("GET: %d", got)
	}
	if got := s.Strings(t, "MGET", "k", "none"); !slices.Equal(got, []string{"v", ""}) {
		t.Errorf("MGET: %q", got)
	}
	if got := s.Strings(t, "CONFIG", "GET", "maxmemory"); got[1] != "67108864" {
		t.Errorf("CONFIG GET: %q", got)
	}
	if _, err := s.Try("INCR", "k"); err == nil || !strings.HasPrefix(err.Error(), "ERR value is not an integer") {
		t.Errorf("INCR of a string: %v", err)
	}
	for range 3000 {
		s.Do(t, "SET", key(t), "")
	}
	if got := s.Keys(t); len(got) != 3002 || !slices.IsSorted(got) {
		t.Errorf("%d keys, want 3002, sorted", len(got))
	}
	if want := "redis://" + s.Addr(); s.URL() != want {
		t.Errorf("URL %q, want %q", s.URL(), want)
	}
}

func TestServerChannels(t *testing.T) {
	s := redistest.Start(t)
	c := dial(t, s.Addr())
	for _, name := range []string{"b", "a"} {
		c.send("SUBSCRIBE", name)
		c.read(replyTimeout)
	}
	if got := s.Channels(t); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("channels %q", got)
	}
}

func TestServerAdminReconnects(t *testing.T) {
	s := redistest.Start(t)
	id := s.Do(t, "CLIENT", "ID").(int64)
	c := dial(t, s.Addr())
	c.call(int64(1), "CLIENT", "KILL", "ID", strconv.FormatInt(id, 10))
	if got := s.Do(t, "CLIENT", "ID").(int64); got == id {
		t.Error("the connection was not replaced")
	}
}

func TestServerPassword(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	s.Do(t, "PING")
	c := dial(t, s.Addr())
	c.call("NOAUTH Authentication required.", "PING")
}

func TestServerStopAndRestart(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "k", "v")
	c := dial(t, s.Addr())
	c.call("PONG", "PING")
	first := s.PID()

	s.Stop()
	s.Stop()
	c.wantEnd()
	if _, err := s.Try("PING"); err == nil {
		t.Error("a stopped server answers")
	}
	s.Restart()
	if s.PID() == first {
		t.Error("no new process")
	}
	if got := s.Keys(t); len(got) != 0 {
		t.Errorf("keys %q after Restart", got)
	}

	s.Do(t, "SET", "k", "v")
	s.Restart() // while it runs
	if got := s.Keys(t); len(got) != 0 {
		t.Errorf("keys %q after Restart", got)
	}

	s.Kill()
	s.Kill()
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Error("a killed server accepts connections")
	}
	s.Restart()
	s.Do(t, "PING")
}

func TestServerRestartWithData(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes")
	for range 100 {
		s.Do(t, "SET", key(t), "v")
	}
	s.RestartWithData()
	if got := s.Keys(t); len(got) != 100 {
		t.Errorf("%d keys, want 100", len(got))
	}
	s.Restart()
	if got := s.Keys(t); len(got) != 0 {
		t.Errorf("keys %q after Restart", got)
	}
}

func TestServerPause(t *testing.T) {
	s := redistest.Start(t)
	c := dial(t, s.Addr())
	c.call("PONG", "PING")
	for range 2 {
		s.Pause()
		c.send("PING")
		c.wantSilence()
		s.Resume()
		c.want("PONG")
	}
	s.Pause()
	s.Stop() // must not wait for the process to wake up
}

func TestSharedServer(t *testing.T) {
	s := redistest.Shared(t)
	if redistest.Shared(t) != s {
		t.Error("two shared servers")
	}
	s.Do(t, "PING")
	for name, f := range map[string]func(){
		"Stop": s.Stop, "Kill": s.Kill, "Pause": s.Pause, "Resume": s.Resume,
		"Restart": s.Restart, "RestartWithData": s.RestartWithData,
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestServersInParallel(t *testing.T) {
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "SET", "k", "v")
			if got := s.Int(t, "DBSIZE"); got != 1 {
				t.Errorf("%d keys, want 1", got)
			}
		})
	}
}

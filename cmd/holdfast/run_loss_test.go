//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestRunLost loses the lock in several ways. A program that ignores SIGTERM must be
// dead before the next waiter gets the lock. The leases leave 3 s between two steps,
// because 1 s is too short for a busy machine.
func TestRunLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		flags  []string
		fault  func(*testing.T, *redistest.Proxy, *process)
		status int
		told   bool // the program gets SIGTERM
		err    string
	}{
		{"no server", []string{"--watchdog", "12s", "--grace", "3s"}, func(_ *testing.T, link *redistest.Proxy, _ *process) {
			link.Refuse(true)
			link.Cut()
		}, 121, true, "not renewed in time.*(lost: expired|could not be kept); the program was stopped"},
		{"no answers", []string{"--watchdog", "12s", "--grace", "3s", "--fair"}, func(_ *testing.T, link *redistest.Proxy, _ *process) {
			link.FreezeReplies()
		}, 121, true, "not renewed in time.*(lost: expired|could not be kept); the program was stopped"},
		{"no grace", []string{"--watchdog", "12s", "--grace", "0"}, func(_ *testing.T, link *redistest.Proxy, _ *process) {
			link.Freeze()
		}, 121, false, "(lost: expired|could not be kept); the program was stopped"},
		{"lease over", []string{"--lease", "12s", "--grace", "3s"}, func(*testing.T, *redistest.Proxy, *process) {}, 121, true, "nearly over.*could not be kept; the program was stopped"},
		{"killed", []string{"--watchdog", "8s", "--grace", "0"}, func(t *testing.T, _ *redistest.Proxy, p *process) {
			p.signal(t, os.Kill)
		}, -1, false, ""},
		{"stopped", []string{"--watchdog", "8s", "--grace", "0"}, func(t *testing.T, _ *redistest.Proxy, p *process) {
			p.signal(t, syscall.SIGSTOP)
		}, -1, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, rt := redistest.One(t), newRunTest(t)
			link := redistest.NewProxy(t, s.Addr())
			p := rt.start(t, link.URL(), c.flags...)
			pid := runPID(t, p)
			next := rt.wait(t, s.URL(), 50*time.Millisecond)
			c.fault(t, link, p)
			r := p.wait(t)
			r.want(t, c.status, "*", c.err)
			if told := strings.Contains(r.out, "got terminated."); told != c.told {
				t.Errorf("the program got SIGTERM: %v, want %v", told, c.told)
			}
			next.wait(t).want(t, 7, "running", "")
			eventually(t, "the program is dead", func() bool { return runDead(pid) })
			if owners := rt.exclusive(t); len(owners) != 2 {
				t.Errorf("%d programs have run", len(owners))
			}
		})
	}
}

// TestRunServerDies kills the server for longer than a lease and restarts it with its
// data.
func TestRunServerDies(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Start(t, "--appendonly", "yes"), newRunTest(t)
	p := rt.start(t, s.URL(), "--watchdog", "12s", "--grace", "3s") // as in TestRunLost
	s.Kill()
	r := p.wait(t)
	r.want(t, 121, "got terminated", "(lost: expired|could not be kept); the program was stopped")
	s.RestartWithData()
	execute(t, "run", "--url", s.URL(), rt.name, "--wait", "20s", "--", "true").want(t, 0, "", "")
}

// TestRunForced breaks the lock. Another owner may hold it, so the program and its
// descendants must stop at once.
func TestRunForced(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := start(t, []string{runProgram + "=" + rt.file}, "run", "--url", s.URL(), rt.name, "--watchdog", "12s",
		"--", "sh", "-c", os.Args[0]+" 1m 0 & wait")
	pid := runPID(t, p)
	s.Do(t, "DEL", rt.name)
	dead := rt.awaitExit(t, pid)
	r := p.wait(t)
	r.want(t, 121, "*", "held by another owner or was deleted.*lost: not owner; the program was stopped")
	rt.wantTerminated(t, r, dead)
}

// TestRunForcedGroups checks descendants in another process group, such as those of
// timeout(1).
func TestRunForcedGroups(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := start(t, []string{runProgram + "=" + rt.file}, "run", "--url", s.URL(), rt.name, "--watchdog", "12s",
		"--", "sh", "-c", "timeout 1m "+os.Args[0]+" 1m 0; echo more")
	pid := runPID(t, p)
	s.Do(t, "DEL", rt.name)
	dead := rt.awaitExit(t, pid)
	r := p.wait(t)
	r.want(t, 121, "*", "lost: not owner; the program was stopped")
	rt.wantTerminated(t, r, dead)
}

// TestRunForcedUnread checks that the program is stopped even if standard error is
// full and not read.
func TestRunForcedUnread(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	unread, full, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := full.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Write(func(fd uintptr) bool {
		for err = nil; err == nil; {
			_, err = syscall.Write(int(fd), make([]byte, 1<<10)) // until the pipe is full
		}
		return true
	})
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.Command(binary, "run", "--url", s.URL(), rt.name, "--watchdog", "12s", "--", "sh", "-c", os.Args[0]+" 1m 0 & wait")
	p.cmd.Env = environment(runProgram + "=" + rt.file)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, full
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.run(t)
	_ = full.Close()
	pid := runPID(t, p)
	s.Do(t, "DEL", rt.name)
	dead := rt.awaitExit(t, pid)
	_ = unread.Close()
	r := p.wait(t)
	r.want(t, 121, "*", "")
	rt.wantTerminated(t, r, dead)
}

// TestRunStopsLate checks that the descendants of a program that stops slowly after
// SIGTERM do not get more time than the lease.
func TestRunStopsLate(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := start(t, []string{runProgram + "=" + rt.file}, "run", "--url", s.URL(), rt.name, "--lease", "16s", "--grace", "4s",
		"--", "sh", "-c", "trap 'sleep 3.5; exit' TERM; "+os.Args[0]+" 1m 0 & wait")
	pid := runPID(t, p)
	p.awaitOutput(t, "got terminated")
	told := redistest.Now()
	rt.awaitExit(t, pid)
	// With another 4 s after the end of the program, it would be 7.5 s.
	if took := time.Duration(rt.lastAlive(t) - told); took > 7*time.Second {
		t.Errorf("killed %v after SIGTERM, want 4s", took)
	}
	// The program ends shortly before the lease does, or after it if the machine is busy.
	p.wait(t).want(t, 121, "got terminated", "(could not be kept|lost: expired); the program was stopped")
}

// TestRunForcedAtTheEnd checks that a loss is reported even if the program ends by
// itself after it.
func TestRunForcedAtTheEnd(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	for _, flags := range [][]string{{"--lease", "1m"}, {"--watchdog", "1m"}} { // neither checks the lock before the end
		p := rt.start(t, s.URL(), flags...)
		s.Do(t, "DEL", rt.name)
		p.in.Close()
		p.wait(t).want(t, 121, "*", "lost: not owner; the program finished")
	}
}

// TestRunRecovers checks that a program is not killed if renewals succeed again after
// SIGTERM. The exit status still reports the loss, because the program got SIGTERM.
func TestRunRecovers(t *testing.T) {
	t.Parallel()
	s, rt := redistest.One(t), newRunTest(t)
	link := redistest.NewProxy(t, s.Addr())
	p := rt.start(t, link.URL(), "--watchdog", "20s", "--grace", "5s")
	link.Refuse(true)
	link.Cut()
	p.awaitOutput(t, `got terminated\.`)
	link.Refuse(false)
	eventually(t, "the lock is renewed", func() bool { return s.Int(t, "PTTL", rt.name) > 12_500 })
	p.in.Close()
	p.wait(t).want(t, 121, "*", "could not be kept; the program was stopped")
	if s.Int(t, "EXISTS", rt.name) != 0 {
		t.Error("the lock was not released")
	}
}

// TestRunServerGoneAtTheEnd checks that the status of a program is passed on if the
// lock cannot be released because the server is down.
func TestRunServerGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Start(t), newRunTest(t)
	p := rt.start(t, s.URL())
	s.Kill()
	p.in.Close()
	p.wait(t).want(t, 7, "*", "could not be released; it expires")
}

// TestRunShortPause checks that a pause shorter than the lease has no effect.
func TestRunShortPause(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := rt.start(t, s.URL())
	p.signal(t, syscall.SIGSTOP)
	eventually(t, "the command is stopped", func() bool { return runState(p.cmd.Process.Pid) == "T" })
	p.signal(t, syscall.SIGCONT)
	p.in.Close()
	p.wait(t).want(t, 7, "*", "")
}

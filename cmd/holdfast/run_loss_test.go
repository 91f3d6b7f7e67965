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

// However the lock is lost, a program that ignores SIGTERM is dead before
// another one has the lock, which waits for it all the time. The leases leave 3 s
// from one step to the next, since a busy machine may sleep through one of 1 s.
func TestRunLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		flags  []string
		fault  func(*testing.T, *redistest.Proxy, *process)
		status int
		told   bool // to stop
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
			s, scene := redistest.One(t), newRunScene(t)
			link := redistest.NewProxy(t, s.Addr())
			p := scene.start(t, link.URL(), c.flags...)
			pid := runPID(t, p)
			next := scene.wait(t, s.URL(), 50*time.Millisecond)
			c.fault(t, link, p)
			r := p.wait(t)
			r.want(t, c.status, "*", c.err)
			if told := strings.Contains(r.out, "got terminated."); told != c.told {
				t.Errorf("the program was told: %v", told)
			}
			next.wait(t).want(t, 7, "running", "")
			eventually(t, "the program is dead", func() bool { return runDead(pid) })
			if owners := scene.exclusive(t); len(owners) != 2 {
				t.Errorf("%d programs have run", len(owners))
			}
		})
	}
}

// A server that is gone for longer than a lease, and comes back with its data.
func TestRunServerDies(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Start(t, "--appendonly", "yes"), newRunScene(t)
	p := scene.start(t, s.URL(), "--watchdog", "12s", "--grace", "3s") // as in TestRunLost
	s.Kill()
	r := p.wait(t)
	r.want(t, 121, "got terminated", "(lost: expired|could not be kept); the program was stopped")
	s.RestartWithData()
	hold(t, "run", "--url", s.URL(), scene.name, "--wait", "20s", "--", "true").want(t, 0, "", "")
}

// A lock that was freed by force may be somebody else's: the program must stop
// at once, and so must what it has started.
func TestRunForced(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	p := start(t, []string{runProgram + "=" + scene.file}, "run", "--url", s.URL(), scene.name, "--watchdog", "12s",
		"--", "sh", "-c", os.Args[0]+" 1m 0 & wait")
	pid := runPID(t, p)
	s.Do(t, "DEL", scene.name)
	dead := scene.dies(t, pid)
	r := p.wait(t)
	r.want(t, 121, "*", "held by another owner or was deleted.*lost: not owner; the program was stopped")
	scene.told(t, r, dead)
}

// Some programs put what they start into a group of its own, such as timeout(1).
// That must stop as well.
func TestRunForcedGroups(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	p := start(t, []string{runProgram + "=" + scene.file}, "run", "--url", s.URL(), scene.name, "--watchdog", "12s",
		"--", "sh", "-c", "timeout 1m "+os.Args[0]+" 1m 0; echo more")
	pid := runPID(t, p)
	s.Do(t, "DEL", scene.name)
	dead := scene.dies(t, pid)
	r := p.wait(t)
	r.want(t, 121, "*", "lost: not owner; the program was stopped")
	scene.told(t, r, dead)
}

// Nobody has to read what is said about it.
func TestRunForcedUnread(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	unread, full, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = full.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = full.Write(make([]byte, 1<<20))
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.Command(binary, "run", "--url", s.URL(), scene.name, "--watchdog", "12s", "--", "sh", "-c", os.Args[0]+" 1m 0 & wait")
	p.cmd.Env = environment(runProgram + "=" + scene.file)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, full
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.run(t)
	_ = full.Close()
	pid := runPID(t, p)
	s.Do(t, "DEL", scene.name)
	dead := scene.dies(t, pid)
	_ = unread.Close()
	r := p.wait(t)
	r.want(t, 121, "*", "")
	scene.told(t, r, dead)
}

// A program that stops when it is told, but not at once, leaves what it has
// started no more time than the lease has.
func TestRunStopsLate(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	p := start(t, []string{runProgram + "=" + scene.file}, "run", "--url", s.URL(), scene.name, "--lease", "16s", "--grace", "4s",
		"--", "sh", "-c", "trap 'sleep 3.5; exit' TERM; "+os.Args[0]+" 1m 0 & wait")
	pid := runPID(t, p)
	p.shows(t, "got terminated")
	told := redistest.Now()
	scene.dies(t, pid)
	// With 4 s more from when the program has ended, it would be 7.5 s.
	if took := time.Duration(scene.lastSign(t) - told); took > 7*time.Second {
		t.Errorf("it was killed %v after it was told to stop, not 4s", took)
	}
	p.wait(t).want(t, 121, "got terminated", "could not be kept; the program was stopped")
}

// A program that ends by itself after the lock was lost has not had it.
func TestRunForcedAtTheEnd(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	for _, flags := range [][]string{{"--lease", "1m"}, {"--watchdog", "1m"}} { // neither looks before the end
		p := scene.start(t, s.URL(), flags...)
		s.Do(t, "DEL", scene.name)
		p.in.Close()
		p.wait(t).want(t, 121, "*", "lost: not owner; the program finished")
	}
}

// What comes back in time saves the program, but not what it has done: it was
// told to stop.
func TestRunRecovers(t *testing.T) {
	t.Parallel()
	s, scene := redistest.One(t), newRunScene(t)
	link := redistest.NewProxy(t, s.Addr())
	p := scene.start(t, link.URL(), "--watchdog", "20s", "--grace", "5s")
	link.Refuse(true)
	link.Cut()
	p.shows(t, `got terminated\.`)
	link.Refuse(false)
	eventually(t, "the lock is renewed", func() bool { return s.Int(t, "PTTL", scene.name) > 12_500 })
	p.in.Close()
	p.wait(t).want(t, 121, "*", "could not be kept; the program was stopped")
	if s.Int(t, "EXISTS", scene.name) != 0 {
		t.Error("the lock was not given back")
	}
}

// A program that is done while the server is gone has done its work.
func TestRunServerGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Start(t), newRunScene(t)
	p := scene.start(t, s.URL())
	s.Kill()
	p.in.Close()
	p.wait(t).want(t, 7, "*", "could not be released; it expires")
}

// A pause that is shorter than the lease harms nobody.
func TestRunShortPause(t *testing.T) {
	t.Parallel()
	s, scene := redistest.Shared(t), newRunScene(t)
	p := scene.start(t, s.URL())
	p.signal(t, syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond)
	p.signal(t, syscall.SIGCONT)
	p.in.Close()
	p.wait(t).want(t, 7, "*", "")
}

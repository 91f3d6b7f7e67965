//go:build unix

package main_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestRun(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for _, c := range []struct {
		name, input string
		args        []string
		status      int
		out, err    string
	}{
		{"ok", "", []string{"--", "true"}, 0, "", ""},
		{"status", "", []string{"--", "sh", "-c", "exit 7"}, 7, "", ""},
		{"killed", "", []string{"--", "sh", "-c", "kill -KILL $$"}, 128 + 9, "", ""},
		{"streams", "some input", []string{"--", "sh", "-c", "cat; echo told >&2"}, 0, "^some input$", "^told\n$"},
		{"arguments", "", []string{"--", "printf", "%s.", "--wait", "a b", "", "--"}, 0, `^--wait\.a b\.\.--\.$`, ""},
		{"environment", "", []string{"--", "sh", "-c", "echo $HOLDFAST_LOCK $HOLDFAST_OWNER $HOLDFAST_TOKEN"}, 0, `^TestRun/environment [0-9a-f-]{36}:\d+ [1-9]\d+\n$`, ""},
		{"fenced", "", []string{"--fenced", "--", "sh", "-c", "echo $HOLDFAST_TOKEN"}, 0, "^1\n$", ""},
		{"fair", "", []string{"--fair", "--wait", "1m", "--", "sh", "-c", "exit 7"}, 7, "", ""},
		{"fixed", "", []string{"--lease", "1m", "--", "sh", "-c", "exit 7"}, 7, "", ""},
		{"watchdog", "", []string{"--watchdog", "8s", "--grace", "0", "--", "sleep", "9"}, 0, "", ""}, // a renewal may be 3 s waitLimit
		{"not a program", "", []string{"--", "sh", "-c", "./none"}, 127, "", "not found"},
		{"nohup", "", []string{"--", "sh", "-c", "trap '' HUP; exec " + binary + " run --url " + s.URL() + ` nohup -- sh -c 'kill -HUP $$; echo alive'`}, 0, "^alive\n$", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			executeWith(t, nil, c.input, append([]string{"run", "--url", s.URL(), t.Name()}, c.args...)...).want(t, c.status, c.out, c.err)
			if s.Int(t, "EXISTS", t.Name()) != 0 {
				t.Error("the lock was not released")
			}
		})
	}
}

// With --at-least the lock outlives the program, and no other host runs it meanwhile.
func TestRunAtLeast(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	run := func(more ...string) result {
		return execute(t, append([]string{"run", "--url", s.URL(), t.Name(), "--wait", "0", "--at-least", "1m"}, more...)...)
	}
	run("--", "sh", "-c", "exit 7").want(t, 7, "", "")
	if ttl := s.Int(t, "PTTL", t.Name()); ttl < 30_000 || ttl > 60_000 {
		t.Errorf("the lock stays for %d ms", ttl)
	}
	run("--", "true").want(t, 120, "", "held by another owner")
	s.Do(t, "DEL", t.Name())
	run("--watchdog", "2s", "--", "sleep", "3").want(t, 0, "", "")
	if ttl := s.Int(t, "PTTL", t.Name()); ttl < 30_000 || ttl > 58_000 {
		t.Errorf("the lock stays for %d ms after three seconds", ttl)
	}
}

func TestRunMisused(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	dir := t.TempDir()
	plain := dir + "/plain"
	if err := os.WriteFile(plain, []byte("\x00\x01"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := dir + "/broken"
	if err := os.WriteFile(broken, []byte("\x00\x01"), 0o700); err != nil {
		t.Fatal(err)
	}
	touched := dir + "/touched"
	for _, c := range []struct {
		args   []string
		status int
		err    string
	}{
		{[]string{}, 2, "holdfast run nightly -- "},
		{[]string{"x"}, 2, "holdfast run nightly -- "},
		{[]string{"x", "--"}, 2, "holdfast run nightly -- "},
		{[]string{"x", "touch", touched}, 2, "holdfast run nightly -- "},
		{[]string{"--", "x", "touch", touched}, 2, "holdfast run nightly -- "},
		{[]string{"x", "y", "--", "touch", touched}, 2, "holdfast run nightly -- "},
		{[]string{"x", "ls", "-l"}, 2, "after --"},
		{[]string{"x", "--at-least", "-1s", "--", "touch", touched}, 2, "--at-least"},
		{[]string{"x", "--wait", "soon", "--", "touch", touched}, 2, "--wait"},
		{[]string{"x", "--wait", "-1s", "--", "touch", touched}, 2, "--wait"},
		{[]string{"x", "--lease", "10ms", "--", "touch", touched}, 2, "at least 1s"},
		{[]string{"x", "--lease", "0", "--", "touch", touched}, 2, "at least 1s"},
		{[]string{"x", "--lease", "10s", "--watchdog", "10s", "--", "touch", touched}, 2, "--watchdog"},
		{[]string{"x", "--lease", "10s", "--grace", "3s", "--", "touch", touched}, 2, "--grace is 3s"},
		{[]string{"x", "--grace", "8s", "--", "touch", touched}, 2, "--grace is 8s"},
		{[]string{"x", "--fair", "--fenced", "--", "touch", touched}, 2, "--fenced"},
		{[]string{"", "--", "touch", touched}, 2, "name is empty"},
		{[]string{"a\x1b[31m\nb", "--", "touch", touched}, 2, "control character"},
		{[]string{"a\u202eb\xff", "--", "touch", touched}, 2, "UTF-8"},
		{[]string{strings.Repeat("x", 100_000), "--", "touch", touched}, 2, "512"},
		{[]string{"x", "--", "nonesuch\x1b[31m"}, 127, `cannot run nonesuch\\x1b`},
		{[]string{"x", "--", dir + "/nonesuch"}, 127, "cannot run"},
		{[]string{"x", "--", plain}, 126, "permission denied"},
		{[]string{"x", "--", dir}, 126, "directory"},
		{[]string{"x", "--", broken}, 126, "exec format error"},
	} {
		r := execute(t, append([]string{"run", "--url", s.URL()}, c.args...)...)
		r.want(t, c.status, "", c.err)
		if len(r.err) > 1000 || strings.ContainsAny(r.err, "\x1b\u202e") {
			t.Errorf("%.40q: the output is too long or contains escape sequences:\n%.2000q", c.args, r.err)
		}
	}
	if _, err := os.Stat(touched); err == nil {
		t.Error("a program was run despite wrong arguments")
	}
	if s.Int(t, "EXISTS", "x") != 0 {
		t.Error("the lock was not released")
	}
}

func TestRunUnreachable(t *testing.T) {
	t.Parallel()
	locked := redistest.StartWith(t, redistest.WithPassword("right"))
	for _, c := range []struct{ url, err string }{
		{"redis://someone:geheim@127.0.0.1:1", "unavailable.*--url"},
		{"redis://:geheim@" + locked.Addr(), "Set a user and a password"},
	} {
		for _, env := range []bool{false, true} {
			args, vars := []string{"run", "--url", c.url}, []string(nil)
			if env {
				args, vars = []string{"run"}, []string{"HOLDFAST_URL=" + c.url}
			}
			r := executeWith(t, vars, "", append(args, "x", "--verbose", "--", "true")...)
			r.want(t, 122, "", c.err)
			if strings.Contains(r.err, "geheim") {
				t.Errorf("the password was shown: %s", r.err)
			}
		}
	}
	// A program that cannot be run is reported before the server is contacted.
	execute(t, "run", "--url", "redis://127.0.0.1:1", "x", "--", "nonesuch").want(t, 127, "", "nonesuch")
}

// TestRunContenders checks that several commands with one lock run one after the
// other.
func TestRunContenders(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	var all []*process
	for range 4 {
		all = append(all, rt.wait(t, s.URL(), 100*time.Millisecond))
	}
	for _, p := range all {
		p.wait(t).want(t, 7, "running", "")
	}
	if owners := rt.exclusive(t); len(owners) != len(all) {
		t.Errorf("%d programs have run", len(owners))
	}
}

func TestRunWait(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	holder := rt.start(t, s.URL())
	for _, kind := range []string{"--fair=false", "--fair", "--fenced"} {
		for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
			began := time.Now()
			execute(t, "run", "--url", s.URL(), rt.name, kind, "--wait", wait.String(), "--", "true").want(t, 120, "", "held by another owner")
			if took := time.Since(began); took < wait || took > wait+waitLimit {
				t.Errorf("--wait %v took %v", wait, took)
			}
		}
	}
	holder.in.Close()
	holder.wait(t).want(t, 7, "*", "")
}

func TestRunFair(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	holder := rt.start(t, s.URL(), "--fair")
	var all []*process
	for i := range int64(3) {
		all = append(all, rt.wait(t, s.URL(), 10*time.Millisecond, "--fair"))
		eventually(t, "the command is in the queue", func() bool {
			return s.Int(t, "LLEN", "redisson_lock_queue:{"+rt.name+"}") == i+1
		})
	}
	queue := s.Strings(t, "LRANGE", "redisson_lock_queue:{"+rt.name+"}", "0", "-1")
	holder.in.Close()
	for _, p := range all {
		p.wait(t).want(t, 7, "*", "")
	}
	if owners := rt.exclusive(t); len(owners) != 4 || strings.Join(owners[1:], " ") != strings.Join(queue, " ") {
		t.Errorf("order of execution %q, order in the queue %q", owners[1:], queue)
	}
}

// TestRunSignals checks that each signal reaches the program once, and that holdfast
// does not end on it.
func TestRunSignals(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	p := rt.start(t, s.URL())
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	for _, sig := range signals {
		p.signal(t, sig)
		p.awaitOutput(t, "got "+sig.String()+`\.`)
	}
	p.in.Close()
	r := p.wait(t)
	r.want(t, 7, "*", "")
	if n := strings.Count(r.out, "got "); n != len(signals) {
		t.Errorf("the program got %d signals, want %d:\n%s", n, len(signals), r.out)
	}
}

// TestRunSignalWhileWaiting checks that a signal ends the wait and that the command
// leaves the queue.
func TestRunSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	s, rt := redistest.Shared(t), newRunTest(t)
	holder := rt.start(t, s.URL(), "--fair")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := rt.wait(t, s.URL(), 0, "--fair")
		eventually(t, "the command is in the queue", func() bool {
			return s.Int(t, "LLEN", "redisson_lock_queue:{"+rt.name+"}") == 1
		})
		p.signal(t, sig)
		p.wait(t).want(t, 128+int(sig), "", "")
		eventually(t, "the queue is empty", func() bool { // a busy server may process it later
			return s.Int(t, "LLEN", "redisson_lock_queue:{"+rt.name+"}") == 0
		})
	}
	holder.in.Close()
	holder.wait(t).want(t, 7, "*", "")
	if owners := rt.exclusive(t); len(owners) != 1 {
		t.Errorf("%d programs have run", len(owners))
	}
}

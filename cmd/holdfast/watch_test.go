package main_test

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	xterm "golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/vt"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// screen returns the screen of the terminal.
func (p *process) screen(columns, rows int) *vt.Screen {
	s := vt.New(columns, rows)
	_, _ = s.Write([]byte(p.out.String()))
	return s
}

// awaitScreen waits until the screen matches the pattern.
func awaitScreen(tb testing.TB, p *process, columns, rows int, pattern string) *vt.Screen {
	tb.Helper()
	re := regexp.MustCompile("(?s)" + pattern)
	var s *vt.Screen
	shown := redistest.Poll(waitLimit, func() bool {
		s = p.screen(columns, rows)
		return s.Alternate && re.MatchString(s.Text())
	})
	if !shown {
		tb.Fatalf("no %q on the screen:\n%s", pattern, s.Text())
	}
	return s
}

// watchState returns the mode of a terminal.
func watchState(tb testing.TB, f io.Writer) *xterm.State {
	tb.Helper()
	state, err := xterm.GetState(int(f.(*os.File).Fd()))
	if err != nil {
		tb.Fatal(err)
	}
	return state
}

// wantCleanEnd checks that the command exits with status 0 and restores the terminal.
func wantCleanEnd(tb testing.TB, p *process, before *xterm.State) {
	tb.Helper()
	p.wait(tb).want(tb, 0, "*", "")
	s := p.screen(80, 24)
	if s.Alternate || s.Hidden || s.NoWrap || !strings.HasSuffix(p.out.String(), "\x1b[?1049l") {
		tb.Errorf("the terminal is not restored: alternate screen %v, hidden cursor %v, no wrapping %v", s.Alternate, s.Hidden, s.NoWrap)
	}
	if text := strings.TrimSpace(s.Text()); text != "" {
		tb.Errorf("text left on the screen:\n%s", text)
	}
	if after := watchState(tb, p.in); !reflect.DeepEqual(after, before) {
		tb.Errorf("the terminal is in mode %+v, want %+v", after, before)
	}
}

func watchStart(tb testing.TB, columns, rows uint16, args ...string) (*process, *xterm.State) {
	tb.Helper()
	master, tty, err := pty.Open() // all terminals start in the same mode
	if err != nil {
		tb.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	return startTerminal(tb, columns, rows, nil, append([]string{"watch", "--every", "100ms"}, args...)...), watchState(tb, master)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	p, before := watchStart(t, 100, 12, "--url", s.URL())
	awaitScreen(t, p, 100, 12, `^holdfast watch  `+regexp.QuoteMeta(s.Addr())+`  \d\d:\d\d:\d\d  0 locks, 0 holders, 0 waiting\nPress q to quit\.\n\nNo locks are held\.\n`)
	if v := p.screen(100, 12); !v.Hidden || !v.NoWrap {
		t.Error("the cursor is visible or lines wrap")
	}

	orders := lsHold(t, client.Mutex("orders"))
	awaitScreen(t, p, 100, 12, `1 lock, 1 holder, 0 waiting.*\nNAME .*\norders +mutex +`+orders.Owner()+` +\d\d\.\ds\n`)
	if !strings.Contains(p.out.String(), "\x1b[32morders\x1b[0m") {
		t.Error("a new lock is not highlighted")
	}
	eventually(t, "a lock that expires soon is yellow", func() bool {
		s.Do(t, "PEXPIRE", "orders", "9000") // repeated, because the client renews it
		return regexp.MustCompile(`\x1b\[33m[5-9]\.\ds\x1b`).MatchString(p.out.String())
	})
	s.Do(t, "PEXPIRE", "orders", "30000") // otherwise it could expire before its renewal
	p.awaitOutput(t, `\x1b\[2Korders `)   // it is no longer highlighted

	for i := range 20 {
		lsHold(t, client.Mutex(fmt.Sprintf("many%02d", i)))
	}
	v := awaitScreen(t, p, 100, 12, `21 locks.*and 14 more lines: `)
	if v.Scrolled > 0 || v.Wrapped > 0 || len(v.Strange) > 0 {
		t.Errorf("it scrolls: %v, wraps: %v, %q", v.Scrolled > 0, v.Wrapped > 0, v.Strange)
	}

	for _, size := range []pty.Winsize{{Cols: 40, Rows: 8}, {Cols: 12, Rows: 2}, {Cols: 3, Rows: 1}, {Cols: 150, Rows: 40}} {
		from := len(p.out.String())
		if err := pty.Setsize(p.in.(*os.File), &size); err != nil {
			t.Fatal(err)
		}
		columns, rows := int(size.Cols), int(size.Rows)
		v := vt.New(columns, rows)
		eventually(t, "it fits the window", func() bool {
			const top = "\x1b[1;1H"
			pictures := strings.Split(p.out.String()[from:], top)
			if len(pictures) < 4 {
				return false // the last one may be incomplete
			}
			fits := func(picture string) bool {
				return strings.Contains(picture, fmt.Sprintf("\x1b[%d;1H", rows)) && !strings.Contains(picture, fmt.Sprintf("\x1b[%d;1H", rows+1))
			}
			// The first one of the new height may contain lines of the old width.
			before, picture := top+pictures[len(pictures)-3], top+pictures[len(pictures)-2]
			v = vt.New(columns, rows)
			_, _ = v.Write([]byte(picture))
			return fits(before) && fits(picture)
		})
		if v.Wrapped > 0 || v.Scrolled > 0 || len(v.Strange) > 0 {
			t.Errorf("%dx%d: wraps: %v, scrolls: %v, %q\n%s", columns, rows, v.Wrapped > 0, v.Scrolled > 0, v.Strange, v.Text())
		}
	}
	_, _ = io.WriteString(p.in, "\x1b[A\x1b[1;5qx") // an arrow key, an unknown sequence, and an unknown key
	_, _ = io.WriteString(p.in, "q")
	wantCleanEnd(t, p, before)
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, end := range map[string]func(*process){
		"q":       func(p *process) { _, _ = io.WriteString(p.in, "q") },
		"ctrl-c":  func(p *process) { _, _ = io.WriteString(p.in, "\x03") },
		"SIGINT":  func(p *process) { p.signal(t, os.Interrupt) },
		"SIGTERM": func(p *process) { p.signal(t, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, before := watchStart(t, 80, 24, "--url", s.URL())
			awaitScreen(t, p, 80, 24, "No locks are held")
			end(p)
			wantCleanEnd(t, p, before)
		})
	}
	t.Run("count", func(t *testing.T) {
		t.Parallel()
		p, before := watchStart(t, 80, 24, "--count", "2", "--url", s.URL())
		wantCleanEnd(t, p, before)
	})
}

// TestWatchServerGone checks that the last list stays while the server is down, and
// that watch updates it afterwards.
func TestWatchServerGone(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithPassword("secret"))
	s.Do(t, "HSET", "orders", "other:1", "1")
	s.Do(t, "PEXPIRE", "orders", "600000")
	p, before := watchStart(t, 80, 24, "--url", s.URL())
	awaitScreen(t, p, 80, 24, "orders +mutex")
	s.Pause()
	awaitScreen(t, p, 80, 24, `Last update \d\d:\d\d:\d\d\. Retrying: .*\norders +mutex`)
	s.Resume()
	awaitScreen(t, p, 80, 24, `Press q.*orders +mutex`)
	s.Kill()
	awaitScreen(t, p, 80, 24, `Last update .*orders +mutex`)
	s.Restart()
	awaitScreen(t, p, 80, 24, `Press q.*No locks are held`)
	s.Pause()
	awaitScreen(t, p, 80, 24, `Last update`)
	_, _ = io.WriteString(p.in, "q")
	wantCleanEnd(t, p, before)
	if strings.Contains(p.out.String(), "secret") {
		t.Error("the output contains the password")
	}
}

func TestWatchHostile(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, name := range hostile {
		s.Do(t, "HSET", name, "\x1b[31mowner\n\xff:1", "1")
		s.Do(t, "PEXPIRE", name, "600000")
	}
	for _, columns := range []uint16{30, 80} {
		p, before := watchStart(t, columns, 30, "--url", s.URL()+"?timeout=20s")
		v := awaitScreen(t, p, int(columns), 30, `NAME.*xxxx…`)
		if v.Wrapped > 0 || v.Scrolled > 0 || len(v.Strange) > 0 {
			t.Errorf("wraps: %v, scrolls: %v, %q\n%s", v.Wrapped > 0, v.Scrolled > 0, v.Strange, v.Text())
		}
		_, _ = io.WriteString(p.in, "q")
		wantCleanEnd(t, p, before)
	}
}

func TestWatchWithoutTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	args := []string{"watch", "--every", "100ms", "--count", "2", "--url", s.URL()}
	execute(t, args...).want(t, 0, `^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  0 locks, 0 holders, 0 waiting\n){2}$`, "")
	owner := lsHold(t, lsOpen(t, s).Mutex("orders")).Owner()
	picture := `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  1 lock, 1 holder, 0 waiting\nNAME [^\n]*\norders +mutex +` + owner + ` +[123]\d\.\ds\n\n`
	execute(t, args...).want(t, 0, `^(`+picture+`){2}$`, "")
	p := startTerminal(t, 80, 24, []string{"TERM=dumb"}, args...)
	if r := p.wait(t); strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "orders") {
		t.Errorf("a dumb terminal got %q", r.out)
	}

	p = start(t, nil, "watch", "--json", "--every", "100ms", "--url", s.URL())
	p.awaitOutput(t, `\n.*\n`)
	s.Kill()
	p.awaitOutput(t, `"error":"`)
	s.Restart()
	p.awaitOutput(t, `"locks":\[\]`)
	p.signal(t, syscall.SIGTERM)
	r := p.wait(t)
	r.want(t, 0, "*", "")
	for i, line := range strings.Split(strings.TrimSuffix(r.out, "\n"), "\n") {
		d := lsDecode[lsDocument](t, line)
		if _, err := time.Parse(time.RFC3339, d.At); err != nil {
			t.Error(err)
		}
		if (d.Error == "") == (d.Locks == nil) || i < 2 && (len(d.Locks) != 1 || d.Locks[0].Holders[0].Owner != owner || !d.Complete) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	s.Kill()
	execute(t, args...).want(t, 122, "", "holdfast: ")
}

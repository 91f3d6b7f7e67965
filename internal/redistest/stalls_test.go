package redistest_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestStallsOfServer(t *testing.T) {
	redistest.CheckGoroutines(t)
	for name, s := range map[string]*redistest.Server{
		"plain":    redistest.Start(t),
		"password": redistest.StartWith(t, redistest.WithPassword("secret"), redistest.WithTLS()),
	} {
		m := redistest.MeterStalls(t, redistest.Start(t), s)
		for what, stop := range map[string]func(){
			"paused": func() { s.Pause(); time.Sleep(time.Second); s.Resume() },
			"killed": func() { s.Kill(); time.Sleep(time.Second); s.Restart() },
		} {
			start := time.Now()
			stop()
			took := time.Since(start)
			s.Do(t, "PING")
			if got := m.Since(start); got < took/2 || got > time.Since(start) {
				t.Errorf("%s: %s for %v, and the meter has %v", name, what, took, got)
			}
			if got := m.Since(time.Now()); got > took/2 {
				t.Errorf("%s: after it was %s, the meter has %v", name, what, got)
			}
		}
		s.Pause()
		start := time.Now()
		time.Sleep(300 * time.Millisecond)
		if got := m.Since(start); got < 250*time.Millisecond {
			t.Errorf("%s: while it is paused, the meter has %v", name, got)
		}
	} // paused up to the end: the meter does not wait for it
}

// stallWorker says at each line of its input for how long it stood still since
// it was started.
func stallWorker() {
	start := time.Now()
	m := redistest.MeterStalls(orphan{})
	var line string
	for {
		fmt.Println(m.Since(start))
		if _, err := fmt.Fscanln(os.Stdin, &line); err != nil {
			os.Exit(1)
		}
	}
}

func TestStallsOfProcess(t *testing.T) {
	w := redistest.Worker(t, "stalls")
	stalled := func() time.Duration {
		t.Helper()
		d, err := time.ParseDuration(await(t, w.Lines(), "a duration"))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := stalled()
	w.Pause()
	time.Sleep(time.Second)
	w.Send("look") // it is there when the process goes on: the meter has not yet had its turn
	w.Resume()
	if got := stalled() - before; got < 900*time.Millisecond {
		t.Errorf("paused for 1s, and the meter has %v", got)
	}
}

// A verdict is the outcome of a test that ended itself.
type verdict struct {
	testing.TB
	log []string
}

func (*verdict) Helper()                     {}
func (v *verdict) Logf(f string, a ...any)   { v.log = append(v.log, fmt.Sprintf(f, a...)) }
func (v *verdict) Fatal(a ...any)            { panic(fmt.Sprint(a...)) }
func (v *verdict) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// rounds returns how often a round was run, and the error that it ended with.
func rounds(m *redistest.StallMeter, tolerance time.Duration, round func(n int) error) (n int, end any) {
	defer func() { end = recover() }()
	m.Rounds(&verdict{}, tolerance, func() error {
		n++
		return round(n)
	})
	return n, nil
}

func TestRounds(t *testing.T) {
	s := redistest.Start(t)
	m := redistest.MeterStalls(t, s)
	broken := errors.New("a broken promise")
	stall := func() {
		s.Pause()
		time.Sleep(400 * time.Millisecond)
		s.Resume()
		s.Do(t, "PING")
	}
	for _, test := range []struct {
		name      string
		tolerance time.Duration
		round     func(n int) error
		rounds    int
		end       string // nothing: it passes
	}{
		{"kept", 0, func(int) error { return nil }, 1, ""},
		{"kept in spite of a stall", 0, func(int) error { stall(); return nil }, 1, ""},
		{"broken", time.Minute, func(int) error { return broken }, 1, "a broken promise"},
		{"broken beside a bearable stall", time.Minute, func(int) error { stall(); return broken }, 1, "a broken promise"},
		{"not observed at first", 200 * time.Millisecond, func(n int) error {
			if n == 3 {
				return nil
			}
			stall()
			return broken
		}, 3, ""},
		{"never observed", 200 * time.Millisecond, func(int) error { stall(); return broken }, 6, "no valid round out of 6"},
	} {
		n, end := rounds(m, test.tolerance, test.round)
		if text := fmt.Sprint(end); n != test.rounds || (end == nil) != (test.end == "") || !strings.HasPrefix(text, test.end) && end != nil {
			t.Errorf("%s: %d rounds, and %v", test.name, n, end)
		}
	}
}

package script_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// counting returns a script that returns what the function listeners returns.
func counting(t *testing.T) string {
	t.Helper()
	source, err := script.Files.ReadFile("lua/lib/listeners.lua")
	if err != nil {
		t.Fatal(err)
	}
	return string(source) + "return { listeners('PUBLISH', KEYS[1], 'queue', 'more') }"
}

// A listener is a connection that subscribes.
type listener struct {
	*testing.T
	net.Conn
	in *bufio.Reader
}

func newListener(t *testing.T, s *redistest.Server) listener {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return listener{t, c, bufio.NewReader(c)}
}

// send sends a command and reads the confirmations, which end with a number.
func (l listener) send(command string, channels ...string) {
	l.Helper()
	if _, err := fmt.Fprintf(l, "%s %s\r\n", command, strings.Join(channels, " ")); err != nil {
		l.Fatal(err)
	}
	for n := 0; n < len(channels); {
		line, err := l.in.ReadString('\n')
		if err != nil {
			l.Fatal(err)
		}
		if line[0] == ':' {
			n++
		}
	}
}

// However many clients come and go, the server counts them, or their number is
// unknown. Valkey 9.1 miscounts some numbers from eight on.
func TestListeners(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, s.URL())
	s.Do(t, "HSET", "m", "a:1", "1")
	s.Do(t, "EXPIRE", "m", "600")
	const channel = "redisson_lock__channel:{m}"
	newListener(t, s).send("SUBSCRIBE", channel, "more") // as Redisson
	source := counting(t)
	check := func(n int) {
		t.Helper()
		if got := s.Do(t, "EVAL", source, "1", channel).([]any); len(got) > 0 && !slices.Equal(got, []any{int64(1), int64(1), int64(1)}) {
			t.Errorf("beside %d clients in the queue: %v", n, got)
		}
		r, err := d.Do(t.Context(), script.Look(d, "m", 10))
		if err != nil {
			t.Fatal(err)
		}
		if sight, err := script.DecodeSight(r); err != nil || sight.Clients != n+1 && sight.Clients != -1 {
			t.Errorf("%d clients wait, and an operator sees %d (%v)", n+1, sight.Clients, err)
		}
	}
	var ls []listener
	for n := range 40 {
		check(n)
		ls = append(ls, newListener(t, s))
		ls[n].send("SUBSCRIBE", channel, "queue")
	}
	for n := 40; n > 0; n-- {
		check(n)
		ls[n-1].send("UNSUBSCRIBE", channel, "queue")
	}
	check(0)
}

// A number of clients that no server can have is unknown.
func TestMiscountedListeners(t *testing.T) {
	t.Parallel()
	s := redistest.One(t)
	for i := range 4 {
		counts := []any{1, 1, 1, 1}
		for wrong := range 2 {
			counts[i] = []any{1, 140640973448710}[wrong]
			fake := fmt.Sprintf("local redis = { pcall = function() return { 'a', %d, 'b', %d, 'c', %d, 'd', %d } end }\n", counts...)
			if got := s.Do(t, "EVAL", fake+counting(t), "1", "a").([]any); len(got) != 3*(1-wrong) {
				t.Errorf("with the counts %v: %v", counts, got)
			}
		}
	}
}

package term_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// open returns a terminal with a size and a value of TERM.
func open(t *testing.T, columns, rows uint16, kind string) *term.Screen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close(); _ = master.Close() })
	if err := pty.Setsize(tty, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	return term.New(tty, func(name string) string { return map[string]string{"TERM": kind}[name] })
}

func sample() *term.Table {
	t := &term.Table{Titles: []string{"NAME", "OWNER", " HOLDS", "WAITING"}, Shrink: []int{0, 1}}
	t.Rows = append(t.Rows, []term.Cell{{Text: "orders"}, {Text: "285475da-9152-4c83-822a-67ee2f116a79:52", Tail: 3}, {Text: "1"}, {Text: "3 queued"}})
	t.Add("日本語日本語日本語日本語", "short", "12")
	t.Rows = append(t.Rows, []term.Cell{{Text: strings.Repeat("x", 200), Style: term.Red}, {Text: "y"}})
	return t
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestTableFits(t *testing.T) {
	for _, columns := range []uint16{1, 2, 5, 10, 20, 37, 50, 80, 120, 1000} {
		s := open(t, columns, 25, "xterm")
		text := sample().Text(s)
		if n := strings.Count(text, "\n"); n != 4 {
			t.Errorf("%d columns: %d lines:\n%s", columns, n, text)
		}
		for _, line := range strings.Split(text, "\n") {
			if w := term.Width(escapes.ReplaceAllString(line, "")); w > int(columns) {
				t.Errorf("%d columns: a line of %d: %q", columns, w, line)
			}
		}
	}
}

func TestTable(t *testing.T) {
	want := `NAME                     OWNER                     HOLDS  WAITING
orders                   285475da-9152-4c83-8…:52      1  3 queued
日本語日本語日本語日本…  short                        12
xxxxxxxxxxxxxxxxxxxxxx…  y
`
	if got := sample().Text(open(t, 66, 25, "dumb")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var file bytes.Buffer
	sample().Write(term.New(&file, os.Getenv))
	if got := file.String(); !strings.Contains(got, strings.Repeat("x", 200)) || strings.Contains(got, "\x1b") || !strings.Contains(got, "2f116a79:52") {
		t.Errorf("a file got\n%s", got)
	}
}

func TestWrap(t *testing.T) {
	s := open(t, 20, 25, "xterm")
	for text, want := range map[string]string{
		"":                                           "",
		"fits into the line\nand on\n":               "fits into the line\nand on\n",
		"exactly twenty chars":                       "exactly twenty chars",
		"more than twenty chars in all":              "more than twenty\n  chars in all",
		"  label  aligned words stay":                "  label  aligned\n  words stay",
		"a " + strings.Repeat("x", 30):               "a " + strings.Repeat("x", 30),
		s.Paint(term.Red, "red") + " is not 24 wide": s.Paint(term.Red, "red") + " is not 24 wide",
		"日本語日本語 日本語日本語":                              "日本語日本語\n  日本語日本語",
	} {
		if got := s.Wrap(text, "  "); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	var b bytes.Buffer
	long := strings.Repeat("word ", 30)
	if got := term.New(&b, os.Getenv).Wrap(long, "  "); got != long {
		t.Errorf("without a terminal: %q", got)
	}
}

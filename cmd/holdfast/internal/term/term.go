// Package term writes for people: tables, colours and progress, and names from
// strangers such that they cannot do harm.
package term

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// A Screen is where text for people goes: a terminal, or a file or pipe, which
// gets neither colours nor lines that are written over.
type Screen struct {
	io.Writer
	terminal *os.File // nil if it is none
	dumb     bool     // it cannot move its cursor
	colours  bool
}

// New returns the screen behind w. There are no colours with NO_COLOR, nor on a
// dumb terminal.
func New(w io.Writer, env func(string) string) *Screen {
	s := &Screen{Writer: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.terminal = f
		s.dumb = env("TERM") == "dumb"
		s.colours = env("NO_COLOR") == "" && !s.dumb
	}
	return s
}

// Terminal reports whether somebody is looking.
func (s *Screen) Terminal() bool { return s.terminal != nil }

// Movable reports whether the cursor can be moved, to write over what is there.
func (s *Screen) Movable() bool { return s.terminal != nil && !s.dumb }

// Size returns the width and height of the terminal, or something reasonable.
func (s *Screen) Size() (width, height int) {
	if s.terminal != nil {
		if w, h, err := term.GetSize(int(s.terminal.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 100, 25
}

// A Style is how text looks where there are colours.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint returns text in that style.
func (s *Screen) Paint(st Style, text string) string {
	if !s.colours || st == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// Rewrite writes text over the lines before, of which there are as many as up.
func (s *Screen) Rewrite(up int, text string) {
	var b strings.Builder
	for range up {
		b.WriteString("\x1b[A")
	}
	b.WriteString("\r")
	b.WriteString(strings.ReplaceAll(text, "\n", "\x1b[K\n"))
	b.WriteString("\x1b[K\x1b[J")
	_, _ = io.WriteString(s, b.String())
}

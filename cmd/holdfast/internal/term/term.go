// Package term writes to terminals: tables, colours and progress lines. It escapes
// untrusted text.
package term

import (
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"
)

// A Screen is an output for text. If it is not a terminal, it gets no colours and
// no progress lines.
type Screen struct {
	io.Writer
	terminal *os.File // nil if the output is not a terminal
	dumb     bool     // the terminal cannot move its cursor
	colours  bool
}

// New returns a Screen that writes to w. It uses no colours if NO_COLOR is set or
// the terminal is dumb.
func New(w io.Writer, env func(string) string) *Screen {
	s := &Screen{Writer: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.terminal = f
		s.dumb = env("TERM") == "dumb"
		s.colours = env("NO_COLOR") == "" && !s.dumb
	}
	return s
}

// Terminal reports whether the screen is a terminal.
func (s *Screen) Terminal() bool { return s.terminal != nil }

// Movable reports whether the screen is a terminal that can move its cursor.
func (s *Screen) Movable() bool { return s.terminal != nil && !s.dumb }

// Size returns the width and height of the terminal, or 100 and 25 if unknown.
func (s *Screen) Size() (width, height int) {
	if s.terminal != nil {
		if w, h, err := term.GetSize(int(s.terminal.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 100, 25
}

// Wrap breaks the lines of text between words so that they fit into the terminal. The
// lines that it adds begin with indent. A word that is too long for a line stays whole.
// If the screen is not a terminal, Wrap returns text unchanged.
func (s *Screen) Wrap(text, indent string) string {
	if !s.Terminal() {
		return text
	}
	width, _ := s.Size()
	var b strings.Builder
	for line := range strings.Lines(text) {
		used := 0
		for i, word := range strings.Split(line, " ") {
			w := Width(painting.ReplaceAllString(strings.TrimSuffix(word, "\n"), ""))
			switch {
			case i == 0:
			case used+1+w > width && len(indent)+w <= width:
				b.WriteString("\n" + indent)
				used = len(indent)
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += w
		}
	}
	return b.String()
}

// painting matches what Paint adds to a text.
var painting = regexp.MustCompile("\x1b\\[[0-9;]*m")

// A Style is a colour or weight of text: the parameter of an SGR sequence.
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

// Paint returns text in a style, or unchanged if the screen has no colours.
func (s *Screen) Paint(st Style, text string) string {
	if !s.colours || st == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// Rewrite moves the cursor up by some lines and replaces them by text.
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

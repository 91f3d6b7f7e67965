// Package vt emulates a terminal for tests and draws its screen as SVG. It supports
// the sequences that the command writes and records all others in
// [Screen.Strange].
package vt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// A cell is one character of the screen. The second cell of a wide character is
// empty.
type cell struct {
	text  string
	style string // parameters of SGR, such as "1;31"
}

// A Screen is the state of a terminal.
type Screen struct {
	Columns, Rows int
	Alternate     bool     // the alternate screen is shown
	Hidden        bool     // the cursor is hidden
	NoWrap        bool     // long lines do not wrap
	Scrolled      int      // number of lines that have scrolled off the top
	Wrapped       int      // number of lines that were too long
	Strange       []string // unknown sequences and control characters

	cells      [][]cell
	saved      [][]cell // the main screen, while the alternate one is shown
	row, col   int
	style      string
	unfinished []byte
}

// New returns an empty screen.
func New(columns, rows int) *Screen {
	s := &Screen{Columns: columns, Rows: rows}
	s.cells = s.blank()
	return s
}

func (s *Screen) blank() [][]cell {
	cells := make([][]cell, s.Rows)
	for i := range cells {
		cells[i] = make([]cell, s.Columns)
	}
	return cells
}

// Text returns the lines of the screen without trailing blanks.
func (s *Screen) Text() string {
	var b strings.Builder
	for _, row := range s.cells {
		b.WriteString(strings.TrimRight(line(row), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func line(row []cell) string {
	var b strings.Builder
	for i, c := range row {
		switch {
		case c.text != "":
			b.WriteString(c.text)
		case i == 0 || runewidth.StringWidth(row[i-1].text) < 2:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// Write processes the output of a program.
func (s *Screen) Write(p []byte) (int, error) {
	in := append(s.unfinished, p...)
	s.unfinished = nil
	for len(in) > 0 {
		n := s.step(in)
		if n == 0 {
			s.unfinished = slices.Clone(in)
			break
		}
		in = in[n:]
	}
	return len(p), nil
}

// step processes the next character or sequence and returns its length, or 0 if it
// is incomplete.
func (s *Screen) step(in []byte) int {
	switch c := in[0]; {
	case c == '\r':
		s.col = 0
	case c == '\n':
		s.feed()
	case c == '\b':
		s.col = max(s.col-1, 0)
	case c == 0x1b:
		return s.escape(in)
	case c < ' ' || c == 0x7f:
		s.strange(string(in[:1]))
	default:
		if !utf8.FullRune(in) {
			return 0
		}
		r, n := utf8.DecodeRune(in)
		s.put(r)
		return n
	}
	return 1
}

func (s *Screen) strange(seq string) { s.Strange = append(s.Strange, fmt.Sprintf("%q", seq)) }

func (s *Screen) feed() {
	if s.row++; s.row < s.Rows {
		return
	}
	s.row = s.Rows - 1
	s.cells = append(s.cells[1:], make([]cell, s.Columns))
	s.Scrolled++
}

func (s *Screen) put(r rune) {
	width := runewidth.RuneWidth(r)
	if width == 0 {
		s.strange(string(r)) // combining marks and the like
		return
	}
	if s.col+width > s.Columns {
		s.Wrapped++
		if s.NoWrap {
			return
		}
		s.col = 0
		s.feed()
	}
	s.cells[s.row][s.col] = cell{string(r), s.style}
	if width == 2 {
		s.cells[s.row][s.col+1] = cell{style: s.style}
	}
	s.col += width
}

// escape processes a sequence that begins with ESC.
func (s *Screen) escape(in []byte) int {
	if len(in) < 2 {
		return 0
	}
	if in[1] != '[' {
		s.strange(string(in[:2]))
		return 2
	}
	end := 2
	for end < len(in) && (in[end] < 0x40 || in[end] > 0x7e) {
		end++
	}
	if end == len(in) {
		return 0
	}
	args, final := string(in[2:end]), in[end]
	n, _ := strconv.Atoi(args)
	switch {
	case final == 'm':
		s.paint(args)
	case final == 'A':
		s.row = max(s.row-max(n, 1), 0)
	case final == 'B':
		s.row = min(s.row+max(n, 1), s.Rows-1)
	case final == 'H':
		row, col, _ := strings.Cut(args, ";")
		y, _ := strconv.Atoi(row)
		x, _ := strconv.Atoi(col)
		s.row, s.col = min(max(y, 1), s.Rows)-1, min(max(x, 1), s.Columns)-1
	case final == 'K' && n == 0:
		clear(s.cells[s.row][min(s.col, s.Columns):])
	case final == 'J' && n == 0:
		clear(s.cells[s.row][min(s.col, s.Columns):])
		for _, row := range s.cells[s.row+1:] {
			clear(row)
		}
	case final == 'J' && n == 2:
		s.cells = s.blank()
	case final == 'K' && n == 2:
		clear(s.cells[s.row])
	case args == "?7" && (final == 'h' || final == 'l'):
		s.NoWrap = final == 'l'
	case args == "?25" && (final == 'h' || final == 'l'):
		s.Hidden = final == 'l'
	case args == "?1049" && final == 'h' && !s.Alternate:
		s.saved, s.cells, s.Alternate = s.cells, s.blank(), true
	case args == "?1049" && final == 'l' && s.Alternate:
		s.cells, s.Alternate = s.saved, false
	default:
		s.strange(string(in[:end+1]))
	}
	return end + 1
}

func (s *Screen) paint(args string) {
	if args == "" || args == "0" {
		s.style = ""
		return
	}
	if s.style != "" {
		args = s.style + ";" + args
	}
	s.style = args
}

package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A Live is a terminal that shows one picture after the other, and hears keys.
// What was on it before is back when it is closed.
type Live struct {
	screen *Screen
	Keys   <-chan byte     // what is typed, without echo or Return; also CtrlC
	Resize <-chan struct{} // that the size has changed
	undo   []func()
	once   sync.Once
}

// CtrlC is the key, which sends no signal while a terminal is live.
const CtrlC = 3

// How a terminal is taken and given back: another screen, no cursor, and no
// line that goes on in the next.
const (
	take     = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	giveBack = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Live takes the terminal over until it is closed. Keys are heard if in is a
// terminal, too.
func (s *Screen) Live(in io.Reader) *Live {
	l := &Live{screen: s}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if before, err := term.MakeRaw(int(f.Fd())); err == nil {
			l.undo = append(l.undo, func() { _ = term.Restore(int(f.Fd()), before) })
			l.Keys = keys(f)
		}
	}
	var stop func()
	l.Resize, stop = resized()
	l.undo = append(l.undo, stop, func() { _, _ = io.WriteString(s, giveBack) })
	_, _ = io.WriteString(s, take)
	return l
}

// Close gives the terminal back. Closing twice is fine.
func (l *Live) Close() {
	l.once.Do(func() {
		for _, f := range l.undo {
			defer f() // the last first
		}
	})
}

// Draw shows the lines, as many of them as there is room for. None may be
// longer than the terminal is wide.
func (l *Live) Draw(lines []string) {
	_, height := l.screen.Size()
	var b strings.Builder
	for i := range height {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2K", i+1)
		if i < len(lines) {
			b.WriteString(lines[i])
		}
	}
	_, _ = io.WriteString(l.screen, b.String())
}

// keys reads keys for as long as the process lives: a read cannot be called
// off.
func keys(f io.Reader) <-chan byte {
	typed := make(chan byte)
	go func() {
		var skip skipper
		buf := make([]byte, 64)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			for _, key := range buf[:n] {
				if !skip.over(key) {
					typed <- key
				}
			}
		}
	}()
	return typed
}

// A skipper tells the bytes that stand for an arrow and the like from those
// that stand for themselves: ESC and one more, which may begin a longer row.
type skipper struct{ escape, row bool }

func (s *skipper) over(key byte) bool {
	switch {
	case key == '\x1b':
		*s = skipper{escape: true}
	case s.escape:
		*s = skipper{row: key == '[' || key == 'O'}
	case s.row:
		s.row = key < '@' || key > '~'
	default:
		return false
	}
	return true
}

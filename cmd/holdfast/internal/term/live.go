package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A Live is a terminal in full-screen mode that shows successive contents and reads
// keys. Close restores the previous contents.
type Live struct {
	screen *Screen
	Keys   <-chan byte     // receives typed keys, including CtrlC, without echo
	Resize <-chan struct{} // receives a value when the size changes
	undo   []func()
	once   sync.Once
}

// CtrlC is the key Ctrl-C, which sends no signal in full-screen mode.
const CtrlC = 3

// The sequences that begin and end full-screen mode: the alternate screen without a
// cursor and without line wrapping.
const (
	enterLive = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveLive = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Live starts full-screen mode. It reads keys if in is a terminal.
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
	l.undo = append(l.undo, stop, func() { _, _ = io.WriteString(s, leaveLive) })
	_, _ = io.WriteString(s, enterLive)
	return l
}

// Close ends full-screen mode. It may be called more than once.
func (l *Live) Close() {
	l.once.Do(func() {
		for _, f := range l.undo {
			defer f() // in reverse order
		}
	})
}

// Draw shows as many of the lines as fit. No line may be wider than the terminal.
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

// keys reads keys until the process ends, because a read cannot be canceled.
func keys(f io.Reader) <-chan byte {
	typed := make(chan byte)
	go func() {
		var skip escapeFilter
		buf := make([]byte, 64)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			for _, key := range buf[:n] {
				if !skip.skips(key) {
					typed <- key
				}
			}
		}
	}()
	return typed
}

// An escapeFilter recognizes escape sequences, such as those of arrow keys: ESC and one
// more byte, which may begin a longer sequence.
type escapeFilter struct{ escape, row bool }

func (s *escapeFilter) skips(key byte) bool {
	switch {
	case key == '\x1b':
		*s = escapeFilter{escape: true}
	case s.escape:
		*s = escapeFilter{row: key == '[' || key == 'O'}
	case s.row:
		s.row = key < '@' || key > '~'
	default:
		return false
	}
	return true
}

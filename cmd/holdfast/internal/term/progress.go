package term

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Progress is a line that shows how far something is. On a screen that
// cannot write over it, it writes nothing.
type Progress struct {
	screen *Screen
	mu     sync.Mutex
	label  string
	done   float64
	note   string
	drawn  time.Time
}

// Progress begins a line.
func (s *Screen) Progress(label string) *Progress { return &Progress{screen: s, label: label} }

// Set says how far it is, from 0 to 1, and adds a note.
func (p *Progress) Set(done float64, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.note = min(max(done, 0), 1), fmt.Sprintf(format, args...)
	if time.Since(p.drawn) < 50*time.Millisecond || !p.screen.Movable() {
		return
	}
	p.drawn = time.Now()
	columns, _ := p.screen.Size()
	rest := columns - Width(p.label) - 3 // for the bar and the text
	width := min(24, max(rest-4, 1))     // at least the percentage fits
	full := int(p.done * float64(width))
	bar := p.screen.Paint(Green, strings.Repeat("━", full)) + p.screen.Paint(Dim, strings.Repeat("─", width-full))
	text := Line(fmt.Sprintf("%3.0f%% %s", p.done*100, p.note), rest-width)
	_, _ = fmt.Fprintf(p.screen, "\r%s %s %s\x1b[K", p.label, bar, text)
}

// End takes the line away.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.drawn.IsZero() {
		_, _ = fmt.Fprint(p.screen, "\r\x1b[K")
	}
	p.drawn = time.Now().Add(time.Hour) // nothing more
}

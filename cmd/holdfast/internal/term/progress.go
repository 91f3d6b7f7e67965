package term

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Progress is a line that shows the progress of an operation. It writes nothing
// if the screen cannot move its cursor.
type Progress struct {
	screen *Screen
	mu     sync.Mutex
	label  string
	done   float64
	note   string
	drawn  time.Time
}

// Progress returns a progress line with a label.
func (s *Screen) Progress(label string) *Progress { return &Progress{screen: s, label: label} }

// Set sets the progress, from 0 to 1, and a note.
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
	width := min(24, max(rest-4, 1))     // leaves room for the percentage
	full := int(p.done * float64(width))
	bar := p.screen.Paint(Green, strings.Repeat("━", full)) + p.screen.Paint(Dim, strings.Repeat("─", width-full))
	text := Line(fmt.Sprintf("%3.0f%% %s", p.done*100, p.note), rest-width)
	_, _ = fmt.Fprintf(p.screen, "\r%s %s %s\x1b[K", p.label, bar, text)
}

// End removes the line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.drawn.IsZero() {
		_, _ = fmt.Fprint(p.screen, "\r\x1b[K")
	}
	p.drawn = time.Now().Add(time.Hour) // Set draws nothing from now on
}

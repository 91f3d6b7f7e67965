package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/driver/rueidis"
)

// lines formats a snapshot for a terminal. No line is wider than the terminal.
func (w *watcher) lines(s *term.Screen, p watchSnapshot) []string {
	width, height := s.Size()
	title := w.title
	if !p.at.IsZero() {
		title += fmt.Sprintf("  %s  %s", p.at.Format(time.TimeOnly), p.counts())
	}
	lines := []string{s.Paint(term.Bold, term.Line(title, width)), w.status(s, p, width), ""}
	switch {
	case p.tried.IsZero():
		return append(lines, term.Line("Loading ...", width))
	case len(p.locks) == 0 && p.err == nil:
		return append(lines, term.Line(w.query.nothing(), width))
	case len(p.locks) == 0:
		return lines
	}
	table := lsTable(p.locks, w.fresh(p))
	if p.err != nil {
		for _, row := range table.Rows {
			for i := range row {
				row[i].Style = term.Dim
			}
		}
	}
	lines = append(lines, strings.Split(strings.TrimSuffix(table.Text(s), "\n"), "\n")...)
	if rest := len(lines) - height; rest > 0 {
		lines[height-1] = s.Paint(term.Dim, term.Line(fmt.Sprintf("and %d more lines: enlarge the window or give a pattern", rest+1), width))
	}
	return lines
}

// status returns the line below the title.
func (w *watcher) status(s *term.Screen, p watchSnapshot, width int) string {
	switch {
	case p.err != nil && p.at.IsZero():
		return s.Paint(term.Red, term.Line("Retrying: "+watchCause(p.err), width))
	case p.err != nil:
		return s.Paint(term.Red, term.Line(fmt.Sprintf("Last update %s. Retrying: %s", p.at.Format(time.TimeOnly), watchCause(p.err)), width))
	case !p.complete:
		return s.Paint(term.Yellow, term.Line(w.query.incomplete(len(p.locks)), width))
	}
	return s.Paint(term.Dim, term.Line("Press q to quit.", width))
}

// watchCause returns the cause of an error without the common prefix, so that it
// fits on a line.
func watchCause(err error) string {
	text := err.Error()
	if _, cause, ok := strings.Cut(text, holdfast.ErrUnavailable.Error()+": "); ok {
		return cause
	}
	return strings.TrimPrefix(text, "holdfast: ")
}

// text formats a snapshot for output that is not a terminal.
func (w *watcher) text(s *term.Screen, p watchSnapshot) string {
	if p.err != nil {
		return fmt.Sprintf("%s  %s\n", p.tried.Format(time.DateTime), term.Line(p.err.Error(), lsMaxWidth))
	}
	head := fmt.Sprintf("%s  %s\n", p.at.Format(time.DateTime), p.counts())
	if len(p.locks) == 0 {
		return head
	}
	return head + lsTable(p.locks, w.fresh(p)).Text(s) + "\n"
}

// shown returns the addresses of the servers, without user, password or settings.
func (t *target) shown() string {
	if t.config != "" {
		return t.config
	}
	url := t.address()
	if url == "" {
		url = defaultURL
	}
	c, err := rueidis.ParseURL(url)
	if err != nil {
		return "server"
	}
	if c.Addr != "" {
		return c.Addr
	}
	return c.Mode.String() + " " + strings.Join(c.Addrs, ",")
}

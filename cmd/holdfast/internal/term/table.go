package term

import (
	"io"
	"strings"
)

// A Cell is one text in a table. The text is shown as it is: [Quote] what comes
// from others.
type Cell struct {
	Text  string
	Style Style
	Tail  int // how many bytes at the end to keep if it must be cut
}

// A Table has a line of titles and rows of cells. A title that begins with a
// blank is that of a column of numbers, which ends at the right.
type Table struct {
	Titles []string
	Rows   [][]Cell
	// Shrink are columns that give way where a terminal is narrow, so that no
	// line is longer than it is wide. Without any, lines may be.
	Shrink []int
}

// Add adds a row of plain texts.
func (t *Table) Add(texts ...string) {
	row := make([]Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	t.Rows = append(t.Rows, row)
}

// Write writes the table, with as little space as it takes.
func (t *Table) Write(s *Screen) { _, _ = io.WriteString(s, t.Text(s)) }

// Text returns what Write writes.
func (t *Table) Text(s *Screen) string {
	limit := 1 << 30
	if s.Terminal() && len(t.Shrink) > 0 {
		limit, _ = s.Size()
	}
	right := make([]bool, len(t.Titles))
	titles := make([]Cell, len(t.Titles))
	for i, title := range t.Titles {
		right[i] = strings.HasPrefix(title, " ")
		titles[i] = Cell{Text: strings.TrimPrefix(title, " "), Style: Bold}
	}
	rows := append([][]Cell{titles}, t.Rows...)
	widths := t.widths(rows, limit)
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, s, row, widths, right, limit)
	}
	return b.String()
}

// gap is between two columns.
const gap = "  "

// widths returns how wide each column is, if that can be such that lines are
// not longer than limit. The widest gives way first.
func (t *Table) widths(rows [][]Cell, limit int) []int {
	widths := make([]int, len(t.Titles))
	total := -len(gap)
	for i := range widths {
		for _, row := range rows {
			if i < len(row) {
				widths[i] = max(widths[i], Width(row[i].Text))
			}
		}
		total += widths[i] + len(gap)
	}
	const least = 8
	for ; total > limit && len(t.Shrink) > 0; total-- {
		widest := t.Shrink[0]
		for _, i := range t.Shrink {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	return widths
}

// writeRow writes a line that is not longer than limit.
func writeRow(b *strings.Builder, s *Screen, row []Cell, widths []int, right []bool, limit int) {
	used, pending := 0, 0 // columns written, and blanks that are due before the next text
	for i, c := range row {
		if i > 0 {
			pending += len(gap)
		}
		text := c.cut(min(widths[i], limit-used-pending))
		rest := widths[i] - Width(text)
		if right[i] {
			pending, rest = pending+rest, 0
			text = Cell{Text: text}.cut(limit - used - pending)
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pending) + s.Paint(c.Style, text))
			used, pending = used+pending+Width(text), 0
		}
		pending += rest
	}
	b.WriteByte('\n')
}

// cut returns the text if it takes no more than max columns, else its beginning,
// a … and its tail.
func (c Cell) cut(max int) string {
	if max <= 0 {
		return ""
	}
	tail := c.Text[len(c.Text)-c.Tail:]
	if Width(tail) > max/2 {
		tail = ""
	}
	head := max - Width(tail)
	columns, fits := 0, 0
	for i, r := range c.Text {
		if columns < head {
			fits = i
		}
		if columns += condition.RuneWidth(r); columns > max {
			return c.Text[:fits] + "…" + tail
		}
	}
	return c.Text
}

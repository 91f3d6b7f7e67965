package term

import (
	"io"
	"strings"
)

// A Cell is one text in a table. It is written unchanged: use [Quote] for untrusted
// text.
type Cell struct {
	Text  string
	Style Style
	Tail  int // number of bytes at the end to keep if the text is cut
}

// A Table has a line of titles and rows of cells. A column whose title begins with
// a blank is aligned to the right.
type Table struct {
	Titles []string
	Rows   [][]Cell
	// Shrink lists the columns that shrink to fit the table into the width of the
	// terminal. If it is empty, lines may be wider than the terminal.
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

// Write writes the table with minimal column widths.
func (t *Table) Write(s *Screen) { _, _ = io.WriteString(s, t.Text(s)) }

// Text returns the text that Write writes.
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

// gap separates two columns.
const gap = "  "

// widths returns the widths of the columns. It shrinks the widest column first
// until the lines fit into limit, if possible.
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

// writeRow writes a line that is at most limit columns wide.
func writeRow(b *strings.Builder, s *Screen, row []Cell, widths []int, right []bool, limit int) {
	used, pending := 0, 0 // columns written, and blanks to write before the next text
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

// cut returns the text if it fits into max columns. Otherwise it returns the
// beginning, a … and the tail.
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

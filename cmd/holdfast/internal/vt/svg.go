package vt

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// A Frame is the content of a screen and how long it is shown.
type Frame struct {
	rows [][]cell
	For  time.Duration
}

// Frame returns the current content of the screen.
func (s *Screen) Frame(d time.Duration) Frame {
	rows := make([][]cell, len(s.cells))
	for i, row := range s.cells {
		rows[i] = slices.Clone(row)
	}
	return Frame{rows, d}
}

// Sizes in pixels. The font depends on the viewer, so every text has an explicit
// length.
const (
	cellWidth, cellHeight = 8.4, 19
	margin                = 14
	bar                   = 26 // height of the title bar
)

// colours maps SGR parameters to colours on a dark background.
var colours = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff", "2": "#8b949e", "90": "#8b949e"}

// SVG draws frames as an endless animation with a title bar. One frame gives a
// still picture. Viewers that play no animation, and those of users who prefer
// less motion, show the first frame.
func SVG(title string, frames ...Frame) string {
	columns, rows := 0, 0
	var total time.Duration
	for _, f := range frames {
		total += f.For
		for i, row := range f.rows {
			if text := strings.TrimRight(line(row), " "); text != "" {
				rows, columns = max(rows, i+1), max(columns, len(row))
			}
		}
	}
	width, height := 2*margin+float64(columns)*cellWidth, float64(2*margin+bar+rows*cellHeight)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n", html.EscapeString(title))
	b.WriteString("text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3;white-space:pre}\n")
	var at time.Duration
	for i, f := range frames {
		if len(frames) > 1 {
			from, to := 100*at.Seconds()/total.Seconds(), 100*(at+f.For).Seconds()/total.Seconds()
			fmt.Fprintf(&b, "@keyframes f%d{0%%{visibility:hidden}%.3f%%{visibility:visible}%.3f%%{visibility:hidden}100%%{visibility:hidden}}\n", i, from, to)
			fmt.Fprintf(&b, "#f%d{animation:f%d %.1fs steps(1,end) infinite}\n", i, i, total.Seconds())
		}
		at += f.For
	}
	b.WriteString("@media (prefers-reduced-motion:reduce){g{animation:none!important}}\n</style>\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, c := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="17" r="5.5" fill="%s"/>`+"\n", margin+6+i*18, c)
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="21" text-anchor="middle" fill-opacity=".6">%s</text>`+"\n", width/2, html.EscapeString(title))
	hidden := "" // without the animation
	for i, f := range frames {
		fmt.Fprintf(&b, "<g id=\"f%d\"%s>\n", i, hidden)
		hidden = ` visibility="hidden"`
		for y, row := range f.rows {
			drawLine(&b, y, row)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawLine draws a line, one text element per style.
func drawLine(b *strings.Builder, y int, row []cell) {
	for x := 0; x < len(row); {
		end := x + 1
		for end < len(row) && row[end].style == row[x].style {
			end++
		}
		text := line(row[x:end])
		lead := len(text) - len(strings.TrimLeft(text, " "))
		if trimmed := strings.TrimSpace(text); trimmed != "" {
			start := x + lead
			columns := end - start - (len(text) - len(strings.TrimRight(text, " ")))
			fmt.Fprintf(b, `<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n", margin+float64(start)*cellWidth,
				margin+bar+y*cellHeight+14, float64(columns)*cellWidth, look(row[x].style), html.EscapeString(trimmed))
		}
		x = end
	}
}

// look returns the style attribute of an element.
func look(style string) string {
	var css string
	for s := range strings.SplitSeq(style, ";") {
		if s == "1" {
			css += "font-weight:bold;"
		}
		if c, ok := colours[s]; ok {
			css += "fill:" + c + ";"
		}
	}
	if css == "" {
		return ""
	}
	return ` style="` + css + `"`
}

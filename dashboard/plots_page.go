package dashboard

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/observe"
)

func (d *Dashboard) plotsPage(_ *snapshot, _ *http.Request) content {
	now := time.Now()
	series := d.scanner.history.series(now)
	last := len(series) - 1
	plot := func(id, title, unit string, value func(bucket) float64) picture {
		points := make([]float64, len(series))
		for i, b := range series {
			points[i] = math.NaN()
			if b.scans > 0 {
				points[i] = value(b)
			}
			if i == last && b.scans == 0 {
				points[i] = math.NaN()
			}
		}
		return plotPicture(id, title, unit, points)
	}
	c := content{Pictures: []picture{
		plot("plot-handoffs", "Hand-offs per second", "/s", func(b bucket) float64 {
			if b.over < bucketTime/10 {
				return math.NaN()
			}
			return float64(b.handoffs) / b.over.Seconds()
		}),
		plot("plot-held", "Locks held", "", func(b bucket) float64 { return float64(b.held) }),
		plot("plot-waiting", "Waiting", "", func(b bucket) float64 { return float64(b.waiting) }),
		plot("plot-longest", "Longest wait", " s", func(b bucket) float64 { return b.longest.Seconds() }),
	}}
	if d.options.Observer == nil {
		return c
	}
	events, losses := d.options.Observer.series(now)
	points := make([]float64, len(events))
	for i, e := range events {
		points[i] = float64(e.lost)
	}
	c.Pictures = append(c.Pictures, plotPicture("plot-losses", "Leases lost in this program", "", points))
	c.Tables = []table{lossTable(losses)}
	return c
}

func lossTable(losses []observe.Event) table {
	t := table{
		ID: "losses", Caption: "Last losses in this program", Empty: "No lease was lost.",
		Columns: []column{{Text: "Lock"}, {Text: "Reason"}, {Text: "Owner"}, {Text: "Held for", Class: "num"}, {Text: "When", Class: "num"}},
	}
	for i, e := range losses {
		t.Rows = append(t.Rows, row{ID: strconv.FormatInt(e.Time.UnixNano(), 36) + "-" + strconv.Itoa(len(losses)-i), Cells: []cell{
			nameCell(e.Name), {Text: visible(e.Reason, 60)}, {Text: visible(e.Owner, 80), Class: "owner"}, {Text: duration(e.Held), Class: "num"}, {Text: e.Time.Format(time.TimeOnly), Class: "num"},
		}})
	}
	return t
}

// The measures of a plot.
const (
	plotWidth  = 600
	plotHeight = 150
	plotLeft   = 44
	plotRight  = 6
	plotTop    = 8
	plotBottom = 20
)

// plotPicture draws the values of the last minutes as a line. A value that is not a
// number is a gap.
func plotPicture(id, title, unit string, values []float64) picture {
	top, last := 1.0, math.NaN()
	for _, v := range values {
		if !math.IsNaN(v) {
			top, last = max(top, v), v
		}
	}
	top = niceTop(top)
	p := picture{ID: id, Title: title, Width: plotWidth, Height: plotHeight, About: "No data yet."}
	if !math.IsNaN(last) {
		p.About = "Now " + number(last) + unit + "."
	}
	const inner, tall = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBottom
	y := func(v float64) int { return plotTop + int(math.Round(tall*(1-v/top))) }
	x := func(i int) int { return plotLeft + i*inner/max(len(values)-1, 1) }
	for _, part := range []float64{0, 0.5, 1} {
		at := y(top * part)
		p.Shapes = append(p.Shapes,
			shape{Tag: "line", X: plotLeft, Y: at, W: plotWidth - plotRight, H: at, Class: "grid"},
			shape{Tag: "text", X: plotLeft - 6, Y: at + 4, Class: "tick", Anchor: "end", Text: number(top * part)})
	}
	for m := 15; m >= 0; m -= 5 {
		label, anchor := "−"+strconv.Itoa(m)+" min", "middle"
		switch m {
		case 0:
			label, anchor = "now", "end"
		case 15:
			anchor = "start"
		}
		p.Shapes = append(p.Shapes, shape{Tag: "text", X: plotLeft + (15-m)*inner/15, Y: plotHeight - 4, Class: "tick", Anchor: anchor, Text: label})
	}
	var line, area strings.Builder
	from := -1 // the start of a piece without gaps
	for i := 0; i <= len(values); i++ {
		switch gap := i == len(values) || math.IsNaN(values[i]); {
		case gap && from >= 0:
			fmt.Fprintf(&area, "L%d %dL%d %dZ", x(i-1), y(0), x(from), y(0))
			from = -1
		case gap:
		case from < 0:
			from = i
			fmt.Fprintf(&line, "M%d %dh1", x(i), y(values[i])) // a single value is visible, too
			fmt.Fprintf(&area, "M%d %d", x(i), y(values[i]))
		default:
			fmt.Fprintf(&line, "L%d %d", x(i), y(values[i]))
			fmt.Fprintf(&area, "L%d %d", x(i), y(values[i]))
		}
	}
	if line.Len() > 0 {
		p.Shapes = append(p.Shapes, shape{Tag: "path", Class: "area", Path: area.String()}, shape{Tag: "path", Class: "line", Path: line.String()})
	}
	return p
}

// niceTop returns the least number of the form 1, 2, 4 or 10 times a power of ten that is
// not less than v.
func niceTop(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 4, 10} {
		if v <= f*power {
			return f * power
		}
	}
	return 10 * power
}

// number returns a number with at most three digits.
func number(v float64) string {
	switch {
	case v >= 10_000:
		return strconv.FormatFloat(v/1000, 'f', 0, 64) + " k"
	case v >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

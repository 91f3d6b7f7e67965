package dashboard

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/display"
)

// mostDeadlocks is how many deadlocks are listed.
const mostDeadlocks = 20

func (d *Dashboard) deadlocksPage(p *snapshot, _ *http.Request) content {
	// The number of pictures must not change while the page is open, so only one is drawn.
	c := content{Facts: []cell{
		{ID: "total", Text: display.Thousands(len(p.deadlocks)), Note: listed(noun(len(p.deadlocks), "deadlock"), len(p.deadlocks), mostDeadlocks)},
		{ID: "message"},
	}}
	if p.deadlocksErr != nil {
		c.Facts[1] = cell{ID: "message", Class: "warn", Text: "The deadlocks could not be read: " + errorText(p.deadlocksErr)}
	}
	t := table{
		ID: "deadlocks", Caption: "Calls that wait for each other", Empty: "No deadlocks were found. Clients of Holdfast look for them when a call that holds a lock has waited for a second.",
		Columns: []column{{Text: "Deadlock"}, {Text: "Process"}, {Text: "Holds"}, {Text: "Waits for"}, {Text: "Waits since", Class: "num"}},
	}
	for _, dead := range p.deadlocks[:min(len(p.deadlocks), mostDeadlocks)] {
		for i, call := range dead.Calls {
			name := cell{Text: visible(dead.ID, 16), Class: "name"}
			if i > 0 {
				name.Class += " dim"
			}
			t.Rows = append(t.Rows, row{ID: rowID(fmt.Sprint(dead.ID, " ", i)), Cells: []cell{
				name,
				{Text: visible(call.Who, 80), Href: "clients?id=" + url.QueryEscape(call.Client)},
				locksCell(wantedNames(call)),
				locksCell(wantedBy(call)),
				sinceCell(call.Since, false),
			}})
		}
	}
	c.Tables = []table{t}
	for _, r := range []ring{{"cycle", "wide"}, {"cycle-narrow", "narrow"}} {
		pic := picture{Title: "No deadlock", Width: 1000, Height: 1, Shapes: []shape{}}
		if len(p.deadlocks) > 0 {
			pic = r.picture(p.deadlocks[0])
		}
		pic.ID, pic.Class = r.id, r.class
		c.Pictures = append(c.Pictures, pic)
	}
	return c
}

// stuckIn returns the names of the locks and the ids of the clients in deadlocks.
func stuckIn(p *snapshot) (locks, clients map[string]bool) {
	locks, clients = make(map[string]bool), make(map[string]bool)
	for _, d := range p.deadlocks {
		for _, call := range d.Calls {
			clients[call.Client] = true
			for _, name := range wantedNames(call) {
				locks[name] = true
			}
		}
	}
	return locks, clients
}

// mark marks the name of a lock or client that is part of a deadlock.
func mark(c cell, stuck bool) cell {
	if stuck {
		c.Note = "deadlock"
		c.Class += " stuck"
	}
	return c
}

// wantedNames returns the locks of a call that the call before it waits for.
func wantedNames(c inspect.BlockedCall) (list []string) {
	for _, h := range c.Holds {
		if h.Wanted {
			list = append(list, h.Name)
		}
	}
	return list
}

// wantedBy returns the locks that a call waits for.
func wantedBy(c inspect.BlockedCall) (list []string) {
	for _, l := range c.Wants {
		list = append(list, l.Name)
	}
	return list
}

// locksCell lists the names of locks. A single one is a link.
func locksCell(list []string) cell {
	if len(list) == 1 {
		return nameCell(list[0])
	}
	return cell{Text: someNames(list, 40), Class: "name"}
}

// someNames returns the first names of a list as text.
func someNames(list []string, limit int) string {
	text := make([]string, min(len(list), mostNames))
	for i := range text {
		text[i] = visible(list[i], limit)
	}
	if more := len(list) - len(text); more > 0 {
		text = append(text, display.Thousands(more)+" more")
	}
	return strings.Join(text, ", ")
}

// The measures of the picture of a cycle.
const (
	boxWidth  = 190
	boxHeight = 34
	boxStep   = 62 // from one node to the next in a narrow picture
)

// A ring draws a deadlock: processes and locks, with an arrow from each process to the lock
// that it waits for, and from each lock to the process that holds it. The nodes are on an
// ellipse, or in a column if the picture is narrow.
type ring struct{ id, class string }

func (r ring) picture(d inspect.Deadlock) picture {
	n, wide := len(d.Calls), r.class == "wide"
	p := picture{Title: "Deadlock " + visible(d.ID, 16), Width: 1000, Height: max(220, 70*n)}
	if !wide {
		p.Width, p.Height = narrowWidth, 2*n*boxStep-boxStep+boxHeight+4
	}
	at := func(i int) (x, y float64) { // the i-th of 2n nodes
		if !wide {
			return float64(boxWidth/2 + 2), float64(boxHeight/2 + 2 + i*boxStep)
		}
		a := 2*math.Pi*float64(i)/float64(2*n) - math.Pi
		return float64(p.Width)/2 + float64(p.Width-boxWidth-40)/2*math.Cos(a), float64(p.Height)/2 + float64(p.Height-boxHeight-20)/2*math.Sin(a)
	}
	var about []string
	for i := range 2 * n {
		x, y := at(i)
		tx, ty := at((i + 1) % (2 * n))
		class := "wants"
		if i%2 == 1 {
			class = "held"
		}
		path := arrow(x, y, tx, ty)
		if !wide && i == 2*n-1 { // back to the first one, beside the column
			edge := x + boxWidth/2
			path = fmt.Sprintf("M%.0f %.0fH%.0fV%.0fH%.0f", edge, y, edge+24, ty, edge+24) + arrow(edge+24+boxWidth/2, ty, tx, ty)
		}
		p.Shapes = append(p.Shapes, shape{Tag: "path", Class: "arrow " + class, Path: path})
	}
	for i, call := range d.Calls {
		next := d.Calls[(i+1)%n]
		lock := someNames(wantedNames(next), 60)
		about = append(about, visible(call.Who, 60)+" waits for "+lock)
		x, y := at(2 * i)
		p.Shapes = append(p.Shapes, box(x, y, "process", visible(call.Who, 80))...)
		x, y = at(2*i + 1)
		p.Shapes = append(p.Shapes, box(x, y, "lock", lock)...)
	}
	p.About = strings.Join(about, ". ") + "."
	return p
}

// box draws a node.
func box(x, y float64, class, text string) []shape {
	return []shape{
		{Tag: "rect", X: int(x) - boxWidth/2, Y: int(y) - boxHeight/2, W: boxWidth, H: boxHeight, Class: class, Hint: text},
		{Tag: "text", X: int(x), Y: int(y) + 5, Class: class, Anchor: "middle", Text: cut(text, 26)},
	}
}

// arrow returns the path of an arrow between two boxes.
func arrow(x, y, tx, ty float64) string {
	clip := func(x, y, tx, ty float64) (float64, float64) { // where the line leaves the box at x, y
		dx, dy := tx-x, ty-y
		s := math.Inf(1)
		if dx != 0 {
			s = math.Min(s, (boxWidth/2+4)/math.Abs(dx))
		}
		if dy != 0 {
			s = math.Min(s, (boxHeight/2+4)/math.Abs(dy))
		}
		return x + dx*s, y + dy*s
	}
	ax, ay := clip(x, y, tx, ty)
	bx, by := clip(tx, ty, x, y)
	a := math.Atan2(by-ay, bx-ax)
	wing := func(turn float64) (float64, float64) {
		return bx - 11*math.Cos(a+turn), by - 11*math.Sin(a+turn)
	}
	lx, ly := wing(0.4)
	rx, ry := wing(-0.4)
	return fmt.Sprintf("M%.0f %.0fL%.0f %.0fM%.0f %.0fL%.0f %.0fL%.0f %.0f", ax, ay, bx, by, lx, ly, bx, by, rx, ry)
}

package dashboard

import (
	"fmt"
	"strconv"
	"time"
)

// A timeline shows this much time, and at most so many clients.
const (
	timelineTime = 10 * time.Minute
	maxLanes     = 8
)

// narrowWidth is the width of narrow pictures: about that of a phone, so that their texts
// keep their size.
const narrowWidth = 320

// lanes are the measures of a timeline.
type lanes struct {
	id, class string
	width     int
	labels    int // the width of the labels beside the lanes; 0: they are above them
	lane, y   int // the height of a lane, and of the space above its bar
	letters   int // of a label
	tick      int // minutes between two labels of the axis
}

var timelines = []lanes{
	{id: "timeline", class: "wide", width: 1000, labels: 190, lane: 24, y: 3, letters: 28, tick: 2},
	{id: "timeline-narrow", class: "narrow", width: narrowWidth, lane: 38, y: 19, letters: 44, tick: 5},
}

// picture shows who held a lock when: one lane per client, the latest at the top.
func (l lanes) picture(spans []span, pauses []pause, now time.Time) picture {
	now = now.Truncate(time.Second)
	start := now.Add(-timelineTime)
	at := func(t time.Time) int {
		x := t.Sub(start).Milliseconds() * int64(l.width-l.labels) / timelineTime.Milliseconds()
		return l.labels + int(min(max(x, 0), int64(l.width-l.labels)))
	}
	var order []string // of lanes
	of := make(map[string][]span)
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		if s.to.Before(start) {
			continue
		}
		key := s.owner
		if s.client != nil {
			key = s.client.ID
		}
		if of[key] == nil {
			if len(order) == maxLanes {
				key = "" // the others
				if of[key] == nil {
					order = append(order, key)
				}
			} else {
				order = append(order, key)
			}
		}
		of[key] = append(of[key], s)
	}
	height := max(len(order), 1)*l.lane + 22
	p := picture{ID: l.id, Class: l.class, Title: "Who held the lock in the last 10 minutes", Width: l.width, Height: height}
	p.About = plural(len(order), "client") + ". The table of the last holders has the same data."
	for _, gap := range pauses {
		if x := at(gap.from); gap.to.After(start) && at(gap.to) > x {
			p.Shapes = append(p.Shapes, shape{Tag: "rect", X: x, W: at(gap.to) - x, H: height - 18, Class: "unseen", Hint: "no page was open"})
		}
	}
	for m := range 11 {
		x := at(start.Add(time.Duration(m) * time.Minute))
		p.Shapes = append(p.Shapes, shape{Tag: "line", X: x, Y: 0, W: x, H: height - 18, Class: "grid"})
		label := "−" + strconv.Itoa(10-m) + " min"
		anchor := "middle"
		switch {
		case m == 10:
			label, anchor = "now", "end"
		case x == 0:
			anchor = "start"
		}
		if m%l.tick == 0 {
			p.Shapes = append(p.Shapes, shape{Tag: "text", X: x, Y: height - 4, Class: "tick", Text: label, Anchor: anchor})
		}
	}
	if len(order) == 0 {
		p.Shapes = append(p.Shapes, shape{Tag: "text", X: l.width / 2, Y: 16, Class: "tick", Anchor: "middle", Text: "No holder was seen"})
	}
	for i, key := range order {
		y := i * l.lane
		label := "others"
		if key != "" {
			label = cut(clientCell(of[key][0].client, of[key][0].owner).Text, l.letters)
		}
		p.Shapes = append(p.Shapes, shape{Tag: "text", X: 0, Y: y + 16, Class: "lane", Text: label, Anchor: "start"})
		for _, s := range of[key] {
			to, class := s.to, "past"
			if s.open {
				to, class = now, "open"
			}
			x := at(s.from)
			hint := fmt.Sprintf("%s, %s to %s", visible(s.owner, 80), s.from.Format(time.TimeOnly), s.to.Format(time.TimeOnly))
			p.Shapes = append(p.Shapes, shape{Tag: "rect", X: x, Y: y + l.y, W: max(at(to)-x, 2), H: min(l.lane-l.y-3, 18), Class: class, Hint: hint})
		}
	}
	return p
}

// cut returns the beginning of a visible text.
func cut(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}

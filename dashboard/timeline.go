package dashboard

import (
	"fmt"
	"strconv"
	"time"
)

// The measures of a timeline.
const (
	timelineTime  = 10 * time.Minute
	timelineWidth = 1000
	laneLabels    = 190 // the width of the labels
	laneHeight    = 24
	maxLanes      = 8
)

// timelinePicture shows who held a lock when: one lane per client, the latest at the
// top.
func timelinePicture(spans []span, pauses []pause, now time.Time) picture {
	now = now.Truncate(time.Second)
	start := now.Add(-timelineTime)
	at := func(t time.Time) int {
		x := t.Sub(start).Milliseconds() * (timelineWidth - laneLabels) / timelineTime.Milliseconds()
		return laneLabels + int(min(max(x, 0), timelineWidth-laneLabels))
	}
	var order []string // of lanes
	lanes := make(map[string][]span)
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		if s.to.Before(start) {
			continue
		}
		key := s.owner
		if s.client != nil {
			key = s.client.ID
		}
		if lanes[key] == nil {
			if len(order) == maxLanes {
				key = "" // the others
				if lanes[key] == nil {
					order = append(order, key)
				}
			} else {
				order = append(order, key)
			}
		}
		lanes[key] = append(lanes[key], s)
	}
	height := max(len(order), 1)*laneHeight + 22
	p := picture{ID: "timeline", Title: "Who held the lock in the last 10 minutes", Width: timelineWidth, Height: height}
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
		if m == 10 {
			label, anchor = "now", "end"
		}
		if m%2 == 0 {
			p.Shapes = append(p.Shapes, shape{Tag: "text", X: x, Y: height - 4, Class: "tick", Text: label, Anchor: anchor})
		}
	}
	if len(order) == 0 {
		p.Shapes = append(p.Shapes, shape{Tag: "text", X: timelineWidth / 2, Y: 16, Class: "tick", Anchor: "middle", Text: "No holder was seen"})
	}
	for i, key := range order {
		y := i * laneHeight
		label := "others"
		if key != "" {
			label = clientCell(lanes[key][0].client, lanes[key][0].owner).Text
			label = cut(label, 28)
		}
		p.Shapes = append(p.Shapes, shape{Tag: "text", X: 0, Y: y + 16, Class: "lane", Text: label, Anchor: "start"})
		for _, s := range lanes[key] {
			to, class := s.to, "past"
			if s.open {
				to, class = now, "open"
			}
			x := at(s.from)
			hint := fmt.Sprintf("%s, %s to %s", visible(s.owner, 80), s.from.Format(time.TimeOnly), s.to.Format(time.TimeOnly))
			p.Shapes = append(p.Shapes, shape{Tag: "rect", X: x, Y: y + 3, W: max(at(to)-x, 2), H: laneHeight - 6, Class: class, Hint: hint})
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

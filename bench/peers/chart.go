package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/internal/load"
)

// colors of the lines. Each has enough contrast on white and on black.
var colors = map[string]string{
	sketched: "#8a8f98", leased: "#6e7681", mutex: "#2f81f7", wakeAll: "#3aa0a0", fairMutex: "#a371f7",
	redsyncs: "#d1742f", redislocks: "#b58900", rueidisl: "#e5534b",
}

// labels name the locks of Holdfast as such.
var labels = map[string]string{
	mutex: "Holdfast Mutex", wakeAll: "Holdfast, WakeAll", fairMutex: "Holdfast FairMutex", sketched: "sketch (upper bound)", leased: "sketch with leases",
}

// chart draws hand-offs per second over the number of clients, for critical sections of
// no length. Both axes are logarithmic.
func (rs results) chart() []byte {
	const width, height, left, right, top, bottom = 760, 420, 70, 170, 40, 50
	var ns []int
	low, high := math.Inf(1), 0.0
	for _, r := range rs {
		if r.Scenario != "crowd" || r.Section != 0 {
			continue
		}
		if !slices.Contains(ns, r.Clients) {
			ns = append(ns, r.Clients)
		}
		if v, _ := r.median(handoffRate); v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Hand-offs per second over the number of clients">
<style>text{font:13px system-ui,sans-serif;fill:#57606a}.grid{stroke:#8a8f98;stroke-opacity:.35}@media(prefers-color-scheme:dark){text{fill:#adb5bd}}</style>
<text x="%d" y="22">Hand-offs per second of one lock, by the number of clients that want it</text>
`, width, height, width, height, left)
	if len(ns) == 0 || high == 0 {
		return append(b.Bytes(), "</svg>\n"...)
	}
	slices.Sort(ns)
	low, high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	if low == high {
		high *= 10
	}
	first, last := float64(ns[0]), float64(max(ns[len(ns)-1], ns[0]+1))
	x := func(n int) float64 {
		return left + (width-left-right)*math.Log(float64(n)/first)/math.Log(last/first)
	}
	y := func(v float64) float64 {
		return height - bottom - (height-top-bottom)*math.Log(v/low)/math.Log(high/low)
	}
	for v := low; v <= high*1.01; v *= 10 {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y(v), width-right, y(v), left-8, y(v)+4, load.Number(v, 0))
	}
	for _, n := range ns {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n",
			x(n), top, x(n), height-bottom, x(n), height-bottom+18, n)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">clients</text>`+"\n", left+(width-left-right)/2, height-12)
	type label struct {
		lock string
		y    float64
	}
	var ends []label
	for _, lock := range waiting {
		line, end := "", 0.0
		for _, n := range ns {
			if v, ok := rs.figure("crowd", lock, point{n: n}, handoffRate); ok && v > 0 {
				line += fmt.Sprintf("%.1f,%.1f ", x(n), y(v))
				end = y(v)
			}
		}
		if line == "" {
			continue
		}
		stroke := 2.0
		if lock == mutex {
			stroke = 3.5
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round" points="%s"/>`+"\n", colors[lock], stroke, line[:len(line)-1])
		ends = append(ends, label{lock, end})
	}
	// The labels are at the ends of the lines, and far enough from each other.
	slices.SortFunc(ends, func(a, b label) int { return int(math.Copysign(1, a.y-b.y)) })
	const gap = 17
	for i := range ends {
		if i > 0 {
			ends[i].y = max(ends[i].y, ends[i-1].y+gap)
		}
	}
	for i := len(ends) - 1; i >= 0; i-- {
		limit := float64(height - bottom)
		if i+1 < len(ends) {
			limit = ends[i+1].y - gap
		}
		ends[i].y = min(ends[i].y, limit)
	}
	for _, e := range ends {
		name := labels[e.lock]
		if name == "" {
			name = e.lock
		}
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" style="fill:%s">%s</text>`+"\n", width-right+8, e.y+4, colors[e.lock], name)
	}
	return append(b.Bytes(), "</svg>\n"...)
}

package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/load"
)

// A row has all measurements of one lock at one point.
type row struct {
	Scenario  string        `json:"scenario"`
	Lock      string        `json:"lock"`
	Clients   int           `json:"clients,omitempty"`
	Section   time.Duration `json:"sectionNanoseconds"`
	Measured  []figures     `json:"measured"`
	Violation int           `json:"violations"` // in all measurements
}

// median returns the median of a figure over the measurements.
func (r *row) median(figure string) (float64, bool) {
	var list []float64
	for _, f := range r.Measured {
		if v, ok := f[figure]; ok {
			list = append(list, v)
		}
	}
	return load.Median(list)
}

// ratio returns the median of the ratios of a figure to another one. Each ratio belongs to
// one round, because the machine may be twice as fast in one round as in another. If a lock
// was left out of a round, ratio returns the ratio of the medians. It returns false if one of
// the figures was not measured.
func ratio(of *row, figure string, over *row, other string) (float64, bool) {
	if of == nil || over == nil {
		return 0, false
	}
	if len(of.Measured) == len(over.Measured) {
		var list []float64
		for i, f := range of.Measured {
			v, ok := f[figure]
			if d := over.Measured[i][other]; ok && d > 0 {
				list = append(list, v/d)
			}
		}
		return load.Median(list)
	}
	v, ok := of.median(figure)
	d, measured := over.median(other)
	return v / d, ok && measured && d > 0
}

// results are all rows of a run.
type results []*row

// at returns the row of a measurement and adds it if there is none.
func (rs *results) at(scenario, lock string, p point) *row {
	if r := rs.row(scenario, lock, p); r != nil {
		return r
	}
	r := &row{Scenario: scenario, Lock: lock, Clients: p.n, Section: p.hold}
	*rs = append(*rs, r)
	return r
}

func (rs results) row(scenario, lock string, p point) *row {
	for _, r := range rs {
		if r.Scenario == scenario && r.Lock == lock && r.Clients == p.n && r.Section == p.hold {
			return r
		}
	}
	return nil
}

// figure returns a median, or false if it was not measured.
func (rs results) figure(scenario, lock string, p point, figure string) (float64, bool) {
	r := rs.row(scenario, lock, p)
	if r == nil {
		return 0, false
	}
	return r.median(figure)
}

// A column of a table is a figure, or its ratio to that of another lock.
type column struct {
	figure string
	over   string
	digits int
}

func (c column) head() string {
	if c.over == "" {
		return c.figure
	}
	return "/ " + c.over
}

// table writes the rows of a scenario.
func (rs results) table(w io.Writer, s scenario) {
	var points []point
	for _, r := range rs {
		if p := (point{r.Clients, r.Section}); r.Scenario == s.name && !slices.Contains(points, p) {
			points = append(points, p)
		}
	}
	if len(points) == 0 {
		return
	}
	sections := slices.ContainsFunc(points, func(p point) bool { return p.hold > 0 })
	var head []string
	if sections {
		head = append(head, "section")
	}
	numbered := points[0].n > 0
	if numbered {
		head = append(head, "n")
	}
	head = append(head, "lock")
	for _, c := range s.columns {
		head = append(head, c.head())
	}
	lines := [][]string{head}
	for _, p := range points {
		for _, lock := range s.locks {
			r := rs.row(s.name, lock, p)
			if r == nil {
				continue
			}
			var cells []string
			if sections {
				cells = append(cells, p.hold.String())
			}
			if numbered {
				cells = append(cells, load.Number(float64(p.n), 0))
			}
			cells = append(cells, lock)
			for _, c := range s.columns {
				cells = append(cells, rs.cell(s.name, r, p, c))
			}
			lines = append(lines, cells)
		}
	}
	fmt.Fprintf(w, "\n## %s: %s\n\n", s.name, s.title)
	load.Table(w, lines)
}

// compare writes the figures of this run beside those of an earlier one.
func (rs results) compare(w io.Writer, earlier results) {
	lines := [][]string{{"scenario", "n", "section", "lock", "figure", "earlier", "now", "ratio"}}
	for _, s := range scenarios {
		for _, r := range rs {
			p := point{r.Clients, r.Section}
			for _, c := range s.columns {
				v, measured := r.median(c.figure)
				before, known := earlier.figure(s.name, r.Lock, p, c.figure)
				if r.Scenario != s.name || c.over != "" || c.figure == violations || !measured || !known {
					continue
				}
				ratio := ""
				if before > 0 {
					ratio = load.Number(v/before, 2)
				}
				lines = append(lines, []string{
					s.name, load.Number(float64(p.n), 0), p.hold.String(), r.Lock, c.figure, load.Number(before, c.digits), load.Number(v, c.digits), ratio,
				})
			}
		}
	}
	fmt.Fprint(w, "\n## Beside the earlier run\n\n")
	load.Table(w, lines)
}

func (rs results) cell(scenario string, r *row, p point, c column) string {
	if c.figure == violations {
		return load.Number(float64(r.Violation), 0)
	}
	v, ok := r.median(c.figure)
	if c.over != "" {
		v, ok = ratio(r, c.figure, rs.row(scenario, c.over, p), c.figure)
	}
	if !ok {
		return ""
	}
	return load.Number(v, c.digits)
}

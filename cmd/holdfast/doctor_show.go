package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// doctorStyles maps each severity to its colour.
var doctorStyles = map[holdfast.Severity]term.Style{holdfast.SeverityInfo: term.Cyan, holdfast.SeverityWarning: term.Yellow, holdfast.SeverityDanger: term.Red}

// show prints the result as text.
func (e *doctorReport) show(s *term.Screen) {
	table := term.Table{Titles: []string{"SERVER", "VERSION", "ROLE", " REPLICAS", " UP", " ROUND TRIP", " CLOCK"}}
	for _, v := range e.Servers {
		if v.Error != "" {
			table.Add(term.Quote(v.Node, 60), "?", "?", "?", "?", "?", "?")
			continue
		}
		rtt := "?"
		if v.RoundTripMs != nil {
			rtt = fmt.Sprintf("%.2f ms", *v.RoundTripMs)
		}
		table.Add(term.Quote(v.Node, 60), term.Quote(v.Version, 20), term.Quote(v.Role, 20), fmt.Sprint(v.Replicas),
			doctorUptime(time.Duration(v.UptimeMs)*time.Millisecond), rtt, fmt.Sprintf("%+.1f ms", v.ClockAheadMs))
	}
	fmt.Fprintf(s, "Topology: %s\n\n", e.Topology)
	table.Write(s)
	for _, f := range e.Findings {
		fmt.Fprintf(s, "\n%s %s, %s: %s.\n", s.Paint(doctorStyles[f.severity], fmt.Sprintf("%-8s", f.Severity)), term.Quote(f.Node, 60), f.Topic, sentence(f.Text))
		fmt.Fprintf(s, "         To change it: %s\n", s.Paint(term.Bold, sentence(f.Change)))
	}
	if len(e.Findings) == 0 {
		fmt.Fprintf(s, "\n%s\n", s.Paint(term.Green, "No findings: locks on this server are reliable."))
	}
}

// sentence returns text from a server on one line, with control characters
// escaped.
func sentence(text string) string { return harmless(strings.Join(strings.Fields(text), " ")) }

// doctorUptime formats a duration with its two largest units.
func doctorUptime(d time.Duration) string {
	day := 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

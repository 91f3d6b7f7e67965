package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

// lsDeadlocks returns the deadlocks that clients have found. They are not essential: if they
// cannot be listed, it returns those that were found until then.
func (q *lsQuery) deadlocks(ctx context.Context, i *inspect.Inspector) []inspect.Deadlock {
	all := q.Query
	all.Match = ""
	found := []inspect.Deadlock{}
	for d, err := range i.Deadlocks(ctx, all) {
		if err != nil {
			break
		}
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b inspect.Deadlock) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// lsDeadlocks is the maximum number of deadlocks that are described.
const lsDeadlocks = 20

// lsDeadlockText describes deadlocks, a call per line.
func lsDeadlockText(s *term.Screen, found []inspect.Deadlock, now time.Time) string {
	var b strings.Builder
	for _, d := range found[:min(len(found), lsDeadlocks)] {
		fmt.Fprintf(&b, "\n%s of %s:\n", s.Paint(term.Red, "DEADLOCK"), plural(len(d.Calls), "call"))
		for _, c := range d.Calls {
			var holds, wants []string
			for _, h := range c.Holds {
				if h.Wanted {
					holds = append(holds, lsName(h.Name, lsMaxWidth))
				}
			}
			for _, w := range c.Wants {
				wants = append(wants, lsName(w.Name, lsMaxWidth))
			}
			fmt.Fprintf(&b, "  %s holds %s and waits for %s (for %s)\n", term.Quote(c.Who, lsMaxWidth), strings.Join(holds, " and "), strings.Join(wants, " and "), lsDuration(max(now.Sub(c.Since), 0)))
		}
	}
	if more := len(found) - lsDeadlocks; more > 0 {
		fmt.Fprintf(&b, "\nand %s: ls --json lists them\n", plural(more, "more deadlock"))
	}
	return b.String()
}

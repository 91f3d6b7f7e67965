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

// lsDeadlockText describes deadlocks, a call per line.
func lsDeadlockText(s *term.Screen, found []inspect.Deadlock, now time.Time) string {
	var b strings.Builder
	for _, d := range found {
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
	return b.String()
}

// An lsDeadlock is the JSON form of a deadlock.
type lsDeadlock struct {
	ID    string   `json:"id"`
	Found string   `json:"found"`
	Calls []lsCall `json:"calls"`
}

type lsCall struct {
	Client string        `json:"client"`
	Who    string        `json:"who"`
	Since  string        `json:"since"`
	Holds  []lsHeldLock  `json:"holds"`
	Wants  []lsNamedLock `json:"wants"`
}

type lsNamedLock struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type lsHeldLock struct {
	lsNamedLock
	Owner  string `json:"owner"`
	Wanted bool   `json:"wanted"`
}

func lsDeadlocksOf(found []inspect.Deadlock) []lsDeadlock {
	list := make([]lsDeadlock, len(found)) // not nil: JSON would show null
	for i, d := range found {
		list[i] = lsDeadlock{ID: d.ID, Found: d.Found.UTC().Format(time.RFC3339Nano)}
		for _, c := range d.Calls {
			call := lsCall{Client: c.Client, Who: c.Who, Since: c.Since.UTC().Format(time.RFC3339Nano)}
			for _, h := range c.Holds {
				call.Holds = append(call.Holds, lsHeldLock{lsNamedLock{h.Kind, h.Name}, h.Owner, h.Wanted})
			}
			for _, w := range c.Wants {
				call.Wants = append(call.Wants, lsNamedLock{w.Kind, w.Name})
			}
			list[i].Calls = append(list[i].Calls, call)
		}
	}
	return list
}

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

const (
	lsWidest  = 120 // columns that a name or an owner may take where nobody is looking
	lsHolders = 8   // of one lock that are listed
)

// lsTable returns the locks as a table, a line for each holder. Those that fresh
// returns true for stand out.
func lsTable(locks []inspect.Lock, fresh func(inspect.Lock, inspect.Holder) bool) *term.Table {
	t := &term.Table{Titles: []string{"NAME", "KIND", "HELD BY", " EXPIRES IN", "WAITING", " HOLDS"}, Shrink: []int{0, 2}}
	for _, lock := range locks {
		name, waiting := lsName(lock.Name, lsWidest), lsWaiting(lock)
		for _, h := range lock.Holders[:min(len(lock.Holders), lsHolders)] {
			style := term.Plain
			if fresh != nil && fresh(lock, h) {
				style = term.Green
			}
			t.Rows = append(t.Rows, []term.Cell{
				{Text: name, Style: style},
				{Text: lsKind(lock, h)},
				lsOwnerCell(h.Owner, style),
				{Text: lsDuration(h.TTL), Style: lsUrgency(h.TTL)},
				{Text: waiting},
				{Text: strconv.Itoa(h.Holds)},
			})
			name, waiting = "", ""
		}
		if len(lock.Holders) > lsHolders || lock.More > 0 && len(lock.Queue) == 0 {
			t.Rows = append(t.Rows, []term.Cell{{Text: name}, {}, {Text: "and more: holdfast show", Style: term.Dim}})
		}
	}
	return t
}

// lsOwnerCell returns a cell in which the number after the client stays when it
// is cut: it is what tells the owners of one client apart.
func lsOwnerCell(owner string, style term.Style) term.Cell {
	c := term.Cell{Text: term.Quote(owner, lsWidest), Style: style}
	if i := strings.LastIndexByte(c.Text, ':'); i >= 0 {
		c.Tail = len(c.Text) - i
	}
	return c
}

// lsName returns the name of a lock for people.
func lsName(name string, max int) string {
	if name == "" {
		return `""`
	}
	return term.Quote(name, max)
}

func lsKind(lock inspect.Lock, h inspect.Holder) string {
	if lock.Kind == inspect.RW {
		return string(lock.Kind) + " " + string(h.Mode)
	}
	return string(lock.Kind)
}

// lsWaiting says how many wait. Those in a queue are known one by one; of
// others, the server knows the clients that they belong to.
func lsWaiting(lock inspect.Lock) string {
	switch {
	case len(lock.Queue) > 0:
		return fmt.Sprint(lsQueued(lock), " queued")
	case lock.Clients < 0:
		return "?"
	case lock.Clients == 0:
		return ""
	}
	return plural(lock.Clients, "client")
}

// lsQueued returns how many wait in a queue, whether they are listed or not. A
// lock with a queue has one holder.
func lsQueued(lock inspect.Lock) int {
	if len(lock.Queue) == 0 {
		return 0
	}
	return len(lock.Queue) + lock.More
}

// lsFree reports whether nobody holds a lock. If all that were looked at are dead
// readers, one of the others may hold it; a lock with a queue has none.
func lsFree(lock inspect.Lock) bool {
	return len(lock.Holders) == 0 && (lock.More == 0 || len(lock.Queue) > 0)
}

// lsDuration returns the time that a hold has left, in a few characters.
func lsDuration(d time.Duration) string {
	switch minutes := d / time.Minute; {
	case d < 0:
		return "never"
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", minutes, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%dd%02dh", minutes/60/24, minutes/60%24)
	}
}

// lsUrgency returns the style of a hold that ends soon. A watchdog renews long
// before that, so its owner may be dead.
func lsUrgency(d time.Duration) term.Style {
	switch {
	case d < 0 || d >= 10*time.Second:
		return term.Plain
	case d >= 3*time.Second:
		return term.Yellow
	}
	return term.Red
}

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
	"github.com/holdfast-go/holdfast/inspect"
)

const (
	lsMaxWidth = 120 // maximum width of a name or owner without a terminal
	lsHolders  = 8   // maximum number of holders listed per lock
)

// lsTable returns the locks as a table with a row per holder, and a row for each
// lock without holders. It highlights the holders for which fresh returns true. It has
// a column for the number of holds only if a holder has several.
func lsTable(locks []inspect.Lock, fresh func(inspect.Lock, inspect.Holder) bool) *term.Table {
	t := &term.Table{Titles: []string{"NAME", "KIND", "HELD BY", " EXPIRES IN", "WAITING"}, Shrink: []int{0, 2}}
	if several := slices.ContainsFunc(locks, lsReentered); several {
		t.Titles = append(t.Titles, " HOLDS")
	}
	for _, lock := range locks {
		name, waiting := lsName(lock.Name, lsMaxWidth), lsWaiting(lock)
		for _, h := range lock.Holders[:min(len(lock.Holders), lsHolders)] {
			style := term.Plain
			if fresh != nil && fresh(lock, h) {
				style = term.Green
			}
			row := []term.Cell{
				{Text: name, Style: style},
				{Text: lsKind(lock, h)},
				lsHolderCell(lock, h, style),
				{Text: lsDuration(h.TTL), Style: lsExpiryStyle(h.TTL)},
				{Text: waiting},
				{Text: strconv.Itoa(h.Holds)},
			}
			t.Rows = append(t.Rows, row[:len(t.Titles)])
			name, waiting = "", ""
		}
		switch {
		case lsFree(lock):
			t.Rows = append(t.Rows, []term.Cell{{Text: name}, {Text: string(lock.Kind)}, {Text: lsHeldByNone(lock), Style: term.Dim}, {}, {Text: waiting}})
		case len(lock.Holders) > lsHolders || lsUnlisted(lock) > 0:
			t.Rows = append(t.Rows, []term.Cell{{Text: name}, {}, {Text: "more: holdfast show", Style: term.Dim}})
		}
	}
	return t
}

// lsReentered reports whether a lock has a holder with several holds.
func lsReentered(lock inspect.Lock) bool {
	return slices.ContainsFunc(lock.Holders, func(h inspect.Holder) bool { return h.Holds != 1 })
}

// lsHolderCell returns the cell of a holder: its client, or its owner if the client has
// not said who it is. If the cell is cut, it keeps the process id.
func lsHolderCell(lock inspect.Lock, h inspect.Holder, style term.Style) term.Cell {
	if lock.Kind == plainKind {
		return term.Cell{Text: "another library", Style: style}
	}
	if h.Client.Known() {
		pid := fmt.Sprintf(", pid %d)", h.Client.PID)
		about, ok := strings.CutSuffix(h.Client.String(), pid)
		if !ok {
			return term.Cell{Text: term.Quote(about, lsMaxWidth), Style: style}
		}
		return term.Cell{Text: term.Quote(about, lsMaxWidth-len(pid)) + pid, Style: style, Tail: len(pid)}
	}
	return lsOwnerCell(h.Owner, style)
}

// lsOwnerCell returns the cell of an owner. If the cell is cut, it keeps the
// number at the end, which distinguishes the owners of one client.
func lsOwnerCell(owner string, style term.Style) term.Cell {
	c := term.Cell{Text: term.Quote(owner, lsMaxWidth), Style: style}
	if i := strings.LastIndexByte(c.Text, ':'); i >= 0 {
		c.Tail = len(c.Text) - i
	}
	return c
}

// lsName returns the name of a lock for display.
func lsName(name string, max int) string {
	if name == "" {
		return `""`
	}
	return term.Quote(name, max)
}

func lsKind(lock inspect.Lock, h inspect.Holder) string {
	if lock.Kind == inspect.RW {
		return string(h.Mode) + " lock"
	}
	return string(lock.Kind)
}

// lsWaiting returns how many wait for a lock. A queue lists its waiters. For those
// that do not queue, the server only knows the number of waiting clients.
func lsWaiting(lock inspect.Lock) string {
	switch {
	case lsQueued(lock) > 0:
		return fmt.Sprint(lsQueued(lock), " queued")
	case lock.Clients < 0:
		return "?"
	case lock.Clients == 0:
		return ""
	}
	return plural(lock.Clients, "client")
}

// lsQueued returns the length of the queues, including waiters that are not listed. If
// it is unknown, the waiters that are listed count.
func lsQueued(lock inspect.Lock) int { return max(lock.Queued, len(lock.Queue)) }

// lsUnlisted returns the number of holders that are not listed.
func lsUnlisted(lock inspect.Lock) int { return lock.More - lsQueued(lock) + len(lock.Queue) }

// lsFree reports whether a lock has no holder. If all readers that were checked
// have expired, another reader may hold it.
func lsFree(lock inspect.Lock) bool { return len(lock.Holders) == 0 && lsUnlisted(lock) <= 0 }

// lsHeldByNone returns what to show instead of holders. A semaphore without taken
// permits need not have free ones.
func lsHeldByNone(lock inspect.Lock) string {
	if lock.Kind == inspect.Semaphore {
		return "none"
	}
	return "free"
}

// lsDuration formats the remaining time of a hold in a few characters.
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

// lsExpiryStyle returns the style for the remaining time of a hold. A watchdog renews
// a hold long before it expires, so an owner with little time left may be dead.
func lsExpiryStyle(d time.Duration) term.Style {
	switch {
	case d < 0 || d >= 10*time.Second:
		return term.Plain
	case d >= 3*time.Second:
		return term.Yellow
	}
	return term.Red
}

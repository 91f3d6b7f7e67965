package sale

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/term"
)

// A Way is one way to run the sale: a lock, with or without a pause and fencing.
type Way struct {
	Name  string // for flags and JSON
	Title string // for display
	Row   string // short title, for the table
	Ours  bool   // the result must be spotless
	Pause bool   // one shop is stopped while it holds the lock
	guard bool   // the database checks the tokens
	lock  func(*shop) lock
}

var all = []Way{
	{Name: "none", Title: "no lock", Row: "no lock", lock: noLock},
	{Name: "setnx", Title: "naive SETNX lock", Row: "naive SETNX", lock: setnxLock},
	{Name: "mutex", Title: "Holdfast's mutex", Row: "Holdfast", lock: mutexLock, Ours: true},
	{Name: "paused", Title: "Holdfast, one shop paused", Row: "+ paused shop", lock: mutexLock, Pause: true},
	{Name: "fenced", Title: "Holdfast, one shop paused, with fencing", Row: "+ fencing", lock: mutexLock, Pause: true, guard: true, Ours: true},
}

// Ways returns the ways that this system supports, in order.
func Ways() []Way {
	return slices.DeleteFunc(slices.Clone(all), func(w Way) bool { return w.Pause && !CanPause })
}

// Choose returns the ways with these names, or all if there are no names.
func Choose(names []string) ([]Way, error) {
	if len(names) == 0 {
		return Ways(), nil
	}
	var chosen []Way
	for _, w := range Ways() {
		if slices.Contains(names, w.Name) {
			chosen = append(chosen, w)
		}
	}
	for _, name := range names {
		if _, err := find(name); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// Names returns the names of the ways.
func Names() (names []string) {
	for _, w := range Ways() {
		names = append(names, w.Name)
	}
	return names
}

func find(name string) (Way, error) {
	for _, w := range Ways() {
		if w.Name == name {
			return w, nil
		}
	}
	return Way{}, fmt.Errorf("unknown way %s: choose from %s", term.Quote(name, 40), strings.Join(Names(), ", "))
}

// lease returns the lease time of the lock; zero means the default. It is short if
// a shop is stopped, because the other shops wait until the lease is over.
func (w Way) lease() time.Duration {
	if w.Pause {
		return 2 * time.Second
	}
	return 0
}

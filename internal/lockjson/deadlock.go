package lockjson

import (
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

// A Deadlock is the JSON form of a deadlock.
type Deadlock struct {
	ID    string    `json:"id"`
	Found time.Time `json:"found"`
	Calls []Call    `json:"calls"`
}

// A Call is the JSON form of a call that is part of a deadlock.
type Call struct {
	Client string       `json:"client"`
	Who    string       `json:"who"`
	Since  time.Time    `json:"since"`
	Holds  []HeldLock   `json:"holds"`
	Wants  []WantedLock `json:"wants"`
}

// A WantedLock is the JSON form of a lock that a call waits for.
type WantedLock struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// A HeldLock is the JSON form of a lock that a call holds.
type HeldLock struct {
	WantedLock
	Owner  string `json:"owner"`
	Wanted bool   `json:"wanted"`
}

// Deadlocks returns the JSON form of deadlocks.
func Deadlocks(found []inspect.Deadlock) []Deadlock {
	list := make([]Deadlock, len(found)) // not nil: JSON would show null
	for i, d := range found {
		list[i] = Deadlock{ID: d.ID, Found: d.Found.UTC(), Calls: []Call{}}
		for _, c := range d.Calls {
			call := Call{Client: c.Client, Who: c.Who, Since: c.Since.UTC(), Holds: []HeldLock{}, Wants: []WantedLock{}}
			for _, h := range c.Holds {
				call.Holds = append(call.Holds, HeldLock{WantedLock{h.Kind, h.Name}, h.Owner, h.Wanted})
			}
			for _, w := range c.Wants {
				call.Wants = append(call.Wants, WantedLock{w.Kind, w.Name})
			}
			list[i].Calls = append(list[i].Calls, call)
		}
	}
	return list
}

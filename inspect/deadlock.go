package inspect

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Deadlock is a cycle of calls: each holds a lock and waits for one that the next call
// holds. The last one waits for a lock that the first one holds.
type Deadlock struct {
	ID    string
	Found time.Time // when it was last confirmed, by the clock of a client
	Calls []BlockedCall
}

// A BlockedCall is a call that holds locks and waits for others.
type BlockedCall struct {
	Client string // the id of its client
	Who    string // the process of the client in words
	Holds  []HeldLock
	Wants  []WantedLock
	Since  time.Time // since when it waits, by the clock of its process
}

// A HeldLock is a lock that a call holds.
type HeldLock struct {
	Kind, Name string // the kind as in errors, such as "mutex"
	Owner      string
	Wanted     bool // the call before in the cycle waits for it
}

// A WantedLock is a lock that a call waits for.
type WantedLock struct{ Kind, Name string }

// Deadlocks lists the deadlocks that clients of Holdfast have found and that still existed
// ten seconds ago, in no particular order. It scans the keys of all masters, as
// [Inspector.Locks] does, and returns the same errors. A deadlock over several servers is
// stored at one or some of them.
func (i *Inspector) Deadlocks(ctx context.Context, q Query) iter.Seq2[Deadlock, error] {
	return list(ctx, i, q, "deadlocks", script.DeadlockWalk(), looker(ctx, i.driver, script.LookAtDeadlock, newDeadlock))
}

// newDeadlock decodes a deadlock. It returns false if it was resolved.
func newDeadlock(id string, r driver.Reply) (found Deadlock, ok bool, err error) {
	stored, ok, err := script.DecodeDeadlock(r)
	if err != nil || !ok {
		return found, false, err
	}
	found = Deadlock{ID: id, Found: time.UnixMicro(stored.Found)}
	for n, w := range stored.Waits {
		before := stored.Waits[(n+len(stored.Waits)-1)%len(stored.Waits)]
		c := BlockedCall{Client: w.Client, Who: w.Who, Since: time.UnixMicro(w.Since)}
		for _, h := range w.Holds {
			c.Holds = append(c.Holds, HeldLock{h.Kind, h.Name, h.Owner, slices.Contains(before.By, h.Owner)})
		}
		for _, l := range w.Wants {
			c.Wants = append(c.Wants, WantedLock{l.Kind, l.Name})
		}
		found.Calls = append(found.Calls, c)
	}
	return found, true, nil
}

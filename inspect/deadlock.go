package inspect

import (
	"context"
	"iter"
	"slices"
	"time"

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
	return func(yield func(Deadlock, error) bool) {
		l := &listing{Inspector: i, ctx: ctx, seen: make(map[string]bool)}
		err := l.limits(q)
		if err == nil {
			err = l.walkAll([]script.Walk{script.DeadlockWalk()}, func(ids []string) error {
				for _, id := range ids {
					if l.seen[id] {
						continue
					}
					l.seen[id] = true
					found, err := i.deadlock(ctx, id)
					if err != nil {
						return err
					}
					if found == nil {
						continue // resolved
					}
					if !give(l, *found, found.size(), yield) {
						return nil
					}
				}
				return nil
			})
		}
		if err = l.incomplete(err); err != nil && !l.ended {
			yield(Deadlock{}, explain("list deadlocks", err))
		}
	}
}

// deadlock reads a deadlock. It returns nil if there is none with that id.
func (i *Inspector) deadlock(ctx context.Context, id string) (*Deadlock, error) {
	r, err := i.driver.Do(ctx, script.LookAtDeadlock(id))
	if err != nil {
		return nil, err
	}
	stored, ok, err := script.DecodeDeadlock(r)
	if err != nil || !ok {
		return nil, err
	}
	found := &Deadlock{ID: id, Found: time.UnixMicro(stored.Found)}
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
	return found, nil
}

// Package deadlock finds deadlocks between calls of several processes. A deadlock is a cycle
// of calls: each holds a lock and waits for one that the next call holds.
package deadlock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// A Lock is a lock that a call waits for or holds.
type Lock struct {
	Client     *Client
	Kind, Name string
	Owner      string // of the call that holds it
}

// A Call is a call that waits for locks while its context holds others.
type Call struct {
	Client *Client
	Since  time.Time
	Wants  []Lock
	Holds  func() []Lock // what the context of the call holds now
	Found  func(Cycle)   // is called in every round in which the deadlock is confirmed
}

// A Cycle is a deadlock. Each of the waits wants a lock that the next one holds. All of its
// calls describe it in the same order.
type Cycle struct {
	Waits []script.Wait
	New   bool // it was not found before
	End   bool // this is the call to end
}

package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Wait is a call that waits for locks while its context holds others. Clients publish
// their waits to find deadlocks. What is published is only evidence: it may be out of date.
type Wait struct {
	ID     string         `json:"id"`
	Seq    int            `json:"seq"`   // how often it was published
	Since  int64          `json:"since"` // Unix time in µs, by the clock of the client
	Client string         `json:"client"`
	Who    string         `json:"who"` // the client in words
	Holds  few[HeldLock]  `json:"holds"`
	Wants  few[LockName]  `json:"wants"`
	By     few[string]    `json:"by"`            // the owners that hold what it wants
	Ends   bool           `json:"ends"`          // it can be ended to resolve a deadlock
	Saw    map[string]int `json:"saw,omitempty"` // the Seq of other waits that were read before By
	Age    int64          `json:"age,omitempty"` // of a copy: for how many ms clients have passed it on
}

// A LockName names a lock.
type LockName struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// A HeldLock is a lock that a wait holds.
type HeldLock struct {
	LockName
	Owner string `json:"owner"`
}

// Waits are a wait and those that it has read.
type Waits struct {
	Wait
	Known few[Wait] `json:"known,omitempty"`
}

// A Deadlock is a cycle of waits: each wants a lock that the next one holds.
type Deadlock struct {
	ID    string    `json:"id"`
	Found int64     `json:"found"` // Unix time in µs, by the clock of the client that has found it
	Waits few[Wait] `json:"waits"`
}

// few is a list. At most maxWaits of its elements are decoded: the length of the text does
// not bound the memory, since three bytes of JSON can be an element of 200 bytes.
type few[T any] []T

// UnmarshalJSON decodes the first elements of a list.
func (l *few[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start == nil { // nil: null
		return err
	} else if start != json.Delim('[') {
		return errors.New("not a list")
	}
	for d.More() && len(*l) < maxWaits {
		var element T
		if err := d.Decode(&element); err != nil {
			return err
		}
		*l = append(*l, element)
	}
	return nil
}

const (
	maxWaits    = 32    // how many waits are published with one, and the most elements of a list
	maxWaitText = 16384 // bytes

	blockedPrefix  = "holdfast:blocked:"
	deadlockPrefix = "holdfast:deadlock:"
)

// Publish returns the calls that store the waits under each owner that the first one has at
// a server.
func (w Waits) Publish(owners []string, ttl time.Duration) []driver.Call {
	w.Known = w.Known[:min(len(w.Known), maxWaits)]
	text, _ := json.Marshal(w)
	if len(text) > maxWaitText {
		w.Known = nil
		text, _ = json.Marshal(w)
	}
	calls := make([]driver.Call, len(owners))
	for i, owner := range owners {
		calls[i] = driver.Call{Script: valueSet, Keys: []string{blockedPrefix + owner}, Args: append([]string{string(text)}, lasting(ttl)...)}
	}
	return calls
}

// LookAtWait returns the call that reads the waits of an owner. DecodeWaits decodes the
// reply.
func LookAtWait(owner string) driver.Call {
	return driver.Call{Script: clientGet, Keys: []string{blockedPrefix + owner}, Args: []string{strconv.Itoa(maxWaitText)}}
}

// DecodeWaits decodes the reply to LookAtWait. It returns false if there is none.
func DecodeWaits(r driver.Reply) (Waits, bool, error) {
	w, ok, err := decodeJSON[Waits](r)
	w.clean()
	for i := range w.Known {
		w.Known[i].clean()
	}
	return w, ok && w.ID != "", err
}

// Publish returns the call that stores a deadlock.
func (d Deadlock) Publish(ttl time.Duration) driver.Call {
	text, _ := json.Marshal(d)
	return driver.Call{Script: valueSet, Keys: []string{deadlockPrefix + d.ID}, Args: append([]string{string(text)}, lasting(ttl)...)}
}

// LookAtDeadlock returns the call that reads a deadlock. DecodeDeadlock decodes the reply.
func LookAtDeadlock(id string) driver.Call {
	return driver.Call{Script: clientGet, Keys: []string{deadlockPrefix + id}, Args: []string{strconv.Itoa(maxWaitText)}}
}

// DecodeDeadlock decodes the reply to LookAtDeadlock. It returns false if there is none. Waits
// without an id are left out.
func DecodeDeadlock(r driver.Reply) (Deadlock, bool, error) {
	d, ok, err := decodeJSON[Deadlock](r)
	d.Waits = slices.DeleteFunc(d.Waits, func(w Wait) bool { return w.ID == "" })
	for i := range d.Waits {
		d.Waits[i].clean()
	}
	return d, ok && d.ID != "" && len(d.Waits) > 0, err
}

// DeadlockWalk is the walk that finds the ids of deadlocks.
func DeadlockWalk() Walk { return prefixWalk(deadlockPrefix) }

// decodeJSON decodes a reply of client_get. What is not JSON of that type is ignored.
func decodeJSON[T any](r driver.Reply) (v T, ok bool, err error) {
	text, ok, err := DecodeValue(r)
	if err != nil || !ok {
		return v, false, err
	}
	if json.Unmarshal([]byte(text), &v) != nil {
		var none T
		return none, false, nil
	}
	return v, true, nil
}

// clean removes from all texts what does not belong into a line, and locks whose names are too
// long to be names.
func (w *Wait) clean() {
	w.Who, w.Client = word(w.Who), word(w.Client)
	w.Holds = slices.DeleteFunc(w.Holds, func(l HeldLock) bool { return l.long() || len(l.Owner) > MaxName })
	w.Wants = slices.DeleteFunc(w.Wants, LockName.long)
	for i := range w.Holds {
		w.Holds[i].Kind = word(w.Holds[i].Kind)
	}
	for i := range w.Wants {
		w.Wants[i].Kind = word(w.Wants[i].Kind)
	}
}

func (n LockName) long() bool { return len(n.Name) > MaxName }

package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A unit is the wants that one script acquires. If there are several, the unit is what an
// acquisition asks for.
type unit struct {
	e       *Engine
	wants   []*Want
	mutexes bool // all of them are mutexes

	divisible bool          // after groupTime the call queues for one of several locks: see multi_queue.go
	since     time.Duration // when the server refused the call for the first time
	blocker   *Want         // what was held after groupTime
	whole     bool          // the call is for no other locks
	gate      *gate         // whose turn the call keeps then, if the group is whole
}

// take acquires the wants of a unit.
func (u *unit) take(calls, waiting context.Context, r Request) error {
	e := u.e
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	a := acquisition{e: e, r: r, waiting: waiting, asking: calls, once: r.Wait == 0, long: longWait{caller: r.Caller}}
	if len(u.wants) == 1 {
		w := u.wants[0]
		k := e.withQueue(w.Kind)
		a.k, a.traits, a.r.Under = k, k.Traits(), w.Under
		var err error
		w.Hold, err = a.run(k, w.User)
		return err
	}
	a.k, a.traits, a.group = u, u.Traits(), u.wants
	if !a.once {
		a.turn.gate = e.gate(u.Gate())
		defer func() {
			if u.gate == nil {
				e.leaveGate(a.turn.gate)
			}
		}()
	}
	return a.runGroup(u)
}

// Traits returns the traits of the group. Its heartbeat is the shortest of its parts.
func (u *unit) Traits() script.Traits {
	var t script.Traits
	for _, w := range u.wants {
		if b := w.Kind.Traits().Heartbeat; b > 0 && (t.Heartbeat == 0 || b < t.Heartbeat) {
			t.Heartbeat = b
		}
	}
	return t
}

// Gate returns the gate of the group: all calls for the same locks queue there.
func (u *unit) Gate() string {
	b := make([]byte, 0, 256)
	for _, w := range u.wants {
		b = append(append(b, w.Kind.Gate()...), 0)
	}
	return string(b)
}

// Channels returns the channels of all parts.
func (u *unit) Channels(owner string) []string {
	var channels []string
	for _, w := range u.wants {
		channels = append(channels, w.Kind.Channels(owner)...)
	}
	return channels
}

// Claim returns the call that acquires all parts or none.
func (u *unit) Claim(c script.Claim) driver.Call {
	claims := make([]driver.Call, len(u.wants))
	for i, w := range u.wants {
		c.Under = ""
		if w.Under != nil {
			c.Under = w.Under.owner
		}
		claims[i] = w.Kind.Claim(c)
	}
	return script.ClaimGroup(claims, func(i int) driver.Call { return u.wants[i].Kind.Free(c.Owner) })
}

// Decode decodes the reply to a claim. A refusal names the part that was not free.
func (u *unit) Decode(_ script.Claim, r driver.Reply) (script.Verdict, error) {
	v, blocker, err := script.DecodeGroup(r, len(u.wants), u.mutexes)
	if err == nil && !v.Granted() {
		v.Key = u.wants[blocker].Kind.Ref("").Key
		v.Final = u.refused(u.wants[blocker])
	}
	return v, err
}

// Free returns the call that frees all parts.
func (u *unit) Free(owner string) driver.Call {
	frees := make([]driver.Call, len(u.wants))
	for i, w := range u.wants {
		frees[i] = w.Kind.Free(owner)
	}
	return script.FreeGroup(frees)
}

// runGroup asks the server until it grants all wants together, or until the group is to be
// divided.
func (a *acquisition) runGroup(u *unit) error {
	a.begin()
	var g grant
	beat := a.traits.Heartbeat
	if u.divisible = u.divisible && a.canDivide(); u.divisible {
		a.traits.Heartbeat = min(cmp.Or(beat, groupTime), groupTime)
	}
	err := a.ask(&g)
	a.traits.Heartbeat = beat
	if err == nil {
		holds := make([]Hold, len(u.wants))
		for i, w := range u.wants {
			part := g
			part.Token, part.floor = g.TokenOf(i), w.floor
			a.r.Under = w.Under
			if !a.hold(&holds[i], w.Kind, w.Kind.Traits(), w.User, &part) {
				a.claim.remains.Open = true
				err = ErrClosed
				break
			}
			w.Hold = &holds[i]
		}
	}
	if err != nil {
		ReleaseAll(departures(u.wants, a.r.renewed())) // granted before the engine was closed
	}
	divide := err != nil && u.blocker != nil
	if divide && u.whole { // the next calls of this process want nothing that this one does not wait for
		u.gate, a.turn.has = a.turn.gate, false
	}
	a.end(err)
	if divide {
		return errDivide{}
	}
	return err
}

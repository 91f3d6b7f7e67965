package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A group is the wants of a set that one script acquires, and the target if there are several.
type group struct {
	e       *Engine
	wants   []*Want
	mutexes bool // all of them are mutexes

	divisible bool          // after groupTime the call queues for one of several locks: see multi_queue.go
	since     time.Duration // when the server refused the call for the first time
	blocker   *Want         // what was held after groupTime
	whole     bool          // the call is for no other locks
	gate      *gate         // whose turn the call keeps then, if the group is whole
}

// take acquires the wants of a group.
func (g *group) take(calls, waiting context.Context, r Request) error {
	e := g.e
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	a := acquisition{e: e, r: r, waiting: waiting, asking: calls, once: r.Wait == 0, long: longWait{caller: r.Caller}}
	if len(g.wants) == 1 {
		w := g.wants[0]
		k := e.withQueue(w.Kind)
		a.k, a.traits, a.r.Under = k, k.Traits(), w.Under
		var err error
		w.Hold, err = a.run(k, w.User)
		return err
	}
	a.k, a.traits, a.group = g, g.Traits(), g.wants
	if !a.once {
		a.turn.gate = e.gate(g.Gate())
		defer func() {
			if g.gate == nil {
				e.leaveGate(a.turn.gate)
			}
		}()
	}
	return a.runGroup(g)
}

// Traits has the shortest heartbeat of the locks.
func (g *group) Traits() script.Traits {
	var t script.Traits
	for _, w := range g.wants {
		if b := w.Kind.Traits().Heartbeat; b > 0 && (t.Heartbeat == 0 || b < t.Heartbeat) {
			t.Heartbeat = b
		}
	}
	return t
}

// Gate is one for all calls for the same locks.
func (g *group) Gate() string {
	b := make([]byte, 0, 256)
	for _, w := range g.wants {
		b = append(append(b, w.Kind.Gate()...), 0)
	}
	return string(b)
}

func (g *group) Channels(owner string) []string {
	var channels []string
	for _, w := range g.wants {
		channels = append(channels, w.Kind.Channels(owner)...)
	}
	return channels
}

// Claim returns the call that acquires all locks or none.
func (g *group) Claim(c script.Claim) driver.Call {
	claims := make([]driver.Call, len(g.wants))
	for i, w := range g.wants {
		c.Under = ""
		if w.Under != nil {
			c.Under = w.Under.owner
		}
		claims[i] = w.Kind.Claim(c)
	}
	return script.ClaimGroup(claims, func(i int) driver.Call { return g.wants[i].Kind.Free(c.Owner) })
}

// Decode decodes the reply to a claim. A refusal names the lock that was not free.
func (g *group) Decode(_ script.Claim, r driver.Reply) (script.Verdict, error) {
	v, blocker, err := script.DecodeGroup(r, len(g.wants), g.mutexes)
	if err == nil && !v.Granted() {
		v.Key = g.wants[blocker].Kind.Ref("").Key
		v.Final = g.refused(g.wants[blocker])
	}
	return v, err
}

// Free returns the call that frees all locks.
func (g *group) Free(owner string) driver.Call {
	frees := make([]driver.Call, len(g.wants))
	for i, w := range g.wants {
		frees[i] = w.Kind.Free(owner)
	}
	return script.FreeGroup(frees)
}

// runGroup asks the server until it grants all wants together, or the group is to be divided.
func (a *acquisition) runGroup(g *group) error {
	a.begin()
	var got grant
	beat := a.traits.Heartbeat
	g.divisible = g.divisible && !a.once && a.r.Pause == nil && a.e.o.Queue && !a.e.isQueueRefused()
	if g.divisible {
		a.traits.Heartbeat = min(cmp.Or(beat, groupTime), groupTime)
	}
	err := a.ask(&got)
	a.traits.Heartbeat = beat
	if err == nil {
		holds := make([]Hold, len(g.wants))
		for i, w := range g.wants {
			single := got
			single.Token, single.floor = got.TokenOf(i), w.floor
			a.r.Under = w.Under
			if !a.hold(&holds[i], w.Kind, w.Kind.Traits(), w.User, &single) {
				a.claim.remains.Open = true
				err = ErrClosed
				break
			}
			w.Hold = &holds[i]
		}
	}
	if err != nil {
		ReleaseAll(departures(g.wants, a.r.renewed())) // granted before the engine was closed
	}
	divide := err != nil && g.blocker != nil
	if divide && g.whole { // the next calls of this process want nothing that this one does not wait for
		g.gate, a.turn.has = a.turn.gate, false
	}
	a.end(err)
	if divide {
		return errDivide
	}
	return err
}

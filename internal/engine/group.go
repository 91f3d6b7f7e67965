package engine

import (
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A group is several locks of one engine that one script acquires.
type group []*Want

// Traits returns the traits of the group. Its heartbeat is the shortest of its parts.
func (g group) Traits() script.Traits {
	var t script.Traits
	for _, w := range g {
		if b := w.Kind.Traits().Heartbeat; b > 0 && (t.Heartbeat == 0 || b < t.Heartbeat) {
			t.Heartbeat = b
		}
	}
	return t
}

// Gate returns the gate of the group: all calls for the same locks queue there.
func (g group) Gate() string {
	var gates []string
	for _, w := range g {
		gates = append(gates, w.Kind.Gate())
	}
	return strings.Join(gates, "\x00")
}

// Channels returns the channels of all parts.
func (g group) Channels(owner string) []string {
	var channels []string
	for _, w := range g {
		channels = append(channels, w.Kind.Channels(owner)...)
	}
	return channels
}

// Claim returns the call that acquires all parts or none.
func (g group) Claim(c script.Claim) driver.Call {
	claims := make([]driver.Call, len(g))
	for i, w := range g {
		c.Under = ""
		if w.Under != nil {
			c.Under = w.Under.owner
		}
		claims[i] = w.Kind.Claim(c)
	}
	return script.ClaimGroup(claims, g.frees(c.Owner))
}

// Decode decodes the reply to a claim. A refusal names the part that was not free.
func (g group) Decode(_ script.Claim, r driver.Reply) (script.Verdict, error) {
	v, blocker, err := script.DecodeGroup(r, len(g))
	if err == nil && !v.Granted() {
		v.Key = g[blocker].Kind.Ref("").Key
	}
	return v, err
}

// Free returns the call that frees all parts.
func (g group) Free(owner string) driver.Call { return script.FreeGroup(g.frees(owner)) }

func (g group) frees(owner string) []driver.Call {
	frees := make([]driver.Call, len(g))
	for i, w := range g {
		frees[i] = w.Kind.Free(owner)
	}
	return frees
}

// runGroup asks the server until it grants all wants together.
func (a *acquisition) runGroup(wants []*Want) error {
	a.begin()
	g, err := a.ask()
	if err == nil {
		for i, w := range wants {
			part := g
			part.Token, part.floor = g.Tokens[i], w.floor
			a.r.Under = w.Under
			if w.Hold = a.hold(w.Kind, w.User, part); w.Hold == nil {
				a.doubt = true
				err = ErrClosed
				break
			}
		}
	}
	if err != nil {
		for _, w := range wants {
			if w.Hold != nil { // granted before the engine was closed
				w.release(a.r.renewed())
			}
		}
	}
	a.end(err)
	return err
}

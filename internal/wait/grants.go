package wait

import "strings"

// Grants is a waiter that receives the grants of a lock to one owner of this client. A
// grant is a message of the owner, a space, and a text. A message of only the owner asks
// this owner to look, and an empty message asks all.
type Grants struct {
	*Waiter
	channel string // of the grants

	// Guarded by Hub.mu.
	owner string // whose grants are received; "": no grants are
	text  string // of the last grant to the owner
	look  bool   // a message that asks the owner to look has arrived
}

// JoinGrants returns a new waiter for grants, which wakes as w does. Grants arrive on the
// last of the channels.
func (w *Waiter) JoinGrants(names ...string) *Grants {
	g := &Grants{channel: names[len(names)-1]}
	g.Waiter = w.hub.join(w.wake, nil, g, names)
	return g
}

// Expect sets the owner whose grants are received from now on. It drops those that have
// arrived.
func (g *Grants) Expect(owner string) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	g.owner, g.text, g.look = owner, "", false
}

// Take returns the text of a grant to the owner, or "", and whether the owner was asked
// to look, since the last call.
func (g *Grants) Take() (text string, look bool) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	text, look = g.text, g.look
	g.text, g.look = "", false
	return text, look
}

// accept stores a notice. It reports whether it concerns the owner. The caller holds
// Hub.mu.
func (g *Grants) accept(n Notice) bool {
	switch {
	case n.Sort != Message:
		return n.Sort == Confirmed
	case n.Channel != g.channel || g.owner == "":
		return false
	case n.Payload == "":
		g.look = true
		return true
	}
	owner, text, _ := strings.Cut(n.Payload, " ")
	if owner != g.owner {
		return false // of an earlier call, whose release is on its way
	}
	if text == "" {
		g.look = true
	} else {
		g.text = text
	}
	return true
}

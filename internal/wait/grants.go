package wait

import (
	"strconv"
	"strings"
	"time"
)

// Grants is a waiter for the grants of a lock to one owner of this client. The messages are
//
//	<owner> <text>  the owner has the lock
//	<owner>         the owner should ask
//	first <ms>      an owner of the client is the first in the queue, and the lock is held for that time
//	                all owners of the client should ask, if the message is empty
type Grants struct {
	*Waiter
	channel string // of the grants

	// Guarded by Hub.mu.
	owner string // whose grants are received; "": no grants are
	news  News
}

// News is what the messages say that have arrived.
type News struct {
	Grant string        // the text of the first grant to the owner; "": none
	Look  bool          // the owner should ask
	First bool          // the owner is the first in the queue
	Held  time.Duration // with First: for how long the lock is held; negative: without end
}

// JoinGrants returns a waiter for grants on the last of the channels, which wakes as w does.
func (w *Waiter) JoinGrants(names ...string) *Grants {
	g := &Grants{channel: names[len(names)-1]}
	g.Waiter = w.hub.join(&Waiter{wake: w.wake, accept: g.accept}, names)
	return g
}

// Live reports whether grants arrive. They do not if g is nil.
func (g *Grants) Live() bool { return g != nil && g.Waiter.Live() }

// Expect sets the owner whose grants are received from now on. It drops those that have arrived.
func (g *Grants) Expect(owner string) {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	g.owner, g.news = owner, News{}
}

// Take returns what has arrived since the last call.
func (g *Grants) Take() News {
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	n := g.news
	g.news = News{}
	return n
}

// accept stores a notice. It reports whether it concerns the owner.
func (g *Grants) accept(n Notice) bool {
	switch {
	case n.Sort != Message:
		return n.Sort == Confirmed
	case n.Channel != g.channel || g.owner == "":
		return false
	case n.Payload == "":
		g.news.Look = true
		return true
	}
	name, text, _ := strings.Cut(n.Payload, " ")
	switch {
	case name == "first":
		ms, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return false
		}
		g.news.First, g.news.Held = true, time.Duration(ms)*time.Millisecond
	case name != g.owner:
		return false
	case text == "":
		g.news.Look = true
	case g.news.Grant == "": // a second one does not come from the server
		g.news.Grant = text
	}
	return true
}

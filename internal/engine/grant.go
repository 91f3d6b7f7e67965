package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// An attempt is a request that sends a claim.
type attempt struct {
	floor int64 // the highest token of the name that was known before the request
	sent  time.Duration
	place driver.Place // where the request was sent
}

// A grant is the answer of the server to a claim.
type grant struct {
	script.Verdict
	attempt
	received time.Duration
	first    time.Duration // the lease until the first renewal, if a release has made the grant; else 0
}

// floor returns the highest token known for the lock before it is asked for. The
// parts of a group keep theirs.
func (a *acquisition) floor() int64 {
	switch k := a.k.(type) {
	case Kind:
		return a.e.tokens.floor(k.Ref("").Key)
	case *unit:
		for _, w := range k.wants {
			w.floor = a.e.tokens.floor(w.Kind.Ref("").Key)
		}
	}
	return 0
}

// credible reports whether the tokens of a grant can come from the scripts.
func (a *acquisition) credible(v *script.Verdict) bool {
	switch k := a.k.(type) {
	case Kind:
		return a.traits.ServerTokens || isClockToken(v.Token)
	case *unit:
		for i, w := range k.wants {
			if !w.Kind.Traits().ServerTokens && !isClockToken(v.TokenOf(i)) {
				return false
			}
		}
	}
	return true
}

// where returns where the lock is stored now.
func (a *acquisition) where() driver.Place {
	switch k := a.k.(type) {
	case Kind:
		return a.e.d.Place(k.Ref("").Key)
	case *unit:
		return a.e.d.Place(k.wants[0].Kind.Ref("").Key)
	}
	return driver.Place{} // nothing to hold
}

// key returns a key of the server that the acquisition asks.
func (a *acquisition) key() string { return a.k.Claim(a.claim).Keys[0] }

// hold makes a new h the Hold of a granted lock, which the watchdog guards. It returns false
// if the engine was closed meanwhile.
func (a *acquisition) hold(h *Hold, k Kind, user watchdog.LossHandler, g *grant) bool {
	counting := k.Traits().ServerTokens
	token := g.Token
	if !counting {
		token = a.e.tokens.fence(k.Ref("").Key, token, g.floor)
	}
	// A composite literal would be built on the stack and copied.
	h.LockRef, h.Handler = k.Ref(a.claim.Owner), h
	h.Lease, h.First, h.Term = a.claim.Lease, g.first, g.place.Term
	h.owner, h.under, h.share, h.e, h.kind, h.user = a.claim.Owner, a.r.Under, a.asksFor, a.e, k, user
	h.doubt, h.long = a.doubt, a.r.Steady
	h.base, h.token, h.granted = token, token, g.received
	h.count, h.renewers = 1, boolInt(a.r.renewed())
	h.passable, h.maybeExtended, h.maxLease = a.r.renewed() && !counting, a.r.renewed(), a.claim.Lease
	if a.keep {
		h.gate = a.g // the turn stays with the hold, and so does the reference of the call
		h.gate.setHold(h)
	}
	if a.r.renewed() {
		h.renewal = h.Lease
	}
	renewal := h.renewal
	if a.r.Keep {
		renewal = h.Lease
	}
	ok, others := a.e.watchdog.Guard(&h.Watched, g.sent, renewal)
	if !ok {
		if h.gate != nil {
			h.gate.setHold(nil)
		}
		return false
	}
	stale := others && a.supersede(h)
	a.e.counts.Grants.Add(1)
	a.e.announce(true)
	if a.e.forced.since(h.Key, g.sent) || stale { // the lock may have been taken away after the grant
		a.e.watchdog.Verify(h.Key)
	}
	return true
}

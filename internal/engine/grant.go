package engine

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// An attempt is a request that sends a claim.
type attempt struct {
	floor int64 // the highest token of the name that was known before the request
	sent  time.Duration
	term  uint64 // of the server to which the request was sent; see driver.Place
}

// A grant is the answer of the server to a claim.
type grant struct {
	script.Verdict
	attempt
	received time.Duration
	first    time.Duration // the lease until the first renewal, if a release has made the grant; else 0
}

// floor returns the highest token known for the lock. The locks of a group keep theirs.
func (a *acquisition) floor() int64 {
	if a.lock != "" {
		return a.e.tokens.floor(a.lock)
	}
	for _, w := range a.group {
		w.floor = a.e.tokens.floor(w.Kind.Ref("").Key)
	}
	return 0
}

// credible reports whether the tokens of a grant can come from the scripts.
func (a *acquisition) credible(v *script.Verdict) bool {
	if a.lock != "" {
		return a.traits.ServerTokens || isClockToken(v.Token)
	}
	for i, w := range a.group {
		if !w.Kind.Traits().ServerTokens && !isClockToken(v.TokenOf(i)) {
			return false
		}
	}
	return true
}

// term returns the term of the server that has the lock now.
func (a *acquisition) term() uint64 {
	if a.lock != "" {
		return a.e.d.Place(a.lock).Term
	}
	if len(a.group) > 0 {
		return a.e.d.Place(a.group[0].Kind.Ref("").Key).Term
	}
	return 0 // nothing to hold
}

// key returns a key of the server that the acquisition asks.
func (a *acquisition) key() string { return a.k.Claim(a.claim.Claim).Keys[0] }

// hold makes h the Hold of a granted lock, which the watchdog guards, unless the engine was closed.
func (a *acquisition) hold(h *Hold, k Kind, traits script.Traits, user watchdog.LossHandler, g *grant) bool {
	// A composite literal would be built on the stack and copied.
	h.Ref, h.Handler = k.Ref(a.claim.Owner), h
	token := g.Token
	if !traits.ServerTokens {
		token = a.e.tokens.fence(h.Ref.Key, token, g.floor)
	}
	h.Lease, h.First, h.Term = a.claim.Lease, g.first, g.term
	h.owner, h.origin.under, h.origin.share, h.e, h.kind, h.traits, h.users.first = a.claim.Owner, a.r.Under, a.sharing.followed, a.e, k, traits, user
	h.origin.remains, h.warned.long = a.claim.remains, a.r.Steady
	h.origin.token, h.handoff.token, h.origin.at = token, token, g.received
	h.nest.count, h.nest.renewers = 1, boolInt(a.r.renewed())
	h.handoff.allowed, h.life.maybeExtended, h.life.maxLease = a.r.renewed() && !traits.ServerTokens, a.r.renewed(), a.claim.Lease
	if a.turn.stays {
		h.handoff.gate = a.turn.gate // the turn stays with the hold, and so does the reference of the call
		h.handoff.gate.hold.Store(h)
	}
	if a.r.renewed() {
		h.nest.renewal = h.Lease
	}
	renewal := h.nest.renewal
	if a.r.RenewFirst {
		renewal = h.Lease
	}
	ok, others := a.e.watchdog.Guard(&h.Watched, g.sent, renewal)
	if !ok {
		if h.handoff.gate != nil {
			h.handoff.gate.hold.Store(nil)
		}
		return false
	}
	stale := others && a.supersede(h)
	a.e.counts.Grants.Add(1)
	a.e.announce(true)
	if a.e.forced.since(h.Ref.Key, g.sent) || stale { // the lock may have been taken away after the grant
		a.e.watchdog.Verify(h.Ref.Key)
	}
	return true
}

// tokens stores the highest fencing token of each name that this client has locked lately, its
// floor. The server takes tokens from its clock. If that clock is set back, the tokens of this
// client for a name still rise. A floor for two names would raise the tokens of one master of a
// cluster by the clock of another, and the next client would get a lower token for the name.
type tokens struct {
	mu            sync.Mutex
	recent, older map[uint64]int64 // by the hash of the key; the recent map replaces the older one when it is full
}

// floor returns the highest token known for a key, or zero.
func (t *tokens) floor(key string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.get(hash(key))
}

func (t *tokens) get(id uint64) int64 {
	if token, ok := t.recent[id]; ok { // it is not below the older one
		return token
	}
	return t.older[id]
}

// fence returns the token of a grant, given the floor before the request was sent. A token of the
// server that is not above it shows that the clock was set back. Then the token is also above those
// that other calls of this client have got since.
func (t *tokens) fence(key string, token, floor int64) int64 {
	id := hash(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	highest := t.get(id)
	if token <= floor {
		token = max(floor, highest) + 1
	}
	if _, ok := t.recent[id]; t.recent == nil || !ok && len(t.recent) >= maxFloors {
		t.recent, t.older = make(map[uint64]int64), t.recent
	}
	t.recent[id] = max(highest, token)
	return token
}

// Tokens from a clock are microseconds since 1970, and between the years 1987 and 2255.
const (
	minClockToken = 1 << 49
	maxClockToken = 1 << 53
)

func isClockToken(token int64) bool { return token > minClockToken && token < maxClockToken }

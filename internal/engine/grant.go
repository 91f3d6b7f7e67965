package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A grant is what the server said yes to.
type grant struct {
	script.Verdict
	floor    int64 // the highest token of the name that was known before
	sent     time.Duration
	received time.Duration
	place    driver.Place // where it was asked for
}

// hold takes what was granted into care. It returns nil if the engine was
// closed meanwhile.
func (c *acquisition) hold(k Kind, user watchdog.LossHandler, g grant) *Hold {
	counting := k.Traits().ServerTokens
	token := g.Token
	if !counting {
		token = c.e.tokens.fence(k.Ref("").Key, token, g.floor)
	}
	h := &Hold{
		Watched: watchdog.Watched{
			LockRef: k.Ref(c.claim.Owner),
			Lease:   c.claim.Lease,
			Term:    g.place.Term,
		},
		owner: c.claim.Owner, under: c.r.Under,
		e: c.e, kind: k, doubt: c.doubt,
		base: token, token: token,
		granted:  clock.Early(),
		passable: c.r.renewed() && !counting,
		count:    1,
		renewers: boolInt(c.r.renewed()),
		user:     user,
		most:     c.claim.Lease,
		unsure:   c.r.renewed(),
	}
	h.Handler = h
	stale := c.supersede(h)
	if c.keeps() {
		h.gate = c.g // the turn stays with the hold
		h.gate.keep(h)
	}
	if h.gate != nil {
		c.e.mu.Lock()
		h.gate.refs++
		c.e.mu.Unlock()
	}
	var renewal time.Duration
	if c.r.renewed() || c.r.Keep {
		renewal = h.Lease
	}
	if !c.e.watchdog.Guard(&h.Watched, g.sent, renewal) {
		if h.gate != nil {
			h.gate.keep(nil)
			c.e.leave(h.gate)
		}
		return nil
	}
	if c.e.forced.since(h.Key, g.sent) || stale { // perhaps after the grant
		c.e.watchdog.Verify(h.Key)
	}
	return h
}

package script

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	electionProclaim = load("election_proclaim")
	electionInspect  = load("election_inspect")
)

// An Election is a fenced mutex whose holder is the leader. The value that the
// leader proclaims is one more field of the lock, so it ends with the lock. The
// leader's term is its token.
type Election struct {
	*Fenced
	news string // the channel of the observers
}

// NewElection returns the Election with that name.
func NewElection(name string) *Election {
	e := &Election{NewFenced(name), prefixed("holdfast:leader", name)}
	e.queued.unqueued = e
	return e
}

// Proclaim stores and publishes the value of the leader. It reports whether
// owner is the leader.
func (e *Election) Proclaim(ctx context.Context, d driver.Driver, owner, said string) (bool, error) {
	r, err := d.Do(ctx, driver.Call{
		Script: electionProclaim,
		Keys:   []string{e.keys[0], e.news},
		Args:   []string{owner, said, publish},
	})
	return decodeBool(electionProclaim, r, err)
}

// A Leader is the leader of an election. The zero Leader means that there is
// none.
type Leader struct {
	Owner string
	Said  string
	Term  int64
}

// Inspect returns the leader and the remaining time of its lease, negative if it
// has no end.
func (e *Election) Inspect(ctx context.Context, d driver.Driver) (Leader, time.Duration, error) {
	r, err := d.Do(ctx, e.inspect())
	if err != nil {
		return Leader{}, 0, err
	}
	return decodeLeader(r)
}

func (e *Election) inspect() driver.Call {
	return driver.Call{Script: electionInspect, Keys: e.keys[:2]}
}

func decodeLeader(r driver.Reply) (Leader, time.Duration, error) {
	bad := func() (Leader, time.Duration, error) { return Leader{}, 0, unexpected(electionInspect, r) }
	if r.Type != driver.List || len(r.List) != 1 && len(r.List) != 4 || r.List[0].Type != driver.Int {
		return bad()
	}
	ttl := remaining(r.List[0].Int)
	if len(r.List) == 1 {
		return Leader{}, ttl, nil
	}
	for _, e := range r.List[1:] {
		if e.Type != driver.Str {
			return bad()
		}
	}
	term, err := strconv.ParseInt(r.List[3].Str, 10, 64)
	if err != nil {
		return bad()
	}
	return Leader{Owner: r.List[1].Str, Said: r.List[2].Str, Term: term}, ttl, nil
}

// A Change is a claim that is granted when there is another leader than Seen. A
// grant stores that leader in Seen.
type Change struct {
	Election *Election
	Seen     Leader
	Any      bool // accept the leader in Seen, too
}

// Traits say that the claim changes nothing.
func (c *Change) Traits() Traits { return Traits{ReadOnly: true} }

// Gate is not needed.
func (c *Change) Gate() string { return c.Election.news }

// Channels returns the channels of proclamations and of releases.
func (c *Change) Channels(owner string) []string {
	return append(c.Election.Channels(owner), c.Election.news)
}

// Claim returns the call that reads the leader.
func (c *Change) Claim(Claim) driver.Call { return c.Election.inspect() }

// Decode grants a claim if the leader is another one, which replaces Seen.
func (c *Change) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	now, ttl, err := decodeLeader(r)
	if err != nil {
		return Verdict{}, err
	}
	if now == c.Seen && !c.Any {
		return Verdict{TTL: max(ttl, -1), Why: "nothing has changed"}, nil
	}
	c.Seen, c.Any = now, false
	return Verdict{Token: 1}, nil
}

// Free does nothing: there is nothing to free.
func (c *Change) Free(string) driver.Call {
	return driver.Call{Script: electionInspect, Keys: c.Election.keys[:2]}
}

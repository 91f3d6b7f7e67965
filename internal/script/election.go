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

// An Election is a fenced mutex whose holder leads. What it says of itself is
// one more field of the lock, and so ends with it; its term is its token.
type Election struct {
	*Fenced
	news string // the channel of observers
}

// NewElection returns the wire of the election with that name.
func NewElection(name string) *Election {
	return &Election{NewFenced(name), prefixed("holdfast:leader", name)}
}

// Proclaim says who leads. It reports whether owner does.
func (e *Election) Proclaim(ctx context.Context, d driver.Driver, owner, said string) (bool, error) {
	r, err := d.Do(ctx, driver.Call{
		Script: electionProclaim,
		Keys:   []string{e.keys[0], e.news},
		Args:   []string{owner, said, publish},
	})
	return decodeBool(electionProclaim, r, err)
}

// A Leader is who leads. The zero Leader is nobody.
type Leader struct {
	Owner string
	Said  string
	Term  int64
}

// Inspect looks who leads, and for how long if that is not renewed; negative:
// without end.
func (e *Election) Inspect(ctx context.Context, d driver.Driver) (Leader, time.Duration, error) {
	r, err := d.Do(ctx, e.inspect())
	if err != nil {
		return Leader{}, 0, err
	}
	return decodeLeader(r)
}

func (e *Election) inspect() driver.Call {
	return driver.Call{Script: electionInspect, Keys: e.keys[:]}
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

// A Change is a wish to see another leader than Seen, who is replaced by that
// once it is granted.
type Change struct {
	Election *Election
	Seen     Leader
	Any      bool // also the one that was seen
}

// Traits say that to look changes nothing.
func (c *Change) Traits() Traits { return Traits{ReadOnly: true} }

// Gate is not needed.
func (c *Change) Gate() string { return c.Election.news }

// Channels are those of announcements and of resignations.
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

// Free has nothing to free.
func (c *Change) Free(string) driver.Call {
	return driver.Call{Script: electionInspect, Keys: c.Election.keys[:]}
}

package script

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var voteAcquire = driver.NewScript("vote_acquire", read("lib/vote")+read("mutex_acquire"))

// A Vote is a mutex on one of several servers. A server that has restarted
// recently does not grant it.
type Vote struct {
	*Mutex
	longest time.Duration // the longest lease of all clients
}

// NewVote returns the Vote for that name on one server.
func NewVote(name string, longest time.Duration) *Vote { return &Vote{NewMutex(name), longest} }

// Traits say that votes are not handed off: each must come from the server.
func (v *Vote) Traits() Traits { return Traits{ServerTokens: true} }

// Gate differs from that of a mutex, whose holds are handed off.
func (v *Vote) Gate() string { return v.Mutex.Gate() + "\x00vote" }

// Claim returns the call that asks for the vote.
func (v *Vote) Claim(c Claim) driver.Call {
	call := v.Mutex.Claim(c)
	call.Script = voteAcquire
	call.Args = append(call.Args, strconv.FormatInt(v.longest.Milliseconds(), 10))
	return call
}

// Decode decodes the reply to a claim.
func (v *Vote) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	if r.Type == driver.Int {
		return verdict(r.Int), nil
	}
	left, err := strconv.ParseInt(strings.TrimPrefix(r.Str, "young "), 10, 64)
	if err != nil {
		return Verdict{}, unexpected(voteAcquire, r)
	}
	return Verdict{TTL: time.Duration(left) * time.Millisecond, Young: true}, nil
}

package script

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	fencedAcquire = load("fenced_acquire")
	fencedInspect = load("fenced_inspect")
)

// Fenced is the wire format of Redisson's RFencedLock: a mutex and a counter of
// its grants.
type Fenced struct {
	*Mutex
	keys   [3]string // lock, counter, queue
	queued Queued
}

// NewFenced returns the fenced mutex with that name.
func NewFenced(name string) *Fenced {
	f := &Fenced{Mutex: NewMutex(name), keys: [3]string{name, prefixed("redisson_lock_token", name), queueKey(name)}}
	f.queued = Queued{unqueued: f, queue: f.keys[2], enter: fencedQueue, grant: fencedGrant, enterKeys: f.keys[:], grantKeys: f.keys[:]}
	return f
}

// Traits say that tokens come from the server.
func (f *Fenced) Traits() Traits { return Traits{ServerTokens: true, Plain: true} }

// Gate differs from that of a mutex, whose holds have other tokens.
func (f *Fenced) Gate() string { return f.keys[1] }

// Claim returns the call that takes the mutex if it is free, or enters it again if
// the count is more than one.
func (f *Fenced) Claim(c Claim) driver.Call {
	return driver.Call{
		Script: fencedAcquire,
		Keys:   f.keys[:2],
		Args:   []string{millis(c.Lease), c.Owner, strconv.Itoa(c.Count)},
	}
}

// Decode decodes the reply to a claim.
func (f *Fenced) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	return decodeVerdict(fencedAcquire, r)
}

// Inspect returns the state of the mutex, with the token of the last grant.
func (f *Fenced) Inspect(ctx context.Context, d driver.Driver) (State, error) {
	r, err := d.Do(ctx, driver.Call{Script: fencedInspect, Keys: f.keys[:2]})
	if err != nil {
		return State{}, err
	}
	if r.Type != driver.List || len(r.List) != 2 || r.List[1].Type != driver.Str {
		return State{}, unexpected(fencedInspect, r)
	}
	token, err := strconv.ParseInt(r.List[1].Str, 10, 64)
	if err != nil {
		return State{}, unexpected(fencedInspect, r)
	}
	s, err := decodeState(r.List[0])
	s.Token = token
	return s, err
}

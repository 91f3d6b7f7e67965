package script

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
)

var fencedAcquire = load("fenced_acquire")

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

// Token returns the token of the last grant, or zero before the first grant.
func (f *Fenced) Token(ctx context.Context, d driver.Driver) (int64, error) {
	return NewAtomicLong(f.keys[1]).Load(ctx, d)
}

package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// publish is how scripts tell waiters, unless the driver knows better: see
// driver.Script.
const publish = "PUBLISH"

// A Queue says how the waiters of one process wait for a lock.
type Queue uint8

// The queues.
const (
	// OneAtATime is for locks with one holder. One waiter of a process asks the
	// server, and the others queue behind it. The turn stays with the hold.
	OneAtATime Queue = iota
	// Together is for locks that many can hold. One waiter asks while the lock is
	// held. When it gets the lock, all others ask, too.
	Together
	// InOrder is for a limited number of holders. The waiters of a process ask one
	// after the other, in the order of their arrival.
	InOrder
	// AtServer is for locks whose queue the server keeps. Every waiter asks itself.
	AtServer
)

// Traits say how the engine has to treat a kind of lock.
type Traits struct {
	Queue        Queue
	ServerTokens bool          // tokens come from a counter at the server, so a hold is never handed over
	PerSide      bool          // readers and writers share the key, and a force concerns one side
	Numbered     bool          // the server knows a repeated request by its number
	ReadOnly     bool          // a claim changes nothing, so there is nothing to undo
	Unreplicated bool          // a grant does not wait for replicas
	Heartbeat    time.Duration // a waiter must ask at least this often, and say when it gives up; zero: need not
}

// A Claim is a wish to hold a lock.
type Claim struct {
	Owner string
	Count int // how often the owner holds it once granted
	Lease time.Duration
	Wait  bool   // the owner will wait if it is not granted
	Under string // the owner of a hold of another kind that lets this one in
	Spent string // of a numbered claim, the mark that it may delete: see Spend

	// Longest is how long a grant may lie ahead, see Verdict.After; negative:
	// as long as it takes.
	Longest time.Duration
}

// A Verdict is the answer to a claim. Token is positive if it was granted.
type Verdict struct {
	Token  int64
	Tokens []int64       // of the parts of a group
	TTL    time.Duration // how long the present owner still has; negative: for ever
	Key    string        // which lock of a group was not granted
	Young  bool          // not held, but the server has come up too lately to say so

	After time.Duration // it was granted, but counts from then on only
	Final bool          // it was not, and will not be while this claim can wait
	Why   string        // it was not, or not yet, in words for people; "": somebody holds it
	Err   error         // it was not, and never will be

	Missing string // the name of what was asked for, if there is no such thing
}

// Granted reports whether the claim was granted.
func (v Verdict) Granted() bool { return v.Token > 0 }

// do runs a script.
func do(ctx context.Context, d driver.Driver, c driver.Call) (driver.Reply, error) {
	r, err := d.Do(ctx, c)
	return r, NameKeys(c, err)
}

// NameKeys returns the error of a call. If a key has another type than the script
// expects, the error names the keys, because the server does not.
func NameKeys(c driver.Call, err error) error {
	if driver.CodeOf(err) == "WRONGTYPE" && strings.HasPrefix(err.Error(), "WRONGTYPE Operation") {
		err = &driver.Error{Class: driver.Fatal, Code: "WRONGTYPE", Err: fmt.Errorf(
			"WRONGTYPE one of the keys %s holds data of another type: use another name for the lock, or delete the key", strings.Join(c.Keys, ", "))}
	}
	return err
}

// A Claimer is anything that can be claimed: a lock, permits, a look at a latch.
type Claimer interface {
	// Claim returns the call that sends a claim.
	Claim(Claim) driver.Call
	// Decode decodes the reply to that call.
	Decode(Claim, driver.Reply) (Verdict, error)
}

// Acquire sends a claim and decodes the reply.
func Acquire(ctx context.Context, d driver.Driver, k Claimer, c Claim) (Verdict, error) {
	r, err := do(ctx, d, k.Claim(c))
	if err != nil {
		return Verdict{}, err
	}
	return k.Decode(c, r)
}

// decodeVerdict decodes the reply of a script that returns a token, or how long
// the lock is held.
func decodeVerdict(s *driver.Script, r driver.Reply) (Verdict, error) {
	if r.Type != driver.Int {
		return Verdict{}, unexpected(s, r)
	}
	return verdict(r.Int), nil
}

// longest is how long a lock is held at most, as far as callers are told: a
// stored time may be any number.
const longest = 100 * 365 * 24 * time.Hour

// verdict decodes a number: a token, or -1 - the remaining milliseconds.
func verdict(n int64) Verdict {
	if n > 0 {
		return Verdict{Token: n}
	}
	return Verdict{TTL: remaining(-1 - n)}
}

// remaining returns a number of milliseconds as a Duration. One beyond longest
// is cut to that.
func remaining(ms int64) time.Duration {
	most := longest.Milliseconds()
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// Freed is the answer to a release.
type Freed struct {
	Held  bool // the owner did hold it
	Heard int  // how many clients were told; 0 if the lock is still held
}

// leave runs a script that releases a lock.
func leave(ctx context.Context, d driver.Driver, c driver.Call) (Freed, error) {
	r, err := do(ctx, d, c)
	if err != nil {
		return Freed{}, err
	}
	if r.Type != driver.Int || r.Int < 0 {
		return Freed{}, unexpected(c.Script, r)
	}
	return Freed{Held: r.Int > 0, Heard: int(max(r.Int-1, 0))}, nil
}

// force runs a script that says whether it has freed anything.
func force(ctx context.Context, d driver.Driver, c driver.Call) (bool, error) {
	r, err := do(ctx, d, c)
	if err == nil && r.Type != driver.Int {
		err = unexpected(c.Script, r)
	}
	return r.Int == 1, err
}

// millis writes a duration as the server wants it. Nearly all leases of a
// program have one length, so the last one is kept.
func millis(d time.Duration) string {
	if last := lastMillis.Load(); last != nil && last.d == d {
		return last.s
	}
	m := &written{d, strconv.FormatInt(d.Milliseconds(), 10)}
	lastMillis.Store(m)
	return m.s
}

type written struct {
	d time.Duration
	s string
}

var lastMillis atomic.Pointer[written]

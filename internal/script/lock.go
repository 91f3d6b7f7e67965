package script

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// publish is the default publish command of scripts. The driver may replace it:
// see driver.Script.
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
	// AtServer is for locks whose waiters all queue at the server, and all ask.
	AtServer
)

// Traits say how the engine has to treat a kind of lock.
type Traits struct {
	Queue        Queue
	ServerTokens bool          // tokens come from a counter at the server, so a hold is never handed over
	Queued       *Queued       // its queue at the server is used; nil: it has none, or is not used with it
	Shared       bool          // calls of one client can share a hold
	PerSide      bool          // readers and writers share the key, and a force concerns one side
	Numbered     bool          // the server knows a repeated request by its number
	ReadOnly     bool          // a claim changes nothing, so there is nothing to undo
	Unreplicated bool          // a grant does not wait for replicas
	Plain        bool          // a string with a TTL at the key is a lock of another library
	Lasting      Lasting       // of a claim that is refused until time has passed
	Heartbeat    time.Duration // a waiter must ask at least this often, and say when it gives up; zero: need not
}

// A Claim is a request to hold a lock.
type Claim struct {
	Owner string
	Count int // the owner's hold count once granted
	Lease time.Duration
	Wait  bool   // the owner will wait if it is not granted
	Queue bool   // and the client listens for a grant: see Queued
	Check bool   // queue only if the user may leave the queue, too
	Most  int    // queue only if fewer wait already; 0: however many do
	Under string // the owner of a hold of another kind that permits this one
	Spent string // of a numbered claim, the mark that it may delete: see Spend

	// Longest limits how far in the future a grant may take effect, see
	// Verdict.After. Negative means no limit.
	Longest time.Duration
}

// A Verdict is the reply to a claim. Token is positive if it was granted.
type Verdict struct {
	Token  int64
	Tokens []int64       // tokens of the parts of a group; nil: all have the same
	TTL    time.Duration // remaining lease of the current owner; negative: for ever
	Key    string        // the lock of a group that was not granted
	Place  int           // in the queue at the server, from 1; 0: not queued
	Entry  int64         // the number of the entry in the queue; another one if the owner has left the queue in between
	Full   bool          // not queued, since as many wait as may
	Young  bool          // not held, but the server has restarted too recently to grant it
	Plain  bool          // held by a client of another library, see LookAtPlain
	Final  bool          // not granted, and will not be while this claim can wait

	After time.Duration // granted, but takes effect only after this time
	Why   string        // why it is not granted, or not yet, for messages; "": another owner holds it
	Most  int64         // of a refused claim that is lasting: how much can be granted at all; 0: not known
	Err   error         // not granted, and never will be

	Missing string // the name of the requested object, if it does not exist
}

// Granted reports whether the claim was granted.
func (v Verdict) Granted() bool { return v.Token > 0 }

// TokenOf returns the token of a part of a group.
func (v Verdict) TokenOf(i int) int64 {
	if v.Tokens == nil {
		return v.Token
	}
	return v.Tokens[i]
}

// do runs a script.
func do(ctx context.Context, d driver.Driver, c driver.Call) (driver.Reply, error) {
	r, err := d.Do(ctx, c)
	if err != nil {
		err = NameKeys(c, err)
	}
	return r, err
}

// NameKeys returns the error of a call. If a key has another type than the script
// expects, the error names the keys, because the server does not.
func NameKeys(c driver.Call, err error) error {
	if driver.CodeOf(err) == "WRONGTYPE" && strings.HasPrefix(err.Error(), "WRONGTYPE Operation") {
		which := "the key "
		if len(c.Keys) > 1 {
			which = "one of the keys "
		}
		err = &driver.Error{Class: driver.Fatal, Code: "WRONGTYPE", Err: errors.New("WRONGTYPE " + which + strings.Join(c.Keys, ", ") + " holds data of another type")}
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

// Lasting describes a claim that, once refused, stays refused until time has passed: no owner
// has to release something. [Verdict].TTL says how long. Claims of the same client for as much
// of the object or more, up to Verdict.Most, are refused as long.
type Lasting struct {
	Key   string // of the object; "": a refusal does not last
	Wants int    // how much of it is claimed
}

// Acquire sends a claim and decodes the reply, for tests of scripts. The engine does
// this itself, because it may have to wait for replicas.
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

// longest limits the remaining time that callers see, since a stored time may be
// any number.
const longest = 100 * 365 * 24 * time.Hour

// verdict decodes a number: a token, or -1 - the remaining milliseconds.
func verdict(n int64) Verdict {
	if n > 0 {
		return Verdict{Token: n}
	}
	return Verdict{TTL: remaining(-1 - n)}
}

// remaining converts a number of milliseconds to a Duration of at most longest.
func remaining(ms int64) time.Duration {
	most := longest.Milliseconds()
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}

// Freed is the reply to a release.
type Freed struct {
	Held  bool // the owner held it
	Heard int  // number of clients that received the message; 0 if the lock is still held
}

// leave runs a script that releases a lock.
func leave(ctx context.Context, d driver.Driver, c driver.Call) (Freed, error) {
	r, err := do(ctx, d, c)
	Done(c)
	if err != nil {
		return Freed{}, err
	}
	return DecodeFreed(c, r)
}

// DecodeFreed decodes the reply to a call that releases a lock.
func DecodeFreed(c driver.Call, r driver.Reply) (Freed, error) {
	if r.Type != driver.Int || r.Int < 0 {
		return Freed{}, unexpected(c.Script, r)
	}
	return Freed{Held: r.Int > 0, Heard: int(max(r.Int-1, 0))}, nil
}

// force runs a script that frees a lock. It reports whether the lock was held.
func force(ctx context.Context, d driver.Driver, c driver.Call) (bool, error) {
	r, err := do(ctx, d, c)
	if err == nil && r.Type != driver.Int {
		err = unexpected(c.Script, r)
	}
	return r.Int == 1, err
}

// argLists has lists of arguments for the two calls of an uncontended lock, so that
// they allocate none.
var argLists = sync.Pool{New: func() any { return new([maxArgs]string) }}

const maxArgs = 5

// args returns a list of at most maxArgs arguments, with room for that many.
func args(list ...string) []string {
	a := argLists.Get().(*[maxArgs]string)
	return a[:copy(a[:], list)]
}

// Done says that a call has returned and is not used any more. Calling it is optional.
func Done(c driver.Call) {
	if cap(c.Args) == maxArgs {
		argLists.Put((*[maxArgs]string)(c.Args[:maxArgs]))
	}
}

// millis formats a duration in milliseconds. It caches the last result, because
// most leases of a program have the same length.
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

package fence

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Script is a Lua script behind a guard. [NewScript] makes one. It is safe
// for concurrent use; a program needs one for each thing it does.
type Script struct{ script *driver.Script }

// NewScript puts a guard before a Lua script. The body finds its own keys and
// arguments in KEYS and ARGV, from 1 on, and may return what scripts may
// return. It cannot begin with a #! line. An empty body shows the token and
// does nothing else.
//
// The body may be run twice, since a request whose reply was lost may be sent
// again. So let it set what is wanted instead of changing what is there: SET
// rather than INCR, with a value computed from what was read under the same
// lease. If it has to add, let it remember that it has:
//
//	if redis.call('SADD', KEYS[2], ARGV[2]) == 0 then return 0 end -- ARGV[2] names this payment
//	return redis.call('INCRBY', KEYS[1], ARGV[1])
func NewScript(body string) *Script { return &Script{script.Guarded(body)} }

// Run shows the token to the resource and runs the body, in one atomic step.
// It fails with [ErrStale], and runs nothing, if the resource has seen a higher
// token. An equal one passes: a holder may write as often as it likes.
//
// The driver is that of [holdfast.Client.Driver], or that of another server:
// the lock and what it protects need not be in the same place. In a cluster,
// the keys must have the hash tag of the resource: with resource "account:7",
// "balance:{account:7}". A resource is named by the rules for names of locks,
// and the name of the lock is a good one for it.
//
// Other errors come from the driver, and package driver has the functions to
// tell them apart. Run tries once. After an error of class [driver.Ambiguous]
// the body may have run, or may run yet: run it again with the same token, and
// before anything else. ErrStale then only means that this second attempt did
// nothing.
//
// Redis does not roll back. If the body fails, what it wrote before it failed
// stays, and so does the token, which was remembered first: earlier holders are
// kept out all the same, and the present one may try again.
//
// [holdfast.Client.Driver]: https://pkg.go.dev/github.com/holdfast-go/holdfast#Client.Driver
func (s *Script) Run(ctx context.Context, d driver.Driver, resource string, token int64, keys, args []string) (driver.Reply, error) {
	if err := check(resource, token); err != nil {
		return driver.Reply{}, err
	}
	switch {
	case s == nil || s.script == nil:
		return driver.Reply{}, invalid("the script is nil or a zero value: create it with NewScript")
	case ctx == nil:
		return driver.Reply{}, invalid("the context is nil: use context.Background()")
	case d == nil:
		return driver.Reply{}, invalid("the driver is nil: use client.Driver()")
	}
	// The slot alone: the node may change between two questions.
	slot := d.Place(script.FenceKey(resource)).Slot
	for _, key := range keys {
		if d.Place(key).Slot != slot {
			return driver.Reply{}, invalid("key %.80q is not in the slot of resource %.80q: use the same hash tag in both, as in balance:{7} and account:{7}", key, resource)
		}
	}
	r, err := d.Do(ctx, script.CallGuarded(s.script, resource, token, keys, args))
	if seen, stale := script.Stale(err); stale {
		return driver.Reply{}, &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	if err != nil {
		return driver.Reply{}, fmt.Errorf("fence: run script on %.80q: %w", resource, err)
	}
	return r, nil
}

// Source returns the whole script, guard and body, to be run with EVAL or
// EVALSHA by another Redis client:
//
//	KEYS  1 the fence, see Key
//	      2... the keys of the body
//	ARGV  1 the token, in decimal
//	      2... the arguments of the body
//
// The reply is that of the body. A stale token is answered by an error whose
// code, the first word, is STALE; so a body should not return such an error
// for anything else.
func (s *Script) Source() string {
	if s == nil || s.script == nil {
		panic("holdfast: Source of a nil or zero fence.Script: create it with NewScript")
	}
	return s.script.Source
}

// Key returns the key under which Redis keeps the highest token that a
// resource has seen: holdfast:fence:{resource}, or without these braces if the
// resource has a hash tag of its own. (Hence "a" and "{a}" are one resource.)
// It never expires. It may be deleted together with the resource, when no late
// holder can be left.
func Key(resource string) (string, error) {
	if err := check(resource, 1); err != nil {
		return "", err
	}
	return script.FenceKey(resource), nil
}

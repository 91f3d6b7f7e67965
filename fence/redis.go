package fence

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Script is a Lua script with a guard. Use [NewScript] to create one. It is
// safe for concurrent use. A program needs one Script per operation.
type Script struct{ script *driver.Script }

// NewScript adds a guard to a Lua script. The body finds its own keys and
// arguments in KEYS and ARGV, starting at 1. It may return any value that a
// script can return. It must not begin with a #! line. An empty body only
// checks the token.
//
// The body may run twice, because a request whose reply was lost may be sent
// again. So the body should set values instead of changing them: use SET
// instead of INCR, with a value that was computed from data read under the same
// lease. If the body must increment, let it record that it has run:
//
//	if redis.call('SADD', KEYS[2], ARGV[2]) == 0 then return 0 end -- ARGV[2] names this payment
//	return redis.call('INCRBY', KEYS[1], ARGV[1])
func NewScript(body string) *Script { return &Script{script.Guarded(body)} }

// Run checks the token and runs the body in one atomic step. If the resource
// has seen a higher token, Run fails with [ErrStale] and does not run the body.
// An equal token passes, so a holder can write several times.
//
// The driver is that of [holdfast.Client.Driver], or of another server: the
// lock and the resource may be on different servers. In a cluster, the keys
// must have the hash tag of the resource: for resource "account:7", use
// "balance:{account:7}". The name of a resource must follow the rules for names
// of locks. The name of the lock is a good choice.
//
// Other errors come from the driver. Package driver has functions to
// distinguish them. Run tries once. After an error of class [driver.Ambiguous],
// the body may have run, or may still run. Then, before anything else, call Run
// again with the same token. ErrStale then means only that this second attempt
// did nothing.
//
// Redis does not roll back. If the body fails, its writes before the failure
// stay. The token also stays, because it was stored first: earlier holders are
// still refused, and the current holder may try again.
//
// [holdfast.Client.Driver]:
// https://pkg.go.dev/github.com/holdfast-go/holdfast#Client.Driver
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
	// Compare only the slots: the node may change between two calls of Place.
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

// Source returns the complete script, guard and body. Another Redis client can
// run it with EVAL or EVALSHA:
//
//	KEYS  1 the key of the fence, see Key
//	      2... the keys of the body
//	ARGV  1 the token, in decimal
//	      2... the arguments of the body
//
// The reply is that of the body. For a stale token, the reply is an error whose
// code, the first word, is STALE. So the body should not use this code for
// other errors.
func (s *Script) Source() string {
	if s == nil || s.script == nil {
		panic("holdfast: Source of a nil or zero fence.Script: create it with NewScript")
	}
	return s.script.Source
}

// Key returns the key that stores the highest token that a resource has seen:
// holdfast:fence:{resource}, or without these braces if the resource has its
// own hash tag. So "a" and "{a}" are the same resource. The key does not
// expire. It may be deleted together with the resource if no late holder can
// exist any more.
func Key(resource string) (string, error) {
	if err := check(resource, 1); err != nil {
		return "", err
	}
	return script.FenceKey(resource), nil
}

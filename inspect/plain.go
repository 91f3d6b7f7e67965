package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A PlainLock is a string with a TTL. Other libraries write their locks so, with SET NX PX,
// and a mutex of Holdfast with that name waits until the string is gone. Any other data that
// expires looks the same, so [Inspector.Locks] does not list it and [Inspector.Break] does not
// delete it. The value of the string is not read.
type PlainLock struct {
	Name string
	TTL  time.Duration // the time until it expires if it is not extended
}

// PlainLock returns the plain lock with that name. The error matches [ErrNotLock] if the key
// is not a string with a TTL, or does not exist.
func (i *Inspector) PlainLock(ctx context.Context, name string) (PlainLock, error) {
	missing := fmt.Errorf("%w: the key is not a string with a TTL", ErrNotLock)
	return one(ctx, i, name, "a lock", missing, i.plainLocks(ctx))
}

// PlainLocks lists the strings with a TTL whose names a lock can have, in no particular order.
// It scans the keys of all masters, as [Inspector.Locks] does, and returns the same errors.
func (i *Inspector) PlainLocks(ctx context.Context, q Query) iter.Seq2[PlainLock, error] {
	return list(ctx, i, q, "plain locks", script.PlainWalk(cmp.Or(q.Match, "*")), i.plainLocks(ctx))
}

// plainLocks returns a function that reads the TTLs of strings.
func (i *Inspector) plainLocks(ctx context.Context) func(names []string) ([]PlainLock, error) {
	return looker(ctx, i.driver, script.LookAtPlain, func(name string, r driver.Reply) (PlainLock, bool, error) {
		ttl, ok, err := script.DecodePlain(r)
		return PlainLock{name, ttl}, ok && ttl > 0, err
	})
}

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
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
	if err := i.ready(ctx); err != nil {
		return PlainLock{}, explain("inspect a lock", err)
	}
	if name == "" {
		return PlainLock{}, explain("inspect a lock", fmt.Errorf("%w: the name is empty", engine.ErrInvalid))
	}
	found, err := i.plainLocks(ctx, []string{name})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: the key is not a string with a TTL", ErrNotLock)
	}
	if err != nil {
		return PlainLock{}, explain(fmt.Sprintf("inspect %.80q", name), err)
	}
	return found[0], nil
}

// PlainLocks lists the strings with a TTL whose names a lock can have, in no particular order.
// It scans the keys of all masters, as [Inspector.Locks] does, and returns the same errors.
func (i *Inspector) PlainLocks(ctx context.Context, q Query) iter.Seq2[PlainLock, error] {
	return func(yield func(PlainLock, error) bool) {
		l := &listing{Inspector: i, ctx: ctx, seen: make(map[string]bool)}
		err := l.limits(q)
		if err == nil {
			err = l.walkAll([]script.Walk{script.PlainWalk(cmp.Or(q.Match, "*"))}, func(names []string) error {
				return l.listPlain(names, yield)
			})
		}
		if err = l.incomplete(err); err != nil && !l.ended {
			yield(PlainLock{}, explain("list plain locks", err))
		}
	}
}

// listPlain yields the plain locks among some names.
func (l *listing) listPlain(names []string, yield func(PlainLock, error) bool) error {
	for _, names := range l.unseen(names) {
		found, err := l.plainLocks(l.ctx, names)
		if err != nil {
			return err
		}
		for _, p := range found {
			if !give(l, p, len(p.Name), yield) {
				return nil
			}
		}
	}
	return nil
}

// plainLocks reads the TTLs of strings on one node. It leaves out what is not a plain lock.
func (i *Inspector) plainLocks(ctx context.Context, names []string) (found []PlainLock, err error) {
	for names := range slices.Chunk(names, batch) {
		calls := make([]driver.Call, len(names))
		for n, name := range names {
			calls[n] = script.LookAtPlain(name)
		}
		for n, r := range i.driver.DoMany(ctx, calls) {
			if r.Err != nil {
				return nil, r.Err
			}
			ttl, ok, err := script.DecodePlain(r.Reply)
			if err != nil {
				return nil, err
			}
			if ok && ttl > 0 {
				found = append(found, PlainLock{names[n], ttl})
			}
		}
	}
	return found, nil
}

package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Dump returns the object as it is now, without how long it lasts, for
// [Object.Restore]. If it is one key at the server, the bytes are those of
// Redis's DUMP, which Redisson's restore takes as well. An object of several
// keys is dumped in a form of our own, with the kind of the object and a
// checksum.
func (o *Object) Dump(ctx context.Context) ([]byte, error) {
	if err := o.lockless("dump", useOther); err != nil {
		return nil, err
	}
	var dump []byte
	err := o.ask(ctx, "dump", true, func(ctx context.Context) (err error) {
		dump, err = o.wire.Dump(ctx, o.client.driver, o.kind)
		return err
	})
	if err == nil && dump == nil {
		err = o.fail("dump", missing("it does not exist"))
	}
	return dump, err
}

// Restore makes the object what the dump says, all of it or nothing, unless any
// of it exists: [ErrRefused]. It lasts for the ttl; zero: without an end. A dump
// that is not of an object of this kind, or of a server that is much newer, is
// refused with [ErrDump].
func (o *Object) Restore(ctx context.Context, dump []byte, ttl time.Duration) error {
	return o.restore(ctx, dump, ttl, false)
}

// RestoreReplace is Restore, and replaces the object if it exists.
func (o *Object) RestoreReplace(ctx context.Context, dump []byte, ttl time.Duration) error {
	return o.restore(ctx, dump, ttl, true)
}

func (o *Object) restore(ctx context.Context, dump []byte, ttl time.Duration, replace bool) error {
	if err := o.lockless("restore", useOther); err != nil {
		return err
	}
	if err := cmp.Or(o.ready(ctx), checkTTL(ttl)); err != nil {
		return o.fail("restore", err)
	}
	dumps, err := o.wire.Dumps(dump, o.kind)
	if err != nil {
		return o.fail("restore", fmt.Errorf("%w: %w", ErrDump, err))
	}
	r, err := o.order(ctx, "restore", func(request string) driver.Call {
		return o.wire.Restore(request, dumps, ttl, replace)
	}, nil)
	if err != nil {
		return err
	}
	good, done, err := script.DecodeMoved(r)
	switch {
	case err != nil:
	case !good:
		err = fmt.Errorf("%w: the server rejected it: it is damaged, not a dump, or from a newer server", ErrDump)
	case !done:
		err = fmt.Errorf("%w: the object already exists: delete it, or use RestoreReplace", ErrRefused)
	}
	if err != nil {
		return o.fail("restore", err)
	}
	return nil
}

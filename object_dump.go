package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Dump returns the current content of the object, without its TTL, for
// [Object.Restore]. For an object with one key, the result is that of the Redis
// command DUMP, which Redisson can restore. For an object with several keys,
// the result has a format of Holdfast, with the kind of the object and a
// checksum. The error matches [ErrNotFound] if the object does not exist.
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

// Restore creates the object from a dump, in one atomic step. If any key of the
// object exists, it returns [ErrRefused]. The object expires after ttl. A ttl
// of zero means that it does not expire. The error matches [ErrDump] if the
// dump is of another kind of object, or of a server that is much newer.
func (o *Object) Restore(ctx context.Context, dump []byte, ttl time.Duration) error {
	return o.restore(ctx, dump, ttl, false)
}

// RestoreReplace is like Restore, but replaces the object if it exists.
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

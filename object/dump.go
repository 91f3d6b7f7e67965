package object

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Dump returns the current content of the object, without its TTL, for
// [Object.Restore]. For an object with one key, it is the result of the Redis command
// DUMP, which Redisson can restore. For an object with several keys, it has a format of
// Holdfast, with the kind of the object and a checksum.
func (o *Object) Dump(ctx context.Context) ([]byte, error) {
	if err := o.lockless("dump", useOther); err != nil {
		return nil, err
	}
	var dump []byte
	err := o.inner().Ask(ctx, "dump", true, func(ctx context.Context) (err error) {
		dump, err = o.wire.Dump(ctx, o.inner().Driver(), o.inner().Kind())
		return err
	})
	if err == nil && dump == nil {
		err = o.inner().Fail("dump", errMissing)
	}
	return dump, err
}

// Restore creates the object from a dump. It expires after ttl, or never if ttl is
// zero. If any key of the object exists, Restore returns [holdfast.ErrRefused]. The
// error matches [ErrDump] if the dump is of another kind of object, or of a server that
// is much newer.
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
	if err := cmp.Or(o.inner().Ready(ctx), access.CheckTTL(ttl)); err != nil {
		return o.inner().Fail("restore", err)
	}
	dumps, err := o.wire.Dumps(dump, o.inner().Kind())
	if err != nil {
		return o.inner().Fail("restore", fmt.Errorf("%w: %w", ErrDump, err))
	}
	r, err := o.inner().Order(ctx, "restore", func(request string) driver.Call {
		return o.wire.Restore(request, dumps, ttl, replace)
	})
	if err != nil {
		return err
	}
	good, done, err := script.DecodeMoved(r)
	switch {
	case err != nil:
	case !good:
		err = fmt.Errorf("%w: the server rejected it: it is damaged, not a dump, or from a newer server", ErrDump)
	case !done:
		err = fmt.Errorf("%w: the object already exists: delete it, or use RestoreReplace", holdfast.ErrRefused)
	}
	if err != nil {
		return o.inner().Fail("restore", err)
	}
	return nil
}

package object

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// maxUpdatePause bounds the pause of [Bucket.Update] before it starts again.
const maxUpdatePause = 100 * time.Millisecond

// Update calls fn with the value, stores the result if no other process has changed the
// value in between, and returns the new value. Otherwise it starts again, until ctx is
// done. So fn may be called several times, and must have no other effect.
//
// If there is no value, ok is false. If fn returns an error, Update stores nothing and
// returns that error. The new value has no TTL.
func (b *Bucket[T]) Update(ctx context.Context, fn func(old T, ok bool) (T, error)) (T, error) {
	const op = "update"
	var none T
	if fn == nil {
		return none, b.inner().Fail(op, invalid("the function is nil"))
	}
	for pause := time.Millisecond; ; pause = min(2*pause, maxUpdatePause) {
		var stored string
		old, ok, err := b.read(ctx, op, func(ctx context.Context) (_ string, ok bool, err error) {
			stored, ok, err = b.wire.Get(ctx, b.inner().Driver())
			return stored, ok, err
		})
		if err != nil {
			return none, err
		}
		v, err := fn(old, ok)
		if err != nil {
			return none, err
		}
		value, err := b.encode(op, 0, v)
		if err != nil {
			return none, err
		}
		done, err := b.inner().Decide(ctx, op, func(request string) driver.Call {
			if ok {
				return b.wire.CompareSet(request, stored, value) // with what is stored: a codec may encode a value in several ways
			}
			return b.wire.Try(request, value, 0, false)
		})
		if err != nil {
			return none, err
		}
		if done {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return none, b.inner().Because(ctx, b.inner().Fail(op, ctx.Err()))
		case <-time.After(clock.Random(pause)):
		}
	}
}

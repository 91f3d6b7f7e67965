package object

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A BucketValue is what a [Bucket] contains at one moment.
type BucketValue[T any] struct {
	Value  T
	Exists bool // false: there is no value
}

// Watch returns an iterator over the values of the bucket. It yields the current value,
// and then the new value after every change. Changes in quick succession may be
// reported as one, and a value that is stored again is no change. The iteration ends
// when ctx is done.
//
//	for config, err := range bucket.Watch(ctx) {
//
// The methods of Bucket tell those who watch, so a change arrives within a millisecond
// or so. Other changes are found within [holdfast.Options].PollInterval: those by Java
// or another program, those by [Bucket.Object], and the end of a TTL. The server needs
// no setting. If the user lacks permission for the channel of the bucket, see
// docs/operations.md, all changes are found after PollInterval.
//
// An error that matches [holdfast.ErrUnavailable] or [ErrCodec] does not end the
// iteration, all other errors do. The body of the loop may be slow. It always gets the
// latest value.
func (b *Bucket[T]) Watch(ctx context.Context) iter.Seq2[BucketValue[T], error] {
	return func(yield func(BucketValue[T], error) bool) {
		const op = "watch"
		if err := b.inner().Ready(ctx); err != nil {
			yield(BucketValue[T]{}, b.inner().Fail(op, err))
			return
		}
		change := &script.ValueChange{Bucket: b.wire, Any: true}
		for ctx.Err() == nil {
			_, err := b.inner().Engine().Take(ctx, change, engine.Request{Wait: engine.Forever, Watch: true})
			var value BucketValue[T]
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				err = b.inner().Fail(op, err)
				change.Any = true // report the value again after an error
			default:
				value.Value, value.Exists, err = b.decode(op, change.Seen, change.Exists, nil)
			}
			if !yield(value, err) || err != nil && !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, ErrCodec) {
				return
			}
		}
	}
}

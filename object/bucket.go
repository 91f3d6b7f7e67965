package object

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Bucket is a named value that processes share. It shares its values with RBucket in
// Redisson if both use the same [Codec].
//
// The parameter ttl of a method is how long the value lasts. Zero means that it does
// not expire. If the codec cannot decode a value, the error matches [ErrCodec].
type Bucket[T any] struct {
	named
	wire  *script.Bucket
	codec Codec[T]
}

// NewBucket returns the bucket with the given name, for values of the type of the
// codec:
//
//	greeting := object.NewBucket(client, "greeting", object.StringCodec{})
//	order := object.NewBucket(client, "order:42", object.JSONCodec[Order]{})
func NewBucket[T any](client *holdfast.Client, name string, codec Codec[T]) *Bucket[T] {
	var wrong error
	if codec == nil {
		wrong = invalid("the codec is nil: choose one, such as object.StringCodec{}")
	}
	o := named{access.New(client, "bucket", name, wrong)}
	return &Bucket[T]{o, script.NewBucket(o.inner().Key()), codec}
}

// Get returns the value. If there is none, ok is false.
func (b *Bucket[T]) Get(ctx context.Context) (v T, ok bool, err error) {
	return b.read(ctx, "get", func(ctx context.Context) (string, bool, error) { return b.wire.Get(ctx, b.inner().Driver()) })
}

// GetAndExpire is like Get, and sets the TTL of the value.
func (b *Bucket[T]) GetAndExpire(ctx context.Context, ttl time.Duration) (v T, ok bool, err error) {
	if err := access.CheckTTL(ttl); err != nil {
		return v, false, b.inner().Fail("get and expire", err)
	}
	return b.read(ctx, "get and expire", func(ctx context.Context) (string, bool, error) {
		return b.wire.Expire(ctx, b.inner().Driver(), ttl)
	})
}

// Set sets the value and its TTL.
func (b *Bucket[T]) Set(ctx context.Context, v T, ttl time.Duration) error {
	value, err := b.encode("set", ttl, v)
	if err != nil {
		return err
	}
	return b.inner().Ask(ctx, "set", true, func(ctx context.Context) error { return b.wire.Set(ctx, b.inner().Driver(), value, ttl) })
}

// SetKeepTTL sets the value and keeps the TTL of the old value.
func (b *Bucket[T]) SetKeepTTL(ctx context.Context, v T) error {
	value, err := b.encode("set", 0, v)
	if err != nil {
		return err
	}
	return b.inner().Ask(ctx, "set", true, func(ctx context.Context) error { return b.wire.Keep(ctx, b.inner().Driver(), value) })
}

// SetIfAbsent sets the value if there is none, and reports whether it did.
func (b *Bucket[T]) SetIfAbsent(ctx context.Context, v T, ttl time.Duration) (bool, error) {
	return b.try(ctx, "set if absent", v, ttl, false)
}

// SetIfExists sets the value and its TTL if there is a value, and reports
// whether it did.
func (b *Bucket[T]) SetIfExists(ctx context.Context, v T, ttl time.Duration) (bool, error) {
	return b.try(ctx, "set if exists", v, ttl, true)
}

func (b *Bucket[T]) try(ctx context.Context, op string, v T, ttl time.Duration, existing bool) (bool, error) {
	value, err := b.encode(op, ttl, v)
	if err != nil {
		return false, err
	}
	return b.inner().Decide(ctx, op, func(request string) driver.Call { return b.wire.Try(request, value, ttl, existing) })
}

// Swap sets the value and returns the old value. If there was none, ok is false. If the
// old value cannot be decoded, the new value is set nevertheless.
func (b *Bucket[T]) Swap(ctx context.Context, v T, ttl time.Duration) (old T, ok bool, err error) {
	value, err := b.encode("swap", ttl, v)
	if err != nil {
		return old, false, err
	}
	return b.replace(ctx, "swap", func(request string) driver.Call { return b.wire.Swap(request, value, ttl) })
}

// GetAndDelete is like Get, and deletes the value, even if it cannot be decoded.
func (b *Bucket[T]) GetAndDelete(ctx context.Context) (v T, ok bool, err error) {
	return b.replace(ctx, "get and delete", b.wire.Delete)
}

// CompareAndSwap sets the value to v if it equals old, and reports whether it did. It
// compares the encoded values byte by byte. As with Redisson, the new value has no TTL.
func (b *Bucket[T]) CompareAndSwap(ctx context.Context, old, v T) (swapped bool, err error) {
	was, err := b.encode("compare and swap", 0, old)
	if err != nil {
		return false, err
	}
	value, err := b.encode("compare and swap", 0, v)
	if err != nil {
		return false, err
	}
	return b.inner().Decide(ctx, "compare and swap", func(request string) driver.Call { return b.wire.CompareSet(request, was, value) })
}

// CompareAndDelete deletes the value if it equals old, byte by byte as in
// CompareAndSwap, and reports whether it did.
func (b *Bucket[T]) CompareAndDelete(ctx context.Context, old T) (deleted bool, err error) {
	was, err := b.encode("compare and delete", 0, old)
	if err != nil {
		return false, err
	}
	return b.inner().Decide(ctx, "compare and delete", func(request string) driver.Call { return b.wire.CompareDelete(request, was) })
}

// Size returns the size of the encoded value in bytes, or zero if there is none.
func (b *Bucket[T]) Size(ctx context.Context) (int, error) {
	var n int
	err := b.inner().Ask(ctx, "size", true, func(ctx context.Context) (err error) {
		n, err = b.wire.Size(ctx, b.inner().Driver())
		return err
	})
	return n, err
}

// read runs a query whose result is a value.
func (b *Bucket[T]) read(ctx context.Context, op string, question func(context.Context) (string, bool, error)) (v T, ok bool, err error) {
	var value string
	err = b.inner().Ask(ctx, op, true, func(ctx context.Context) (err error) {
		value, ok, err = question(ctx)
		return err
	})
	return b.decode(op, value, ok, err)
}

// replace runs an operation whose result is a value.
func (b *Bucket[T]) replace(ctx context.Context, op string, call func(request string) driver.Call) (v T, ok bool, err error) {
	r, err := b.inner().Order(ctx, op, call)
	if err != nil {
		return v, false, err
	}
	value, ok, err := script.DecodeValue(r)
	if err != nil {
		return v, false, b.inner().Fail(op, err)
	}
	return b.decode(op, value, ok, nil)
}

// encode checks the arguments of a method and returns the encoded value.
func (b *Bucket[T]) encode(op string, ttl time.Duration, v T) (string, error) {
	if err := b.inner().Ready(context.Background()); err != nil {
		return "", b.inner().Fail(op, err)
	}
	if err := access.CheckTTL(ttl); err != nil {
		return "", b.inner().Fail(op, err)
	}
	value, err := b.codec.Encode(v)
	if err != nil {
		return "", b.inner().Fail(op, &codecError{fmt.Sprintf("value of type %T cannot be encoded", v), err})
	}
	return string(value), nil
}

func (b *Bucket[T]) decode(op, value string, ok bool, err error) (T, bool, error) {
	var none T
	if err != nil || !ok {
		return none, false, err
	}
	v, err := b.codec.Decode([]byte(value))
	if err != nil {
		return none, false, b.inner().Fail(op, &codecError{fmt.Sprintf("stored value (%d bytes) cannot be decoded as %T", len(value), v), err})
	}
	return v, true, nil
}

// Object returns the bucket as an object, to rename it or to set its TTL.
func (b *Bucket[T]) Object() *Object { return b.asObject() }

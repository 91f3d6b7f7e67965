package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Bucket is a named value that processes share. It is what Redisson calls
// RBucket, and shares its values with it if both use the same [Codec].
//
// Where a method takes a ttl, that is how long the value lasts; zero means for
// ever.
//
// The methods that report something about the value before do what they do once,
// however often that has to be tried: a request whose answer was lost is sent
// again, and the server, which knows it by its number for ten minutes, gives the
// first answer. [Bucket.Set], [Bucket.SetKeepTTL] and [Bucket.GetAndExpire] are
// simply sent again, and may then overwrite what somebody else has set in
// between. When the error matches [ErrUnavailable], nobody knows whether the
// change was made.
//
// A value that the codec cannot decode is an error that matches [ErrCodec]; it
// does not repeat the value.
//
// A Bucket is a name and a codec; it is safe for concurrent use. [NewBucket]
// makes one.
type Bucket[T any] struct {
	named
	wire  *script.Bucket
	codec Codec[T]
}

// NewBucket returns the bucket with that name, which is its key at the server,
// for values of the codec's type:
//
//	greeting := holdfast.NewBucket(client, "greeting", holdfast.StringCodec{})
//	order := holdfast.NewBucket(client, "order:42", holdfast.JSONCodec[Order]{})
//
// The rules for names are those of [Client.Mutex].
func NewBucket[T any](client *Client, name string, codec Codec[T]) *Bucket[T] {
	b := &Bucket[T]{newNamed(client, "bucket", name, nil), script.NewBucket(name), codec}
	if client == nil {
		b.set.fail(invalid("the client is nil"))
	}
	if codec == nil {
		b.set.fail(invalid("the codec is nil: choose one, such as holdfast.StringCodec{}"))
	}
	return b
}

// Get returns the value. If there is none, ok is false.
func (b *Bucket[T]) Get(ctx context.Context) (v T, ok bool, err error) {
	return b.read(ctx, "get", func(ctx context.Context) (string, bool, error) { return b.wire.Get(ctx, b.client.driver) })
}

// GetAndExpire returns the value and sets how long it lasts from now on.
func (b *Bucket[T]) GetAndExpire(ctx context.Context, ttl time.Duration) (v T, ok bool, err error) {
	if err := checkTTL(ttl); err != nil {
		return v, false, b.fail("get and expire", err)
	}
	return b.read(ctx, "get and expire", func(ctx context.Context) (string, bool, error) {
		return b.wire.Expire(ctx, b.client.driver, ttl)
	})
}

// Set sets the value, whatever was there.
func (b *Bucket[T]) Set(ctx context.Context, v T, ttl time.Duration) error {
	value, err := b.encode("set", ttl, v)
	if err != nil {
		return err
	}
	return b.ask(ctx, "set", true, func(ctx context.Context) error { return b.wire.Set(ctx, b.client.driver, value, ttl) })
}

// SetKeepTTL sets the value, which ends when the one before would have.
func (b *Bucket[T]) SetKeepTTL(ctx context.Context, v T) error {
	value, err := b.encode("set", 0, v)
	if err != nil {
		return err
	}
	return b.ask(ctx, "set", true, func(ctx context.Context) error { return b.wire.Keep(ctx, b.client.driver, value) })
}

// SetIfAbsent sets the value if there is none, and reports whether it did.
func (b *Bucket[T]) SetIfAbsent(ctx context.Context, v T, ttl time.Duration) (bool, error) {
	return b.try(ctx, "set if absent", v, ttl, false)
}

// SetIfExists sets the value if there is one, and reports whether it did. The
// TTL of the one before does not stay.
func (b *Bucket[T]) SetIfExists(ctx context.Context, v T, ttl time.Duration) (bool, error) {
	return b.try(ctx, "set if exists", v, ttl, true)
}

func (b *Bucket[T]) try(ctx context.Context, op string, v T, ttl time.Duration, existing bool) (bool, error) {
	value, err := b.encode(op, ttl, v)
	if err != nil {
		return false, err
	}
	return b.decide(ctx, op, func(request string) driver.Call { return b.wire.Try(request, value, ttl, existing) })
}

// Swap sets the value and returns the one before. If there was none, ok is
// false. If that one cannot be decoded, the new one is set all the same.
func (b *Bucket[T]) Swap(ctx context.Context, v T, ttl time.Duration) (old T, ok bool, err error) {
	value, err := b.encode("swap", ttl, v)
	if err != nil {
		return old, false, err
	}
	return b.replace(ctx, "swap", func(request string) driver.Call { return b.wire.Swap(request, value, ttl) })
}

// GetAndDelete deletes the value and returns it. If there was none, ok is false.
// If it cannot be decoded, it is deleted all the same.
func (b *Bucket[T]) GetAndDelete(ctx context.Context) (v T, ok bool, err error) {
	return b.replace(ctx, "get and delete", b.wire.Delete)
}

// CompareAndSwap sets the value to v if it is old, and reports whether it was.
// Values are compared as the codec writes them, byte by byte. As with Redisson,
// the new value lasts for ever: a TTL of the old one does not stay.
func (b *Bucket[T]) CompareAndSwap(ctx context.Context, old, v T) (swapped bool, err error) {
	was, err := b.encode("compare and swap", 0, old)
	if err != nil {
		return false, err
	}
	value, err := b.encode("compare and swap", 0, v)
	if err != nil {
		return false, err
	}
	return b.decide(ctx, "compare and swap", func(request string) driver.Call { return b.wire.CompareSet(request, was, value) })
}

// CompareAndDelete deletes the value if it is old, and reports whether it was.
func (b *Bucket[T]) CompareAndDelete(ctx context.Context, old T) (deleted bool, err error) {
	was, err := b.encode("compare and delete", 0, old)
	if err != nil {
		return false, err
	}
	return b.decide(ctx, "compare and delete", func(request string) driver.Call { return b.wire.CompareDelete(request, was) })
}

// Size returns how many bytes the value has at the server; none has zero.
func (b *Bucket[T]) Size(ctx context.Context) (int, error) {
	var n int
	err := b.ask(ctx, "size", true, func(ctx context.Context) (err error) {
		n, err = b.wire.Size(ctx, b.client.driver)
		return err
	})
	return n, err
}

// read asks for the value.
func (b *Bucket[T]) read(ctx context.Context, op string, question func(context.Context) (string, bool, error)) (v T, ok bool, err error) {
	var value string
	err = b.ask(ctx, op, true, func(ctx context.Context) (err error) {
		value, ok, err = question(ctx)
		return err
	})
	return b.decode(op, value, ok, err)
}

// replace gives an order whose answer is a value.
func (b *Bucket[T]) replace(ctx context.Context, op string, call func(request string) driver.Call) (v T, ok bool, err error) {
	r, err := b.order(ctx, op, call, nil)
	if err != nil {
		return v, false, err
	}
	value, ok, err := script.DecodeValue(r)
	if err != nil {
		return v, false, b.fail(op, err)
	}
	return b.decode(op, value, ok, nil)
}

// encode returns what stands for a value at the server, if all is well with
// what a method was given.
func (b *Bucket[T]) encode(op string, ttl time.Duration, v T) (string, error) {
	if err := b.ready(context.Background()); err != nil {
		return "", b.fail(op, err)
	}
	if err := checkTTL(ttl); err != nil {
		return "", b.fail(op, err)
	}
	value, err := b.codec.Encode(v)
	if err != nil {
		return "", b.fail(op, &codecError{fmt.Sprintf("value of type %T cannot be encoded", v), err})
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
		return none, false, b.fail(op, &codecError{fmt.Sprintf("stored value (%d bytes) cannot be decoded as %T", len(value), v), err})
	}
	return v, true, nil
}

// Object returns the bucket as an object, to rename it or let it end.
func (b *Bucket[T]) Object() *Object { return b.asObject() }

package object

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An AtomicLong is a named 64-bit integer that processes share. It shares its values
// with RAtomicLong in Redisson. Its methods have the names of those of
// [sync/atomic.Int64], and are exact over the whole range. A number that was never set
// is zero. If the key holds a value of another type, the methods return
// [holdfast.ErrRefused].
type AtomicLong struct {
	named
	wire *script.AtomicLong
}

// NewAtomicLong returns the number with the given name.
func NewAtomicLong(client *holdfast.Client, name string) *AtomicLong {
	o := newNamed(client, "atomic long", name)
	return &AtomicLong{o, script.NewAtomicLong(o.inner().Key())}
}

// Load returns the number.
func (a *AtomicLong) Load(ctx context.Context) (int64, error) {
	var n int64
	err := a.inner().Ask(ctx, "load", true, func(ctx context.Context) (err error) {
		n, err = a.wire.Load(ctx, a.inner().Driver())
		return err
	})
	return n, err
}

// Store sets the number and removes its TTL. A repeated request may overwrite a later
// value, see the package comment: if this matters, use [AtomicLong.Swap].
func (a *AtomicLong) Store(ctx context.Context, v int64) error {
	return a.inner().Ask(ctx, "store", true, func(ctx context.Context) error { return a.wire.Store(ctx, a.inner().Driver(), v) })
}

// Add adds delta, which may be negative, and returns the sum. It keeps the TTL.
// If the sum does not fit in 64 bits, Add changes nothing and returns
// [holdfast.ErrRefused].
func (a *AtomicLong) Add(ctx context.Context, delta int64) (int64, error) {
	return a.change(ctx, "add", func(request string) driver.Call { return a.wire.Add(request, delta) })
}

// Swap sets the number, removes its TTL, and returns the old number.
func (a *AtomicLong) Swap(ctx context.Context, v int64) (old int64, err error) {
	return a.change(ctx, "swap", func(request string) driver.Call { return a.wire.Swap(request, v) })
}

// CompareAndSwap sets the number to v and removes its TTL if the number equals old. It
// reports whether it did.
func (a *AtomicLong) CompareAndSwap(ctx context.Context, old, v int64) (swapped bool, err error) {
	return a.inner().Decide(ctx, "compare and swap", func(request string) driver.Call { return a.wire.Compare(request, old, v) })
}

// LoadAndDelete deletes the number and returns its last value.
func (a *AtomicLong) LoadAndDelete(ctx context.Context) (int64, error) {
	return a.change(ctx, "delete", a.wire.Delete)
}

// change runs an operation whose result is a number.
func (a *AtomicLong) change(ctx context.Context, op string, call func(request string) driver.Call) (int64, error) {
	r, err := a.inner().Order(ctx, op, call)
	if err != nil {
		return 0, err
	}
	n, err := script.DecodeInt64(r)
	if err != nil {
		return 0, a.inner().Fail(op, err)
	}
	return n, nil
}

// Object returns the number as an object, to delete it or to set its TTL.
func (a *AtomicLong) Object() *Object { return a.asObject() }

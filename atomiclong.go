package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An AtomicLong is a named number of 64 bits that processes share; its methods
// are called as those of [sync/atomic.Int64]. It is what Redisson calls RAtomicLong, and
// shares its numbers with it. One that nobody has set is zero.
//
// All methods are exact over the whole range of int64. Those that change the
// number, other than [AtomicLong.Store], do so once, however often that has to
// be tried: a request whose answer was lost is sent again, and the server, which
// knows it by its number for ten minutes, gives the first answer. When the
// error matches [ErrUnavailable], nobody knows whether the change was made.
//
// A key that holds something else is refused with [ErrRefused].
//
// An AtomicLong is a name and no more; it is safe for concurrent use.
// [Client.AtomicLong] makes one.
type AtomicLong struct {
	named
	wire *script.AtomicLong
}

// AtomicLong returns the number with that name, which is its key at the server.
// The rules for names are those of [Client.Mutex].
func (c *Client) AtomicLong(name string) *AtomicLong {
	return &AtomicLong{newNamed(c, "atomic long", name, nil), script.NewAtomicLong(name)}
}

// Load returns the number.
func (a *AtomicLong) Load(ctx context.Context) (int64, error) {
	var n int64
	err := a.ask(ctx, "load", true, func(ctx context.Context) (err error) {
		n, err = a.wire.Load(ctx, a.client.driver)
		return err
	})
	return n, err
}

// Store sets the number, and ends its TTL if it has one. It is sent again when
// the answer was lost, and may then overwrite what somebody else has set in
// between; where that matters, use [AtomicLong.Swap].
func (a *AtomicLong) Store(ctx context.Context, v int64) error {
	return a.ask(ctx, "store", true, func(ctx context.Context) error { return a.wire.Store(ctx, a.client.driver, v) })
}

// Add adds delta, which may be negative, and returns the sum. A TTL stays. A sum
// that does not fit in 64 bits is refused with [ErrRefused], and changes
// nothing.
func (a *AtomicLong) Add(ctx context.Context, delta int64) (int64, error) {
	return a.change(ctx, "add", func(request string) driver.Call { return a.wire.Add(request, delta) })
}

// Swap sets the number, ends its TTL if it has one, and returns what it was.
func (a *AtomicLong) Swap(ctx context.Context, v int64) (old int64, err error) {
	return a.change(ctx, "swap", func(request string) driver.Call { return a.wire.Swap(request, v) })
}

// CompareAndSwap sets the number to v, and ends its TTL if it has one, if it is
// old, and reports whether it was. One that nobody has set counts as zero.
func (a *AtomicLong) CompareAndSwap(ctx context.Context, old, v int64) (swapped bool, err error) {
	return a.decide(ctx, "compare and swap", func(request string) driver.Call { return a.wire.Compare(request, old, v) })
}

// LoadAndDelete deletes the number, and returns what it was.
func (a *AtomicLong) LoadAndDelete(ctx context.Context) (int64, error) {
	return a.change(ctx, "delete", a.wire.Delete)
}

// change gives an order whose answer is a number.
func (a *AtomicLong) change(ctx context.Context, op string, call func(request string) driver.Call) (int64, error) {
	r, err := a.order(ctx, op, call, nil)
	if err != nil {
		return 0, err
	}
	n, err := script.DecodeInt64(r)
	if err != nil {
		return 0, a.fail(op, err)
	}
	return n, nil
}

// Object returns the number as an object, to delete it or let it end.
func (a *AtomicLong) Object() *Object { return a.asObject() }

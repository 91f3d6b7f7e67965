package script

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	valueGet          = load("value_get")
	valueSet          = load("value_set")
	atomicLongAdd     = load("atomiclong_add")
	atomicLongSwap    = load("atomiclong_swap")
	atomicLongCompare = load("atomiclong_compare")
)

// An AtomicLong is the wire format of Redisson's RAtomicLong: a decimal number.
// It is sent as text, since numbers in Lua have 53 bits.
type AtomicLong struct{ name string }

// NewAtomicLong returns the AtomicLong with that name.
func NewAtomicLong(name string) *AtomicLong { return &AtomicLong{name} }

// Load returns the number, zero if it does not exist.
func (a *AtomicLong) Load(ctx context.Context, d driver.Driver) (int64, error) {
	r, err := d.Do(ctx, driver.Call{Script: valueGet, Keys: []string{a.name}})
	if err != nil || r.Type == driver.Nil {
		return 0, err
	}
	return DecodeInt64(r)
}

// Store sets the number without an expiry.
func (a *AtomicLong) Store(ctx context.Context, d driver.Driver, v int64) error {
	_, err := d.Do(ctx, driver.Call{Script: valueSet, Keys: []string{a.name}, Args: []string{decimal(v)}})
	return err
}

// Add returns the call that adds to the number. The reply is the sum.
func (a *AtomicLong) Add(request string, delta int64) driver.Call {
	return numbered(atomicLongAdd, a.name, request, decimal(delta))
}

// Swap returns the call that sets the number. The reply is the old number.
func (a *AtomicLong) Swap(request string, v int64) driver.Call {
	return numbered(atomicLongSwap, a.name, request, decimal(v))
}

// Delete returns the call that deletes the number. The reply is the old number.
func (a *AtomicLong) Delete(request string) driver.Call {
	return numbered(atomicLongSwap, a.name, request, "")
}

// Compare returns the call that sets the number if it has the expected value.
// The reply says whether it did.
func (a *AtomicLong) Compare(request string, old, v int64) driver.Call {
	return numbered(atomicLongCompare, a.name, request, decimal(old), decimal(v))
}

// DecodeInt64 decodes a reply that is a 64-bit number: an integer, or its text.
func DecodeInt64(r driver.Reply) (int64, error) {
	switch r.Type {
	case driver.Int:
		return r.Int, nil
	case driver.Str:
		if n, err := strconv.ParseInt(r.Str, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, &driver.Error{Class: driver.Fatal, Err: errors.New("the value is not a number of 64 bits: the key belongs to something else")}
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// lasting returns the options of SET for a value with a TTL; 0 means for ever.
func lasting(ttl time.Duration) []string {
	if ttl == 0 {
		return nil
	}
	return []string{"px", millis(ttl)}
}

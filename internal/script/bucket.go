package script

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	bucketTry     = load("bucket_try", "once")
	bucketSwap    = load("bucket_swap", "once")
	bucketCompare = load("bucket_compare", "once")
	bucketExpire  = load("bucket_expire")
	bucketSize    = load("bucket_size")
)

// keepOld is how long a replaced or deleted value is kept for a repeated
// request. It is longer than any client waits for the reply. The mark, which is
// small, is kept longer.
const keepOld = 30 * time.Second

// A Bucket is the wire format of Redisson's RBucket: a value, as encoded by its
// codec.
type Bucket struct{ name string }

// NewBucket returns the Bucket with that name.
func NewBucket(name string) *Bucket { return &Bucket{name} }

// Get returns the value, if there is one.
func (b *Bucket) Get(ctx context.Context, d driver.Driver) (value string, ok bool, err error) {
	r, err := d.Do(ctx, driver.Call{Script: valueGet, Keys: []string{b.name}})
	if err != nil {
		return "", false, err
	}
	return DecodeValue(r)
}

// Expire returns the value, if there is one, and sets its TTL; 0 means for ever.
func (b *Bucket) Expire(ctx context.Context, d driver.Driver, ttl time.Duration) (value string, ok bool, err error) {
	r, err := d.Do(ctx, driver.Call{Script: bucketExpire, Keys: []string{b.name}, Args: []string{millis(ttl)}})
	if err != nil {
		return "", false, err
	}
	return DecodeValue(r)
}

// Size returns the size of the value in bytes.
func (b *Bucket) Size(ctx context.Context, d driver.Driver) (int, error) {
	r, err := d.Do(ctx, driver.Call{Script: bucketSize, Keys: []string{b.name}})
	if err != nil {
		return 0, err
	}
	return DecodeInt(r)
}

// Set sets the value with a TTL; 0 means for ever.
func (b *Bucket) Set(ctx context.Context, d driver.Driver, value string, ttl time.Duration) error {
	return b.set(ctx, d, value, lasting(ttl))
}

// Keep sets the value and keeps its TTL.
func (b *Bucket) Keep(ctx context.Context, d driver.Driver, value string) error {
	return b.set(ctx, d, value, []string{"keepttl"})
}

func (b *Bucket) set(ctx context.Context, d driver.Driver, value string, options []string) error {
	_, err := d.Do(ctx, driver.Call{Script: valueSet, Keys: []string{b.name}, Args: append([]string{value}, options...)})
	return err
}

// Try returns the call that sets the value if there is one, or if there is none.
// The reply says whether it did.
func (b *Bucket) Try(request, value string, ttl time.Duration, existing bool) driver.Call {
	when := "nx"
	if existing {
		when = "xx"
	}
	return numbered(bucketTry, b.name, request, value, append([]string{when}, lasting(ttl)...)...)
}

// Swap returns the call that sets the value. The reply is the old value.
func (b *Bucket) Swap(request, value string, ttl time.Duration) driver.Call {
	return b.replace(request, append([]string{"set", value}, lasting(ttl)...)...)
}

// Delete returns the call that deletes the value. The reply is the old value.
func (b *Bucket) Delete(request string) driver.Call { return b.replace(request, "del") }

func (b *Bucket) replace(request string, how ...string) driver.Call {
	c := numbered(bucketSwap, b.name, request, millis(keepOld), how...)
	c.Keys = append(c.Keys, c.Keys[1]+":old")
	return c
}

// CompareSet returns the call that sets the value, without an expiry, if it is
// the expected one. The reply says whether it did.
func (b *Bucket) CompareSet(request, old, value string) driver.Call {
	return numbered(bucketCompare, b.name, request, old, "set", value)
}

// CompareDelete returns the call that deletes the value if it is the expected
// one. The reply says whether it did.
func (b *Bucket) CompareDelete(request, old string) driver.Call {
	return numbered(bucketCompare, b.name, request, old, "del")
}

// DecodeValue decodes a reply that is a value, or nothing.
func DecodeValue(r driver.Reply) (value string, ok bool, err error) {
	switch r.Type {
	case driver.Nil:
		return "", false, nil
	case driver.Str:
		return r.Str, true, nil
	}
	return "", false, unexpected(valueGet, r)
}

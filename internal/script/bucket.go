package script

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	bucketSet     = load("bucket_set")
	bucketTry     = load("bucket_try")
	bucketSwap    = load("bucket_swap")
	bucketCompare = load("bucket_compare")
	bucketExpire  = load("bucket_expire")
	bucketSize    = load("bucket_size")
)

// keepOld is how long a replaced or deleted value is kept for a repeated
// request. It is longer than any client waits for the reply. The mark, which is
// small, is kept longer.
const keepOld = 30 * time.Second

// A Bucket is the wire format of Redisson's RBucket: a value, as encoded by its
// codec. The channel for those who watch it is an addition of Holdfast.
type Bucket struct{ name, channel string }

// NewBucket returns the Bucket with that name.
func NewBucket(name string) *Bucket { return &Bucket{name, prefixed("holdfast:value", name)} }

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
	_, err := d.Do(ctx, driver.Call{Script: bucketSet, Keys: []string{b.name}, Args: append([]string{value, b.channel, publish}, options...)})
	return err
}

// Try returns the call that sets the value if there is one, or if there is none.
// The reply says whether it did.
func (b *Bucket) Try(request, value string, ttl time.Duration, existing bool) driver.Call {
	when := "nx"
	if existing {
		when = "xx"
	}
	return numbered(bucketTry, b.name, request, value, append([]string{b.channel, publish, when}, lasting(ttl)...)...)
}

// Swap returns the call that sets the value. The reply is the old value.
func (b *Bucket) Swap(request, value string, ttl time.Duration) driver.Call {
	return b.replace(request, append([]string{"set", value}, lasting(ttl)...)...)
}

// Delete returns the call that deletes the value. The reply is the old value.
func (b *Bucket) Delete(request string) driver.Call { return b.replace(request, "del") }

func (b *Bucket) replace(request string, how ...string) driver.Call {
	c := numbered(bucketSwap, b.name, request, millis(keepOld), append([]string{b.channel, publish}, how...)...)
	c.Keys = append(c.Keys, c.Keys[1]+":old")
	return c
}

// CompareSet returns the call that sets the value, without an expiry, if it is
// the expected one. The reply says whether it did.
func (b *Bucket) CompareSet(request, old, value string) driver.Call {
	return numbered(bucketCompare, b.name, request, old, b.channel, publish, "set", value)
}

// CompareDelete returns the call that deletes the value if it is the expected
// one. The reply says whether it did.
func (b *Bucket) CompareDelete(request, old string) driver.Call {
	return numbered(bucketCompare, b.name, request, old, b.channel, publish, "del")
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

// A ValueChange is a claim that is granted when the value of a bucket is another one than
// Seen. A grant stores the value in Seen.
type ValueChange struct {
	Bucket *Bucket
	Seen   string
	Exists bool // there is a value
	Any    bool // accept the value in Seen, too
}

// Traits say that the claim changes nothing.
func (c *ValueChange) Traits() Traits { return Traits{ReadOnly: true} }

// Gate is not needed.
func (c *ValueChange) Gate() string { return c.Bucket.channel }

// Channels returns the channel of changes.
func (c *ValueChange) Channels(string) []string { return []string{c.Bucket.channel} }

// Claim returns the call that reads the value.
func (c *ValueChange) Claim(Claim) driver.Call {
	return driver.Call{Script: valueGet, Keys: []string{c.Bucket.name}}
}

// Decode grants a claim if the value is another one, which replaces Seen.
func (c *ValueChange) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	value, ok, err := DecodeValue(r)
	if err != nil {
		return Verdict{}, err
	}
	if value == c.Seen && ok == c.Exists && !c.Any {
		return Verdict{TTL: -1, Why: "nothing has changed"}, nil
	}
	c.Seen, c.Exists, c.Any = value, ok, false
	return Verdict{Token: 1}, nil
}

// Free does nothing: there is nothing to free.
func (c *ValueChange) Free(string) driver.Call { return c.Claim(Claim{}) }

package sale

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// A lock acquires a lock. Some of the locks do not exclude other shops.
type lock func(context.Context) (held, error)

// held is an acquired lock.
type held interface {
	Valid() bool
	Token() int64
	Release(context.Context) error
}

// unchecked is a lock that cannot tell whether it is still held.
type unchecked struct{}

func (unchecked) Valid() bool                   { return true }
func (unchecked) Token() int64                  { return 0 }
func (unchecked) Release(context.Context) error { return nil }

func noLock(*shop) lock {
	return func(context.Context) (held, error) { return unchecked{}, nil }
}

// mutexLock is Holdfast's mutex.
func mutexLock(s *shop) lock {
	m := s.client.Mutex(s.job.lockName())
	return func(ctx context.Context) (held, error) { return m.Lock(ctx) }
}

// SETNXExpiry is when the naive lock expires. Payments are a hundred times faster
// than in reality, so it corresponds to ten seconds.
const SETNXExpiry = 100 * time.Millisecond

// The two commands of the naive lock. They run inside scripts because the driver
// sends only scripts. That does not change their effect.
var (
	setnx = driver.NewScript("setnx", "return redis.call('set', KEYS[1], 'locked', 'NX', 'PX', ARGV[1]) and 1 or 0")
	del   = driver.NewScript("del", "return redis.call('del', KEYS[1])")
)

// setnxLock is the lock of many tutorials: SET name locked NX PX 100, repeated
// until it succeeds, and DEL name. It may expire before its holder has finished.
// That holder then deletes the lock of the next one.
func setnxLock(s *shop) lock {
	take := driver.Call{Script: setnx, Keys: []string{s.job.lockName()}, Args: []string{strconv.FormatInt(SETNXExpiry.Milliseconds(), 10)}}
	return func(ctx context.Context) (held, error) {
		for {
			if reply, err := s.client.Driver().Do(ctx, take); err != nil || reply.Int == 1 {
				return setnxHeld{shop: s}, err
			}
			if err := sleep(ctx, 4*time.Millisecond+rand.N(4*time.Millisecond)); err != nil {
				return nil, err
			}
		}
	}
}

type setnxHeld struct {
	unchecked
	shop *shop
}

func (l setnxHeld) Release(ctx context.Context) error {
	return deleteKey(ctx, l.shop.client, l.shop.job.lockName())
}

func deleteKey(ctx context.Context, c *holdfast.Client, key string) error {
	_, err := c.Driver().Do(ctx, driver.Call{Script: del, Keys: []string{key}})
	return err
}

// sleep is time.Sleep that returns early when ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

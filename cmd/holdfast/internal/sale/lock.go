package sale

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// A lock lets one in at a time, or so it says.
type lock func(context.Context) (held, error)

// held is a lock that somebody has.
type held interface {
	Valid() bool
	Token() int64
	Release(context.Context) error
}

// unchecked is what is left where nobody knows whether he has a lock.
type unchecked struct{}

func (unchecked) Valid() bool                   { return true }
func (unchecked) Token() int64                  { return 0 }
func (unchecked) Release(context.Context) error { return nil }

func noLock(*shop) lock {
	return func(context.Context) (held, error) { return unchecked{}, nil }
}

// mutexLock is Holdfast's: Lock, and Release.
func mutexLock(s *shop) lock {
	m := s.client.Mutex(s.job.lockName())
	return func(ctx context.Context) (held, error) { return m.Lock(ctx) }
}

// SETNXExpiry is when the naive lock expires. With payments a hundred times
// faster than in real life, it stands for ten seconds.
const SETNXExpiry = 100 * time.Millisecond

// The two commands of the naive lock. What goes to a server through Holdfast is
// a script, but that makes no difference to them.
var (
	setnx = driver.NewScript("setnx", "return redis.call('set', KEYS[1], 'locked', 'NX', 'PX', ARGV[1]) and 1 or 0")
	del   = driver.NewScript("del", "return redis.call('del', KEYS[1])")
)

// setnxLock is the lock of many a tutorial: SET name locked NX PX 100, tried
// again and again, and DEL name. It expires while its holder is still at work,
// and then that one deletes the lock of the next.
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

// sleep is time.Sleep that ends with ctx.
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

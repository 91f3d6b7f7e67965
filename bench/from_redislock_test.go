package bench

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bsm/redislock"

	"github.com/holdfast-go/holdfast"
)

// The code of docs/from-redislock.md.

func chargeWithRedislock(ctx context.Context, locker *redislock.Client) error {
	lock, err := locker.Obtain(ctx, "order:42", 10*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return charge(ctx)
}

func chargeWithLease(ctx context.Context, client *holdfast.Client) error {
	lease, err := client.Mutex("order:42").Lock(ctx, holdfast.Wait(10*time.Second))
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return charge(lease.Context()) // done when the lock is lost
}

func onceWithRedislock(ctx context.Context, locker *redislock.Client) error {
	lock, err := locker.Obtain(ctx, "order:42", 10*time.Second, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer lock.Release(ctx)
	return charge(ctx)
}

func onceWithLease(ctx context.Context, client *holdfast.Client) error {
	lease, err := client.Mutex("order:42").TryLock(ctx, holdfast.LeaseTime(10*time.Second))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return charge(lease.Context())
}

func obtain(ctx context.Context, locker *redislock.Client, key string, ttl time.Duration) (*redislock.Lock, error) {
	lock, err := locker.Obtain(ctx, key, ttl, nil)
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return nil, redislock.ErrNotObtained // a process with Holdfast holds it
	}
	return lock, err
}

var _ = []any{chargeWithRedislock, chargeWithLease, onceWithRedislock, onceWithLease, obtain}

package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
)

// The code of docs/from-rueidislock.md.

func chargeWithRueidislock(ctx context.Context, locker rueidislock.Locker) error {
	ctx, cancel, err := locker.WithContext(ctx, "order:42")
	if err != nil {
		return err
	}
	defer cancel()
	return charge(ctx)
}

func chargeWithDo(ctx context.Context, client *holdfast.Client) error {
	return client.Mutex("order:42").Do(ctx, charge) // the context of charge is done when the lock is lost
}

func tryWithContext(ctx context.Context, locker rueidislock.Locker, name string) (context.Context, context.CancelFunc, error) {
	ctx, cancel, err := locker.TryWithContext(ctx, name)
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		err = rueidislock.ErrNotLocked // a process with Holdfast holds it
	}
	return ctx, cancel, err
}

// transition returns the lock of a process that runs beside processes with rueidislock.
func transition(client *holdfast.Client, name string) holdfast.Locker {
	const prefix, majority = "rueidislock", 2 // KeyPrefix and KeyMajority of the old processes
	locks := []holdfast.Locker{client.Mutex(name)}
	for i := range 2*majority - 1 {
		locks = append(locks, client.Mutex(fmt.Sprintf("%s:%d:%s", prefix, i, name)))
	}
	return holdfast.MultiLocker(locks...)
}

func chargeInTransition(ctx context.Context, client *holdfast.Client) error {
	return transition(client, "order:42").Do(ctx, charge)
}

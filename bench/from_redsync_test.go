package bench

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/holdfast-go/holdfast"
)

// The code of docs/from-redsync.md.

func chargeWithRedsync(ctx context.Context, rs *redsync.Redsync) error {
	m := rs.NewMutex("order:42", redsync.WithExpiry(8*time.Second), redsync.WithTries(32))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	defer m.UnlockContext(ctx)
	return charge(ctx)
}

func chargeWithMutex(ctx context.Context, client *holdfast.Client) error {
	return client.Mutex("order:42").Do(ctx, charge, holdfast.Wait(5*time.Second)) // renewed while charge runs
}

func tryWithRedsync(ctx context.Context, rs *redsync.Redsync) error {
	m := rs.NewMutex("order:42", redsync.WithTries(1))
	var taken *redsync.ErrTaken
	if err := m.TryLockContext(ctx); errors.As(err, &taken) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer m.UnlockContext(ctx)
	return charge(ctx)
}

func tryWithMutex(ctx context.Context, client *holdfast.Client) error {
	lease, err := client.Mutex("order:42").TryLock(ctx)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return errBusy // holdfast.Remaining(err) says for how long
	} else if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return charge(lease.Context()) // done when the lock is lost
}

var errBusy = errors.New("busy")

func charge(context.Context) error { return nil }

var _ = []any{chargeWithRedsync, chargeWithMutex, tryWithRedsync, tryWithMutex}

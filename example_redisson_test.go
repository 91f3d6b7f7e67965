package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Common tasks of Java programs, in Go. docs/from-redisson.md shows the functions
// of this file, word for word, next to the Java code.

func charge(ctx context.Context, client *holdfast.Client) error {
	lease, err := client.Mutex("order:42").Lock(ctx)
	if err != nil {
		return err // ctx is done, or the server is unavailable
	}
	defer lease.Release(ctx)
	return work(lease.Context()) // the context ends if the lock is lost
}

func chargeInShort(ctx context.Context, client *holdfast.Client) error {
	return client.Mutex("order:42").Do(ctx, work)
}

func tryToCharge(ctx context.Context, client *holdfast.Client) (bool, error) {
	err := client.Mutex("order:42").Do(ctx, work, holdfast.Wait(5*time.Second), holdfast.LeaseTime(30*time.Second))
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return false, nil
	}
	return true, err
}

func chargeSlowly(ctx context.Context, client *holdfast.Client) error {
	lease, err := client.FencedMutex("account:7").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	if err := work(lease.Context()); err != nil {
		return err // context.Cause(lease.Context()) says whether the lock was lost
	}
	if !lease.Valid() { // checks the clock, not the server
		return holdfast.ErrLost
	}
	return send(ctx, lease.Token()) // the receiver refuses tokens below the highest it has seen
}

func readAndWrite(ctx context.Context, client *holdfast.Client) error {
	prices := client.RWMutex("prices")
	if err := prices.RDo(ctx, work); err != nil {
		return err
	}
	return prices.Do(ctx, work)
}

func withLicence(ctx context.Context, client *holdfast.Client) error {
	licences := client.LeasedSemaphore("licences")
	if _, err := licences.TrySet(ctx, 10, 0); err != nil {
		return err
	}
	return licences.Do(ctx, 1, work, holdfast.LeaseTime(time.Minute))
}

func inTurn(ctx context.Context, client *holdfast.Client) error {
	return client.FairMutex("counter:3").Do(ctx, work)
}

func work(context.Context) error        { fmt.Println("at work"); return nil }
func send(context.Context, int64) error { fmt.Println("sent"); return nil }

// The functions that docs/from-redisson.md shows.
func Example_redisson() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	for _, f := range []func(context.Context, *holdfast.Client) error{
		charge, chargeInShort, chargeSlowly, readAndWrite, withLicence, inTurn,
	} {
		if err := f(ctx, client); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(tryToCharge(ctx, client))
	// Output:
	// at work
	// at work
	// at work
	// sent
	// at work
	// at work
	// at work
	// at work
	// at work
	// true <nil>
}

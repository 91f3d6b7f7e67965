package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Lock waits, TryLock does not. The error says how long the holder still has
// the lock.
func ExampleMutex_TryLock() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	mutex := client.Mutex("example:nightly-report")

	lease, err := mutex.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	_, err = mutex.TryLock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
	fmt.Println(holdfast.Remaining(err).Round(10 * time.Second))

	_, err = mutex.TryLock(ctx, holdfast.Wait(50*time.Millisecond))
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
	// Output:
	// true
	// 30s
	// true
}

// The context of a lease carries its owner. So a function that holds a mutex
// can call another function that locks the same mutex.
func ExampleMutex_Lock_reentrant() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	account := client.Mutex("example:account:7")

	transfer := func(ctx context.Context) error {
		return account.Do(ctx, func(ctx context.Context) error {
			n, err := account.HoldCount(ctx)
			fmt.Println("held", n, "times")
			return err
		})
	}
	err := account.Do(ctx, func(ctx context.Context) error {
		return transfer(ctx)
	})
	fmt.Println(err)
	// Output:
	// held 2 times
	// <nil>
}

// A lease with a fixed length is not renewed. Its context ends when the time
// has passed.
func ExampleLeaseTime() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	lease, err := client.Mutex("example:poll").Lock(ctx, holdfast.LeaseTime(200*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-lease.Context().Done()
	fmt.Println(errors.Is(context.Cause(lease.Context()), holdfast.ErrLost), lease.Valid())
	// Output: true false
}

// The token increases with every grant. A resource that refuses lower tokens
// than it has seen is safe from holders that have lost their lock.
func ExampleLease_Token() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	mutex := client.Mutex("example:file")

	var highest int64 // the highest token that the resource has seen
	write := func(token int64) bool {
		if token < highest {
			return false
		}
		highest = token
		return true
	}
	var tokens []int64
	for range 2 {
		lease, err := mutex.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		tokens = append(tokens, lease.Token())
		lease.Release(ctx)
	}
	fmt.Println(write(tokens[1]), write(tokens[0]))
	// Output: true false
}

// DoValue returns the result of the function.
func ExampleDoValue() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	n, err := holdfast.DoValue(ctx, client.Mutex("example:sequence"), func(context.Context) (int, error) {
		return 42, nil
	})
	fmt.Println(n, err)
	// Output: 42 <nil>
}

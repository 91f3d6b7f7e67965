package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// Many readers or one writer hold the lock. A writer can keep the lock for
// reading, which lets other readers in.
func ExampleClient_RWMutex() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	prices := client.RWMutex("example:prices")

	write, err := prices.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.TryRLock(ctx)
	fmt.Println("readers are refused while a writer holds the lock:", errors.Is(err, holdfast.ErrNotAcquired))

	read, err := prices.RLock(write.Context())
	if err != nil {
		log.Fatal(err)
	}
	defer read.Release(ctx)
	write.Release(ctx)

	err = prices.RDo(ctx, func(context.Context) error {
		fmt.Println("two readers")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.Lock(read.Context())
	fmt.Println("a reader cannot become a writer:", errors.Is(err, holdfast.ErrUpgrade))
	// Output:
	// readers are refused while a writer holds the lock: true
	// two readers
	// a reader cannot become a writer: true
}

// The server counts the grants of a fenced mutex. It shares the counter with
// Redisson's RFencedLock.
func ExampleClient_FencedMutex() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	mutex := client.FencedMutex("example:ledger")

	before, err := mutex.State(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		err := mutex.Do(ctx, func(ctx context.Context) error {
			fmt.Printf("token + %d\n", holdfast.LeaseOf(ctx).Token()-before.Token)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// token + 1
	// token + 2
	// token + 3
}

// Options of the mutex apply to all of its leases.
func ExampleOnAcquire() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	mutex := client.Mutex(
		"example:audited",
		holdfast.OnAcquire(func(l *holdfast.Lease) { fmt.Println("locked", l.Name()) }),
		holdfast.OnRelease(func(l *holdfast.Lease, err error) { fmt.Println("released", l.Name(), err) }),
	)

	err := mutex.Do(ctx, func(context.Context) error {
		fmt.Println("at work")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// locked example:audited
	// at work
	// released example:audited <nil>
}

// New readers can keep a writer waiting indefinitely. With WriterFirst, the
// writer goes before readers that arrive later.
func ExampleWriterFirst() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	catalogue := client.RWMutex("example:catalogue", holdfast.WriterFirst())
	err := catalogue.Do(ctx, func(context.Context) error {
		fmt.Println("writing before readers that arrived later")
		return nil
	})
	fmt.Println(err)
	// Output:
	// writing before readers that arrived later
	// <nil>
}

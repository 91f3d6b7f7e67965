package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// Many read or one writes. Who has written may go on to read, and lets others
// read as well.
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
	fmt.Println("while one writes, others cannot read:", errors.Is(err, holdfast.ErrNotAcquired))

	read, err := prices.RLock(write.Context())
	if err != nil {
		log.Fatal(err)
	}
	defer read.Release(ctx)
	write.Release(ctx)

	err = prices.RDo(ctx, func(context.Context) error {
		fmt.Println("two read")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.Lock(read.Context())
	fmt.Println("who reads cannot write:", errors.Is(err, holdfast.ErrUpgrade))
	// Output:
	// while one writes, others cannot read: true
	// two read
	// who reads cannot write: true
}

// The server counts the grants of a fenced mutex. Redisson's RFencedLock shares
// the counter.
func ExampleClient_FencedMutex() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	mutex := client.FencedMutex("example:ledger")

	before, err := mutex.Token(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		err := mutex.Do(ctx, func(ctx context.Context) error {
			fmt.Printf("token + %d\n", holdfast.LeaseOf(ctx).Token()-before)
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

// What has to happen with every lease of a lock is said once.
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

// Readers that come and go all the time keep a writer out, unless it goes
// first.
func ExampleWriterFirst() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	catalogue := client.RWMutex("example:catalogue", holdfast.WriterFirst())
	err := catalogue.Do(ctx, func(context.Context) error {
		fmt.Println("writing, before all readers that came later")
		return nil
	})
	fmt.Println(err)
	// Output:
	// writing, before all readers that came later
	// <nil>
}

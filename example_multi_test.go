package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// A transfer needs the locks of both accounts at the same time.
func ExampleMultiLocker() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	from, to := client.Mutex("example:account:1"), client.Mutex("example:account:2")

	err := holdfast.MultiLocker(from, to).Do(ctx, func(ctx context.Context) error {
		_, err := to.TryLock(context.Background())
		fmt.Println("taken:", errors.Is(err, holdfast.ErrNotAcquired))
		for _, part := range holdfast.LeaseOf(ctx).Parts() {
			fmt.Println(part.Name(), part.Token() > 0)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// taken: true
	// example:account:1 true
	// example:account:2 true
}

// A function that takes a Locker works with every kind of lock.
func ExampleLocker() {
	client := connect()
	defer client.Close()
	settle := func(ctx context.Context, l holdfast.Locker) (int, error) {
		return holdfast.DoValue(ctx, l, func(context.Context) (int, error) { return len(l.Name()), nil })
	}
	library := client.RWMutex("example:library")
	for _, l := range []holdfast.Locker{
		client.Mutex("example:till"),
		client.FairMutex("example:queue"),
		library, library.RLocker(),
		holdfast.MultiLocker(client.Mutex("example:a"), client.Mutex("example:b")),
	} {
		n, err := settle(context.Background(), l)
		fmt.Println(n, err)
	}
	// Output:
	// 12 <nil>
	// 13 <nil>
	// 15 <nil>
	// 15 <nil>
	// 19 <nil>
}

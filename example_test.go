package holdfast_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// connect returns a client of the server that all examples share.
func connect() *holdfast.Client {
	client, err := holdfast.Open(context.Background(), redistest.ExampleURL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// Open a client, lock, work, release.
func Example() {
	ctx := context.Background()
	client := connect() // holdfast.Open(ctx, "redis://localhost:6379", nil)
	defer client.Close()

	err := client.Mutex("example:order:42").Do(ctx, func(ctx context.Context) error {
		fmt.Println("charging order 42, alone")
		return nil // pass ctx to the work: it ends if the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: charging order 42, alone
}

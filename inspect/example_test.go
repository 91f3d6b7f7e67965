package inspect_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
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

// List the held locks and their holders, and break each lock if its holder is
// still the same.
func Example() {
	ctx := context.Background()
	client := connect() // holdfast.Open(ctx, "redis://localhost:6379", nil)
	defer client.Close()
	lease, err := client.FencedMutex("example:report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	i := inspect.New(client.Driver())
	for lock, err := range i.Locks(ctx, inspect.Query{Match: "example:rep*"}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, h := range lock.Holders {
			fmt.Println(lock.Name, lock.Kind, lock.Token, h.Mode, h.Owner == lease.Owner())
		}
		broken, err := i.Break(ctx, lock)
		fmt.Println("broken:", broken, err)
	}
	// Output:
	// example:report fenced mutex 1 exclusive true
	// broken: true <nil>
}

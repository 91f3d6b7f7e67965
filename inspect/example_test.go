package inspect_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// connect returns a client of the server that the examples share.
func connect() *holdfast.Client {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = redistest.Shared(exampleTB{}).URL()
	}
	client, err := holdfast.Open(context.Background(), url)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// exampleTB is what an example has of testing.TB.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                   {}
func (exampleTB) Logf(string, ...any)       {}
func (exampleTB) Cleanup(func())            {}
func (exampleTB) Fatal(args ...any)         { log.Fatal(args...) }
func (exampleTB) Fatalf(f string, a ...any) { log.Fatalf(f, a...) }
func (exampleTB) Skip(...any)               { fmt.Println("skipped") }

// What is held now, by whom; and taking it away from whoever was seen.
func Example() {
	ctx := context.Background()
	client := connect() // holdfast.Open(ctx, "redis://localhost:6379")
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
	// example:report fenced 1 exclusive true
	// broken: true <nil>
}

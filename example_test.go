package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast"
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

// The whole of it: open, lock, work, release.
func Example() {
	ctx := context.Background()
	client := connect() // holdfast.Open(ctx, "redis://localhost:6379")
	defer client.Close()

	err := client.Mutex("example:order:42").Do(ctx, func(ctx context.Context) error {
		fmt.Println("charging order 42, alone")
		return nil // pass ctx to whatever works here: it ends if the lock is lost
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: charging order 42, alone
}

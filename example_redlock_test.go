package holdfast_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// Five servers, two of which may fail. A server that cannot be reached when the
// program starts has no client, but still counts for the majority.
func ExampleRedlock() {
	ctx := context.Background()
	servers := []string{"redis://r1:6379", "redis://r2:6379", "redis://r3:6379", "redis://r4:6379", "redis://r5:6379"}
	var clients []*holdfast.Client
	for _, url := range servers {
		c, err := holdfast.Open(ctx, url, nil)
		if err != nil {
			log.Print(err)
			continue
		}
		defer c.Close()
		clients = append(clients, c)
	}
	locks, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{Servers: len(servers)})
	if err != nil {
		log.Fatal(err) // no majority
	}
	err = locks.Mutex("nightly-report").Do(ctx, func(ctx context.Context) error {
		fmt.Println("holding the lock until ctx ends")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

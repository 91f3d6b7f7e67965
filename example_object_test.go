package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Every named object can be inspected and renamed, and can have a TTL.
func ExampleObject() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	sem := client.Semaphore("{example}:downloads")
	if _, err := sem.TrySet(ctx, 3, 0); err != nil {
		log.Fatal(err)
	}
	object := sem.Object()
	if _, err := object.Expire(ctx, time.Hour, holdfast.IfNoTTL); err != nil {
		log.Fatal(err)
	}
	ttl, err := object.TTL(ctx)
	fmt.Println(ttl.Round(time.Minute), err)

	if err := object.Rename(ctx, "{example}:uploads"); err != nil {
		log.Fatal(err)
	}
	_, err = object.TTL(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNotFound))
	fmt.Println(client.Semaphore("{example}:uploads").Object().Delete(ctx))
	// Output:
	// 1h0m0s <nil>
	// true
	// true <nil>
}

// The server reports the end of an object if keyspace events are enabled:
// CONFIG SET notify-keyspace-events Kgx.
func ExampleObject_Listen() {
	client := connect()
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	for event, err := range client.Latch("example:ready").Object().Listen(ctx) {
		if errors.Is(err, holdfast.ErrNoEvents) {
			fmt.Println("events are off")
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Name, "was", event.Kind)
	}
	// Output: events are off
}

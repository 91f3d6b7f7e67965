package object_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// connect returns a client of the server that all examples share.
func connect() *holdfast.Client {
	client, err := holdfast.Open(context.Background(), redistest.ExampleURL(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// Every named object can be inspected and renamed, and can have a TTL.
func ExampleObject() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	sem := client.Semaphore("{example}:downloads")
	if _, err := sem.TrySet(ctx, 3, 0); err != nil {
		log.Fatal(err)
	}
	downloads := object.Of(sem)
	if _, err := downloads.Expire(ctx, time.Hour, object.IfNoTTL); err != nil {
		log.Fatal(err)
	}
	ttl, err := downloads.TTL(ctx)
	fmt.Println(ttl.Round(time.Minute), err)

	if err := downloads.Rename(ctx, "{example}:uploads"); err != nil {
		log.Fatal(err)
	}
	_, err = downloads.TTL(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNotFound))
	fmt.Println(object.Of(client.Semaphore("{example}:uploads")).Delete(ctx))
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

	for event, err := range object.Of(client.Latch("example:ready")).Listen(ctx) {
		if errors.Is(err, object.ErrNoEvents) {
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

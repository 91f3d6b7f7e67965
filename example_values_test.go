package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A counter that all processes share. It counts once, also where the network
// fails and the request has to be sent again.
func ExampleAtomicLong() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	visits := client.AtomicLong("example:visits")

	if err := visits.Store(ctx, 41); err != nil {
		log.Fatal(err)
	}
	n, err := visits.Add(ctx, 1)
	fmt.Println(n, err)
	swapped, err := visits.CompareAndSwap(ctx, 41, 0)
	fmt.Println(swapped, err)
	// Output:
	// 42 <nil>
	// false <nil>
}

// A value with an end, changed only by whoever has seen the latest one.
func ExampleBucket() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	type Config struct {
		Workers int    `json:"workers"`
		Region  string `json:"region,omitempty"`
	}
	bucket := holdfast.NewBucket(client, "example:config", holdfast.JSONCodec[Config]{})

	if err := bucket.Set(ctx, Config{Workers: 4, Region: "eu"}, time.Hour); err != nil {
		log.Fatal(err)
	}
	old, ok, err := bucket.Get(ctx)
	fmt.Println(old, ok, err)

	changed := old
	changed.Workers = 8
	swapped, err := bucket.CompareAndSwap(ctx, old, changed)
	fmt.Println(swapped, err)
	swapped, err = bucket.CompareAndSwap(ctx, old, changed)
	fmt.Println(swapped, err)
	// Output:
	// {4 eu} true <nil>
	// true <nil>
	// false <nil>
}

// What is in a bucket of text is that text, for every other client of the server
// as well.
func ExampleNewBucket() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	greeting := holdfast.NewBucket(client, "example:greeting", holdfast.StringCodec{})

	first, err := greeting.SetIfAbsent(ctx, "hello", time.Minute)
	fmt.Println(first, err)
	text, ok, err := greeting.GetAndDelete(ctx)
	fmt.Println(text, ok, err)
	// Output:
	// true <nil>
	// hello true <nil>
}

// Ids from memory: one request to the server for a hundred of them.
func ExampleIDGenerator() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	ids := client.IDGenerator("example:ids") // make one and keep it

	if _, err := ids.TryInit(ctx, 1000, 100); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		id, err := ids.Next(ctx)
		fmt.Println(id, err)
	}
	// Output:
	// 1000 <nil>
	// 1001 <nil>
	// 1002 <nil>
}

// Ids in the order of time, over all processes, that say when they were drawn.
func ExampleTimeID() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	orders := client.TimeID("example:orders")

	first, err := orders.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := orders.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	at, _ := holdfast.ParseTimeID(first)
	fmt.Println(second > first, time.Since(at).Abs() < time.Minute)
	// Output: true true
}

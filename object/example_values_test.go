package object_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/object"
)

// A counter that all processes share. Each Add counts once, even if the network
// fails and the request is sent again.
func ExampleAtomicLong() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	visits := object.NewAtomicLong(client, "example:visits")

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

// A value with a TTL. CompareAndSwap changes it only if no other process has
// changed it.
func ExampleBucket() {
	ctx := context.Background()
	client := connect()
	defer client.Close()

	type Config struct {
		Workers int    `json:"workers"`
		Region  string `json:"region,omitempty"`
	}
	bucket := object.NewBucket(client, "example:config", object.JSONCodec[Config]{})

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

// StringCodec stores the plain text, so every Redis client can read it.
func ExampleNewBucket() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	greeting := object.NewBucket(client, "example:greeting", object.StringCodec{})

	first, err := greeting.SetIfAbsent(ctx, "hello", time.Minute)
	fmt.Println(first, err)
	text, ok, err := greeting.GetAndDelete(ctx)
	fmt.Println(text, ok, err)
	// Output:
	// true <nil>
	// hello true <nil>
}

// The generator returns ids from memory, with one request to the server per
// hundred ids.
func ExampleIDGenerator() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	ids := object.NewIDGenerator(client, "example:ids") // create one and keep it

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

// Ids in the order of time, across all processes. Each id contains its time.
func ExampleTimeID() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	orders := object.NewTimeID(client, "example:orders")

	first, err := orders.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := orders.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	at, _ := object.ParseTimeID(first)
	fmt.Println(second > first, time.Since(at).Abs() < time.Minute)
	// Output: true true
}

// A configuration that is read again whenever it changes.
func ExampleBucket_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := connect()
	defer client.Close()
	limit := object.NewBucket(client, "example:limit", object.JSONCodec[int]{})

	for v, err := range limit.Watch(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Value, v.Exists)
		if v.Value == 10 {
			break
		}
		if err := limit.Set(ctx, 10, 0); err != nil { // usually another process does this
			log.Fatal(err)
		}
	}
	// Output:
	// 0 false
	// 10 true
}

package goredis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Locks on the client that the program has.
func Example() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Shared(redistest.Example).Addr()})
	defer rdb.Close()

	d, err := goredis.New(ctx, rdb)
	if err != nil {
		log.Fatal(err)
	}
	client, err := holdfast.New(d, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // leaves rdb open

	err = client.Mutex("example:order:42").Do(ctx, func(ctx context.Context) error {
		fmt.Println("charging order 42, alone")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: charging order 42, alone
}

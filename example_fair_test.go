package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"
)

// A fair mutex is granted in the order of arrival, across all processes.
func ExampleClient_FairMutex() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	counter := client.FairMutex("example:counter")

	lease, err := counter.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, customer := range []string{"Ada", "Grace", "Barbara"} {
		state, err := counter.State(ctx)
		if err != nil {
			log.Fatal(err)
		}
		wg.Go(func() {
			err := counter.Do(ctx, func(context.Context) error {
				fmt.Println("serving", customer)
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		})
		for came := len(state.Waiting); len(state.Waiting) == came; time.Sleep(time.Millisecond) {
			if state, err = counter.State(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	lease.Release(ctx)
	wg.Wait()
	// Output:
	// serving Ada
	// serving Grace
	// serving Barbara
}

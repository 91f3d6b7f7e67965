package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// At most two holders at a time, across all processes. The permit of a killed
// process becomes free when its lease expires.
func ExampleLeasedSemaphore() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	licences := client.LeasedSemaphore("example:licences", holdfast.WithPermits(2))

	first, err := licences.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	err = licences.Do(ctx, 1, func(ctx context.Context) error {
		_, err := licences.TryAcquire(ctx, 1)
		fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
		return first.Release(ctx)
	})
	fmt.Println(err)
	state, err := licences.State(ctx)
	fmt.Println(state.Available, state.Taken, err)
	// Output:
	// true
	// <nil>
	// 2 0 <nil>
}

// A semaphore that is shared with Java.
func ExampleSemaphore() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	seats := client.Semaphore("example:seats", holdfast.WithPermits(3))

	if err := seats.Acquire(ctx, 2); err != nil {
		log.Fatal(err)
	}
	err := seats.TryAcquire(ctx, 2, holdfast.Wait(time.Second))
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
	if err := seats.Release(ctx, 2); err != nil {
		log.Fatal(err)
	}
	n, err := seats.Drain(ctx)
	fmt.Println(n, err)
	// Output:
	// true
	// 3 <nil>
}

// Wait until three parts of a job are done, in any process.
func ExampleLatch() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	parts := client.Latch("example:parts")
	if _, err := parts.TrySet(ctx, 3); err != nil {
		log.Fatal(err)
	}

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := parts.CountDown(ctx); err != nil {
				log.Fatal(err)
			}
		})
	}
	fmt.Println(parts.Wait(ctx))
	wg.Wait()
	// Output: <nil>
}

// At most three requests per minute to an external service, from all processes
// together.
func ExampleRateLimiter() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	limiter := client.RateLimiter("example:api", holdfast.WithRate(holdfast.Rate{Permits: 3, Per: time.Minute}))

	for range 4 {
		ok, err := limiter.Allow(ctx)
		fmt.Println(ok, err)
	}
	// The next permit is available in a minute, so Wait returns at once.
	err := limiter.Wait(ctx, holdfast.Wait(time.Second))
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired), holdfast.Remaining(err).Round(time.Minute))
	// Output:
	// true <nil>
	// true <nil>
	// true <nil>
	// false <nil>
	// true 1m0s
}

// A reservation says how long to wait, and does not wait itself.
func ExampleRateLimiter_Reserve() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	limiter := client.RateLimiter("example:mails")
	if err := limiter.SetRate(ctx, holdfast.Rate{Permits: 1, Per: time.Hour}); err != nil {
		log.Fatal(err)
	}

	for range 2 {
		r, err := limiter.Reserve(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Delay().Round(time.Hour))
		if r.Delay() > time.Minute {
			fmt.Println(r.Cancel(ctx)) // this is too late
		}
	}
	// Output:
	// 0s
	// 1h0m0s
	// <nil>
}

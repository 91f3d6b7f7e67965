// Quickstart shows the main job of Holdfast: three shops sell the same ten
// tickets, first without a lock, then with one.
//
// It needs nothing but Go. It uses the server at -url, else a redis-server or
// valkey-server on the PATH, else a small server inside this process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/server"
)

func main() {
	runtime.LockOSThread() // the server ends with the thread that started it
	url := flag.String("url", os.Getenv("HOLDFAST_URL"), "server to use, such as redis://localhost:6379 (default: start one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	if url == "" {
		s, err := server.Start(ctx)
		if err != nil {
			return err
		}
		defer s.Stop()
		fmt.Println("server: ", s.What)
		url = s.URL
	}
	fmt.Println()
	fmt.Println("Three shops, thirty buyers, ten tickets.")
	sold, err := sell(ctx, url, false)
	if err != nil {
		return err
	}
	fmt.Printf("  without a lock:  %2d tickets sold, %d too many\n", sold, sold-tickets)
	sold, err = sell(ctx, url, true)
	if err != nil {
		return err
	}
	fmt.Printf("  with Holdfast:   %2d tickets sold, %d too many\n", sold, sold-tickets)
	if sold != tickets {
		return fmt.Errorf("sold %d tickets under the lock, want %d", sold, tickets)
	}
	return nil
}

const (
	tickets = 10
	shops   = 3
	buyers  = 30
)

// sell lets the buyers go to the shops at once and returns how many tickets
// these have sold together. A shop reads how many are left, takes its time,
// and writes back one less.
func sell(ctx context.Context, url string, locked bool) (int, error) {
	var (
		left = tickets // what a database would hold
		sold int
		mu   sync.Mutex // makes single reads and writes safe, as a database does
		wg   sync.WaitGroup
		errs = make(chan error, buyers)
	)
	buy := func(context.Context) error {
		mu.Lock()
		seen := left
		mu.Unlock()
		if seen == 0 {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		left = seen - 1
		sold++
		return nil
	}
	for range shops {
		client, err := holdfast.Open(ctx, url) // each shop is a program of its own
		if err != nil {
			return 0, err
		}
		defer client.Close()
		for range buyers / shops {
			wg.Go(func() {
				if locked {
					errs <- client.Mutex("quickstart:tickets").Do(ctx, buy)
				} else {
					errs <- buy(ctx)
				}
			})
		}
	}
	wg.Wait()
	for range buyers {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	return sold, nil
}

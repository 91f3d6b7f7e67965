package holdfast_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A permitKind is a semaphore whose users are killed.
type permitKind struct {
	name string
	// setUp makes one with a single permit.
	setUp func(ctx context.Context, c *holdfast.Client, name string) error
	// take waits for the permit.
	take func(ctx context.Context, c *holdfast.Client, name string, opts ...holdfast.Option) (giveBack func(context.Context) error, err error)
	// free returns how many permits are free.
	free func(ctx context.Context, c *holdfast.Client, name string) (int, error)
	// recover brings back the permit of a dead holder; nil: it comes by itself.
	recover func(t *testing.T, c *holdfast.Client, name string)
}

var permitKinds = []permitKind{
	{
		name: "semaphore",
		setUp: func(ctx context.Context, c *holdfast.Client, name string) error {
			_, err := c.Semaphore(name).TrySet(ctx, 1, 0)
			return err
		},
		take: func(ctx context.Context, c *holdfast.Client, name string, opts ...holdfast.Option) (func(context.Context) error, error) {
			sem := c.Semaphore(name)
			return func(ctx context.Context) error { return sem.Release(ctx, 1) }, sem.Acquire(ctx, 1, opts...)
		},
		free: func(ctx context.Context, c *holdfast.Client, name string) (int, error) {
			return c.Semaphore(name).Available(ctx)
		},
		// Nobody knows who had it, so somebody has to add one.
		recover: func(t *testing.T, c *holdfast.Client, name string) {
			if err := c.Semaphore(name).Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		name: "leased semaphore",
		setUp: func(ctx context.Context, c *holdfast.Client, name string) error {
			_, err := c.LeasedSemaphore(name).TrySet(ctx, 1, 0)
			return err
		},
		take: func(ctx context.Context, c *holdfast.Client, name string, opts ...holdfast.Option) (func(context.Context) error, error) {
			lease, err := c.LeasedSemaphore(name).Acquire(ctx, 1, opts...)
			return func(ctx context.Context) error { return lease.Release(ctx) }, err
		},
		free: func(ctx context.Context, c *holdfast.Client, name string) (int, error) {
			return c.LeasedSemaphore(name).Available(ctx)
		},
	},
}

func init() { workers["permit"] = permitWorker }

// permitWorker counts in a file under a permit, from "go" to "halt", and says
// when it is inside. Told to stay, it does not leave any more: before it has
// written, or after. It has no client, and nothing is on its way, when it is
// halted.
func permitWorker() {
	k := permitKinds[slices.IndexFunc(permitKinds, func(k permitKind) bool { return k.name == os.Getenv("TEST_KIND") })]
	url, name, file := os.Getenv("TEST_URL"), os.Getenv("TEST_NAME"), os.Getenv("TEST_FILE")
	var stay atomic.Value
	stay.Store("")
	var halt atomic.Bool
	halted := make(chan struct{})
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word := in.Text(); word {
		case "go":
			c, err := holdfast.Open(context.Background(), url, steady)
			for errors.Is(err, holdfast.ErrUnavailable) { // sixteen at once may be slow
				c, err = holdfast.Open(context.Background(), url, steady)
			}
			if err != nil {
				panic(err)
			}
			halt.Store(false)
			go func() {
				for !halt.Load() {
					countUnderPermit(func() (func(context.Context) error, error) {
						return k.take(context.Background(), c, name, holdfast.Wait(300*time.Millisecond))
					}, file, &stay)
				}
				_ = c.Close()
				halted <- struct{}{}
			}()
		case "halt":
			halt.Store(true)
			<-halted
			fmt.Println("halted")
		default:
			stay.Store(word)
		}
	}
}

// countUnderPermit counts by one, if it gets the permit, in a way that loses
// counts if two are inside.
func countUnderPermit(take func() (func(context.Context) error, error), file string, stay *atomic.Value) {
	giveBack, err := take()
	if err != nil {
		if errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable) {
			return // in doubt, on a machine that stands still: undone when the client is closed
		}
		panic(err)
	}
	fmt.Println("in", redistest.Now())
	value := lastCount(file)
	if stay.Load() == "before" {
		fmt.Println("stays")
		select {}
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	// The count and the journal of counts are one, so that nobody can die between them.
	if _, err := fmt.Fprintf(f, "%10d %10d\n", value+1, os.Getpid()); err != nil {
		panic(err)
	}
	f.Close()
	if stay.Load() == "after" {
		fmt.Println("stays")
		select {}
	}
	fmt.Println("out", redistest.Now())
	if err := giveBack(context.Background()); err != nil {
		panic(err)
	}
}

const journalLine = 22

// lastCount reads the count: the last line of the journal.
func lastCount(file string) int {
	f, err := os.Open(file)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.Seek(-journalLine, io.SeekEnd); err != nil {
		return 0 // the first
	}
	line, err := io.ReadAll(f)
	if err != nil {
		panic(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(line))[0])
	if err != nil {
		panic(err)
	}
	return n
}

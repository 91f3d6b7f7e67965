package fence_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	read  = "return redis.call('get', KEYS[1])"
	write = "redis.call('set', KEYS[1], ARGV[1])"
)

// clerk is a process that adds one to a balance, under the lock: it reads, says
// so, waits for a line, writes, and says what came of it.
func clerk() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: 600 * time.Millisecond})
	check(err)
	l, err := c.Mutex("account:7").Lock(ctx)
	check(err)
	run := func(body string, args ...string) (driver.Reply, error) {
		if os.Getenv("TEST_GUARD") == "no" {
			return c.Driver().Do(ctx, driver.Call{Script: driver.NewScript("bare", body), Keys: []string{"balance"}, Args: args})
		}
		return fence.NewScript(body).Run(ctx, c.Driver(), "account:7", l.Token(), []string{"balance"}, args)
	}
	r, err := run(read)
	check(err)
	n, err := strconv.Atoi(r.Str)
	check(err)
	fmt.Println("read")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	// Too late to look at the lease: the write is on its way.
	switch _, err = run(write, strconv.Itoa(n+1)); {
	case errors.Is(err, fence.ErrStale):
		fmt.Println("stale")
	case err != nil:
		panic(err)
	default:
		fmt.Println("paid")
	}
	_ = l.Release(ctx) // the stopped one has lost it
	_ = c.Close()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A holder that is stopped for longer than its lease wakes up and writes. The
// test that fencing is for: without a guard, two have paid in and the balance
// is one.
func TestPausedHolderRedis(t *testing.T) {
	for _, test := range []struct {
		guard string
		says  string // what the late holder is told
	}{
		{"no", "paid"},
		{"yes", "stale"},
	} {
		t.Run("guard "+test.guard, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "SET", "balance", "0")
			start := func() *redistest.Process {
				return redistest.Worker(t, "clerk", "TEST_URL="+s.URL(), "TEST_GUARD="+test.guard)
			}
			says := func(p *redistest.Process, want string) {
				t.Helper()
				select {
				case got := <-p.Lines():
					if got != want {
						t.Fatalf("a clerk says %q, want %q", got, want)
					}
				case <-time.After(time.Minute):
					t.Fatalf("a clerk says nothing, want %q", want)
				}
			}
			late := start()
			says(late, "read")
			late.Pause()

			next := start()
			says(next, "read") // so the lease of the first has run out
			next.Send("write")
			says(next, "paid")
			if err := next.Wait(); err != nil {
				t.Fatal(err)
			}

			late.Send("write") // what it finds when it wakes up
			late.Resume()
			says(late, test.says)
			paid := 1
			if test.says == "paid" {
				paid++
			}
			lost := paid - int(s.Int(t, "GET", "balance"))
			switch {
			case test.guard == "no" && lost != 1:
				t.Errorf("without a guard %d updates are lost, want 1: the test shows nothing", lost)
			case test.guard == "yes" && lost != 0:
				t.Errorf("%d updates are lost in spite of the guard", lost)
			}
		})
	}
}

// The late holder writes when the next one has read and not yet written. That
// the next one has shown its token by reading is what saves it.
func TestReadThroughGuard(t *testing.T) {
	d := newDesk(t)
	d.pass(d.set(5, "0"))
	if _, err := fence.NewScript(read).Run(t.Context(), d.d, d.resource, 6, []string{d.key}, nil); err != nil {
		t.Fatal(err)
	}
	d.refused(d.set(5, "late"), 5, 6)
	d.pass(d.set(6, "1"))
	d.has("6", "1")
}

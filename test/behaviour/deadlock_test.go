package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func init() { workers["deadlock"] = deadlockWorker }

// deadlockWorker locks one name and then another one, which are on two servers, and says how
// that ended.
func deadlockWorker() {
	ctx := context.Background()
	open := func(url string) *holdfast.Client {
		c, err := holdfast.Open(ctx, os.Getenv(url), &holdfast.Options{Deadlocks: holdfast.EndDeadlocks, Label: os.Getenv("TEST_LABEL")})
		if err != nil {
			panic(err)
		}
		return c
	}
	here, there := open("TEST_FIRST_URL"), open("TEST_SECOND_URL")
	defer here.Close()
	defer there.Close()
	l, err := here.Mutex(os.Getenv("TEST_FIRST")).Lock(ctx)
	if err != nil {
		panic(err)
	}
	inner, err := here.Mutex(os.Getenv("TEST_FIRST")).Lock(l.Context()) // entered again
	if err != nil {
		panic(err)
	}
	fmt.Println("holds")
	var line string
	_, _ = fmt.Scanln(&line)
	next, err := there.Mutex(os.Getenv("TEST_SECOND")).Lock(inner.Context())
	fmt.Println("done", err)
	if next != nil {
		_ = next.Release(ctx)
	}
	_ = inner.Release(ctx)
	_ = l.Release(ctx)
}

// Processes that wait for each other: one of them fails with an error that names all, and the
// others get their locks.
func TestDeadlockOfProcesses(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		for _, several := range []bool{false, true} {
			t.Run(fmt.Sprint(n, " several servers ", several), func(t *testing.T) {
				t.Parallel()
				servers := []*redistest.Server{redistest.Shared(t)}
				if several {
					servers = nil
					for range n {
						servers = append(servers, redistest.Start(t))
					}
				}
				name := locktest.Name(t)
				var all []*redistest.Process
				for i := range n {
					next := (i + 1) % n
					all = append(all, redistest.Worker(t, "deadlock",
						"TEST_LABEL="+fmt.Sprint("worker", i),
						"TEST_FIRST_URL="+servers[i%len(servers)].URL(), "TEST_SECOND_URL="+servers[next%len(servers)].URL(),
						fmt.Sprint("TEST_FIRST=", name, i), fmt.Sprint("TEST_SECOND=", name, next)))
				}
				for _, p := range all {
					if line := <-p.Lines(); line != "holds" {
						t.Fatal(line)
					}
				}
				for _, p := range all {
					p.Send("go")
				}
				ended := 0
				for _, p := range all {
					line := <-p.Lines()
					if line == "done <nil>" {
						continue
					}
					ended++
					for i := range n {
						if !strings.Contains(line, "deadlock: ") || !strings.Contains(line, fmt.Sprintf("(worker%d, pid", i)) || !strings.Contains(line, fmt.Sprintf("holds %q", fmt.Sprint(name, i))) {
							t.Fatalf("%d: %s", i, line)
						}
					}
				}
				if ended != 1 {
					t.Errorf("%d processes were ended", ended)
				}
			})
		}
	}
}

// A writer that waits for readers, a set of locks, and locks that were entered again take part.
func TestDeadlockOfKinds(t *testing.T) {
	s := redistest.Shared(t)
	i := inspect.New(locktest.Open(t, s.URL()).Driver())
	type locks func(c *holdfast.Client, name string) (mine, other holdfast.Locker)
	for _, test := range []struct {
		name string
		a, b locks
	}{
		{
			"read and write",
			func(c *holdfast.Client, n string) (holdfast.Locker, holdfast.Locker) {
				return c.RWMutex(n).RLocker(), c.Mutex(n + "2")
			},
			func(c *holdfast.Client, n string) (holdfast.Locker, holdfast.Locker) {
				return c.Mutex(n + "2"), c.RWMutex(n)
			},
		},
		{
			"write and read",
			func(c *holdfast.Client, n string) (holdfast.Locker, holdfast.Locker) {
				return c.RWMutex(n), c.FencedMutex(n + "2")
			},
			func(c *holdfast.Client, n string) (holdfast.Locker, holdfast.Locker) {
				return c.FencedMutex(n + "2"), c.RWMutex(n).RLocker()
			},
		},
		{
			"multi",
			func(c *holdfast.Client, n string) (holdfast.Locker, holdfast.Locker) {
				return holdfast.MultiLocker(c.Mutex(n), c.Mutex(n+"1")), c.FairMutex(n + "2")
			},
			func(c *holdfast.Client, n string) (holdfast.Locker, holdfast.Locker) {
				return c.FairMutex(n + "2"), holdfast.MultiLocker(c.Mutex(n+"1"), c.Mutex(n+"3"))
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			name := "{" + locktest.Name(t) + "}"
			errs := make([]error, 2)
			held := make(chan struct{}) // both have their first lock
			var wg sync.WaitGroup
			for n, of := range []locks{test.a, test.b} {
				c := locktest.Open(t, s.URL(), holdfast.Options{Deadlocks: holdfast.EndDeadlocks})
				mine, other := of(c, name)
				l := locktest.Lock(t, t.Context(), mine)
				wg.Go(func() {
					<-held
					var next *holdfast.Lease
					if next, errs[n] = other.Lock(l.Context()); next != nil {
						_ = next.Release(t.Context())
					}
					_ = l.Release(t.Context())
				})
			}
			close(held)
			found := false
			locktest.Eventually(t, 30*time.Second, "the deadlock is found", func() bool {
				for d, err := range i.Deadlocks(t.Context(), inspect.Query{}) {
					if err == nil && strings.Contains(fmt.Sprint(d), name) {
						found = len(d.Calls) == 2
					}
				}
				return found
			})
			wg.Wait()
			if errors.Is(errs[0], holdfast.ErrDeadlock) == errors.Is(errs[1], holdfast.ErrDeadlock) {
				t.Errorf("%v\n%v", errs[0], errs[1])
			}
		})
	}
}

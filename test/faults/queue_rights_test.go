package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// queueRights are the rights that only the queue of waiting clients needs, or that it needs
// besides other kinds of locks.
var queueRights = map[string]func(right string) bool{
	"the key":       func(right string) bool { return strings.HasPrefix(right, "~holdfast:queue:") },
	"the channel":   func(right string) bool { return strings.HasPrefix(right, "&holdfast:queue:") },
	"both":          func(right string) bool { return strings.HasPrefix(right[1:], "holdfast:queue:") },
	"zadd":          func(right string) bool { return right == "+zadd" },
	"zrem":          func(right string) bool { return right == "+zrem" },
	"zrange":        func(right string) bool { return right == "+zrange" },
	"zrank":         func(right string) bool { return right == "+zrank" },
	"pubsub numsub": func(right string) bool { return right == "+pubsub|numsub" },
}

// Without a right that the queue of waiting clients needs, each client gets the lock in its
// turn all the same, nothing is left at the server, and Check names the right. Some of the
// clients may have it.
func TestWithoutQueueRights(t *testing.T) {
	t.Parallel()
	keys, channels, commands := check.Rule("", "app:", 0, false)
	for what, missing := range queueRights {
		for _, entitled := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/%d of 3 have it", what, entitled), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				all := slices.Concat(keys, channels, commands)
				some := slices.DeleteFunc(slices.Clone(all), missing)
				user := func(name string, rights []string) string {
					s.Do(t, slices.Concat([]string{"ACL", "SETUSER", name, "reset", "on", ">secret", "resetchannels"}, rights)...)
					return "redis://" + name + ":secret@" + s.Addr()
				}
				limited := user("limited", some)
				urls := []string{limited, limited, limited}
				for i := range entitled {
					urls[i] = user("app", all)
				}
				for kind, lock := range queueKinds {
					t.Run(kind, func(t *testing.T) { takeTurns(t, s, urls, lock) })
				}
				found, err := locktest.Open(t, limited).Check(t.Context(), "app:x", "app:{x}")
				if err != nil {
					t.Fatal(err)
				}
				for _, right := range slices.DeleteFunc(slices.Clone(all), func(right string) bool { return !missing(right) }) {
					if !slices.ContainsFunc(found, func(f holdfast.Finding) bool {
						return f.Topic == "rights" && f.Severity > holdfast.SeverityInfo && strings.Contains(f.Change, " "+strings.TrimSuffix(right, "*"))
					}) {
						t.Errorf("no finding names %s: %v", right, found)
					}
				}
			})
		}
	}
}

// queueKinds are the locks that clients queue for.
var queueKinds = map[string]func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error){
	"mutex": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
		return c.Mutex("app:mutex").Lock(ctx)
	},
	"fenced mutex": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
		return c.FencedMutex("app:fenced").Lock(ctx)
	},
	"election": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
		return c.Election("app:election").Campaign(ctx, "x")
	},
	"writers": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
		return c.RWMutex("app:rw").Lock(ctx)
	},
}

// takeTurns lets three clients lock and release, and then one give up. It checks that no
// hand-off takes long and that nothing is left.
func takeTurns(t *testing.T, s *redistest.Server, urls []string, lock func(context.Context, *holdfast.Client) (*holdfast.Lease, error)) {
	t.Helper()
	const turns = 40 // of each client
	var clients []*holdfast.Client
	section := locktest.NewSection("app")
	var slow atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, url := range urls {
		// A waiter that is not woken looks when the lease of the holder ends.
		c := locktest.Open(t, url, holdfast.Options{Handoffs: -1, PollInterval: time.Minute})
		clients = append(clients, c)
		wg.Go(func() {
			for range turns {
				start := time.Now()
				l, err := lock(t.Context(), c)
				if err != nil {
					t.Errorf("after %v: %v", time.Since(start), err)
					return
				}
				if locktest.Took(start) > 900*time.Millisecond {
					slow.Add(1)
				}
				section.Visit(l, time.Millisecond)
				if err := l.Release(context.WithoutCancel(t.Context())); err != nil {
					t.Errorf("released: %v", err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d turns in %v, %d slow ones", 3*turns, time.Since(began), slow.Load())
	section.Check(t, 3*turns)
	if n := slow.Load(); n > turns/3 {
		t.Errorf("%d hand-offs took about a second or longer", n)
	}
	l, err := lock(t.Context(), clients[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, clients[2]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that is over returns %v", err)
	}
	locktest.Release(t, l)
	locktest.Eventually(t, 20*time.Second, "nothing is left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool { return !strings.HasPrefix(key, "redisson_lock_token:") })
	})
}

package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// plainKinds are the locks that a client of another library can hold with SET NX PX.
var plainKinds = map[string]func(c *holdfast.Client, name string) holdfast.Locker{
	"mutex":        func(c *holdfast.Client, name string) holdfast.Locker { return c.Mutex(name) },
	"fair mutex":   func(c *holdfast.Client, name string) holdfast.Locker { return c.FairMutex(name) },
	"fenced mutex": func(c *holdfast.Client, name string) holdfast.Locker { return c.FencedMutex(name) },
	"write lock":   func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name) },
	"writer first": func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name, holdfast.WriterFirst()) },
	"read lock":    func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name).RLocker() },
	"multi": func(c *holdfast.Client, name string) holdfast.Locker {
		return holdfast.MultiLocker(c.Mutex("{"+name+"}a"), c.Mutex(name), c.FairMutex("{"+name+"}b"))
	},
}

// A lock that a client of another library holds as a string with a TTL is held. Calls wait
// for it, and get it when it is over or deleted.
func TestPlainLock(t *testing.T) {
	t.Parallel()
	for kind, lock := range plainKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, ctx := redistest.Shared(t), t.Context()
			c := locktest.Open(t, s.URL())
			name := locktest.Name(t)
			l := lock(c, name)
			set := func(ttl time.Duration) {
				t.Helper()
				if s.Do(t, "SET", name, "token", "NX", "PX", fmt.Sprint(ttl.Milliseconds())) == nil {
					t.Fatal("the other library does not get the lock")
				}
			}
			set(time.Minute)
			_, err := l.TryLock(ctx)
			if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left <= 0 || left > time.Minute || !strings.Contains(err.Error(), "another library") {
				t.Errorf("held: %v", err)
			}
			got := locktest.Background(ctx, l)
			locktest.AwaitWaiting(t, c, 1)
			s.Do(t, "DEL", name)
			lease := locktest.Entered(t, got) // without a message
			if s.Do(t, "SET", name, "token", "NX", "PX", "1000") != nil {
				t.Error("the other library gets a lock that is held")
			}
			locktest.Release(t, lease)
			const ttl = 1500 * time.Millisecond
			start := time.Now()
			set(ttl)
			got = locktest.Background(ctx, l)
			lease = locktest.EnteredAfter(t, ttl, got)
			if took := time.Since(start); took < ttl {
				t.Errorf("two have the lock: granted after %v", took)
			}
			locktest.Release(t, lease)
			s.Do(t, "SET", name, "data")
			if _, err := l.TryLock(ctx); !errors.Is(err, holdfast.ErrRefused) {
				t.Errorf("data without a TTL: %v", err)
			}
			s.Do(t, "DEL", name)
		})
	}
}

// Data of another type in another key of a lock is refused, and does not look like a lock of
// another library.
func TestPlainToken(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	name := locktest.Name(t)
	token := "redisson_lock_token:{" + name + "}"
	s.Do(t, "RPUSH", token, "x")
	defer s.Do(t, "DEL", token)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := locktest.Open(t, s.URL()).FencedMutex(name).Lock(ctx); !errors.Is(err, holdfast.ErrRefused) {
		t.Error(err)
	}
}

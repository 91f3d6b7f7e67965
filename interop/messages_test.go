package interop_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A message wakes a waiter even if it arrives before the reply that the lock is held.
func TestMessageBeforeSleep(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newFixture(t, release)
		p := redistest.NewProxy(t, r.server.Addr())
		behind := &fixture{r.server, join(t, peer(t, release), interop.Single(p.Addr())), open(t, p.URL())}
		wake := func(t *testing.T, name string, first, second party) {
			second.Lock(t, 0) // loads its script
			second.Unlock(t)
			first.Lock(t, 0)
			var asked atomic.Int64
			held, deliver := p.HoldReply(func(cmd []string) bool { // the first attempt comes before the subscription
				return strings.HasPrefix(cmd[0], "EVAL") && strings.Contains(strings.Join(cmd, " "), name) && asked.Add(1) == 2
			})
			entered := make(chan visit, 1)
			goroutineTB := newGoroutineTB(t)
			go func() { entered <- visit{second, second.Lock(goroutineTB, 0)} }()
			<-held
			left := first.Unlock(t)
			time.Sleep(200 * time.Millisecond) // the message has arrived by now
			deliver()
			next(t, name, entered, left).Unlock(t)
		}
		t.Run("Java first", func(t *testing.T) {
			n := name(t)
			wake(t, n, newJava(t, r.java, k, n, n), newGo(behind.golang, k, n))
		})
		t.Run("Go first", func(t *testing.T) {
			n := name(t)
			wake(t, n, newGo(r.golang, k, n), newJava(t, behind.java, k, n, n))
		})
	}, "spin")
}

// Kinds that use only a hash exclude each other. They also wake each other's waiters, except
// Redisson's spin lock, which sends no message: its waiters poll.
func TestKindsShareNames(t *testing.T) {
	t.Parallel()
	const poll = time.Second
	r := newFixtureWith(t, interop.Current, holdfast.Options{PollInterval: poll})
	plain := owned(interop.Current, "fair", "write")
	for _, a := range plain {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range plain {
				meet := func(n string, first, second party) {
					first.Lock(t, 0)
					if second.TryLock(t, 0, 0) {
						t.Fatalf("%s and %s both hold %s", a.name, b.name, n)
					}
					entered := r.visits(t, b, n, second)
					next(t, n, entered, first.Unlock(t)).Unlock(t)
				}
				n := name(t) + b.name
				meet(n+"java", newJava(t, r.java, a, n+"java", n), newGo(r.golang, b, n+"java"))
				meet(n+"go", newGo(r.golang, a, n+"go"), newJava(t, r.java, b, n+"go", n))
			}
		})
	}
}

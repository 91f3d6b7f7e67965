package interop_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// An attempts is a context that counts the attempts of a call: before each, the call asks whether
// the context is done.
type attempts struct {
	context.Context
	n atomic.Int64
}

func (a *attempts) Err() error {
	a.n.Add(1)
	return a.Context.Err()
}

// A message wakes a waiter even if it arrives before the reply that the lock is held.
func TestMessageBeforeSleep(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newFixture(t, release)
		p := redistest.NewProxy(t, r.server.Addr())
		behind := &fixture{r.server, join(t, peer(t, release), interop.Single(p.Addr())), open(t, p.URL(), unpolled)}
		// The function handled returns when the client of second has handled all messages.
		wake := func(t *testing.T, name string, first, second party, handled func()) {
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
			handled()
			deliver()
			next(t, name, entered, left).Unlock(t)
		}
		t.Run("Java first", func(t *testing.T) {
			n, latch := name(t), r.golang.Latch(name(t))
			gives(t, true)(latch.TrySet(t.Context(), 1))
			waits, opened, ctx := goroutineWaits(behind.golang), make(chan error, 1), &attempts{Context: context.Background()}
			go func() { opened <- behind.golang.Latch(latch.Name()).Wait(ctx) }()
			awaitWaiting(t, waits, opened)
			wake(t, n, newJava(t, r.java, k, n, n), newGo(behind.golang, k, n), func() {
				before := ctx.n.Load()
				gives(t, 0)(latch.CountDown(t.Context()))
				locktest.Eventually(t, 2*slack, "a later message wakes a goroutine", func() bool { return ctx.n.Load() > before })
			})
			fails(t, <-opened, nil)
		})
		t.Run("Go first", func(t *testing.T) {
			n, latch := name(t), r.golang.Latch(name(t))
			gives(t, true)(latch.TrySet(t.Context(), 1))
			opened := awaits(t, behind.java.get(t, "getCountDownLatch", latch.Name()), latch.Name())
			wake(t, n, newGo(r.golang, k, n), newJava(t, behind.java, k, n, n), func() {
				later, pass := p.HoldReply(func(cmd []string) bool { return strings.Contains(strings.Join(cmd, " "), latch.Name()) })
				gives(t, 0)(latch.CountDown(t.Context()))
				<-later // a later message has woken a thread, which asks for the count
				pass()
			})
			within(t, 2*slack, opened)
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

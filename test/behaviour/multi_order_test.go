package behaviour_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// twoServers have a lock each for every name.
type twoServers struct {
	servers [2]*redistest.Server
	others  [2]*holdfast.Client // clients that hold locks which a set waits for
}

func newTwoServers(t *testing.T) *twoServers {
	var p twoServers
	for i := range p.servers {
		p.servers[i] = redistest.Start(t)
		p.others[i] = locktest.Open(t, p.servers[i].URL())
	}
	return &p
}

// set returns what makes sets of a lock on either server, given in that order.
func (p *twoServers) set(t *testing.T, order ...int) func(n string) holdfast.Locker {
	var clients []*holdfast.Client
	for _, i := range order {
		clients = append(clients, locktest.Open(t, p.servers[i].URL()))
	}
	return func(n string) holdfast.Locker {
		return holdfast.MultiLocker(clients[0].Mutex(n), clients[1].Mutex(n))
	}
}

// grants is how often a server has granted a lock.
func grants(t *testing.T, s *redistest.Server) int {
	t.Helper()
	return locktest.Calls(t, s, "hset")
}

// begins returns on which server a set takes its first lock, when the lock on the
// other server is held.
func (p *twoServers) begins(t *testing.T, set func(string) holdfast.Locker) int {
	t.Helper()
	var held []*holdfast.Lease
	for _, c := range p.others {
		held = append(held, locktest.Lock(t, t.Context(), c.Mutex(locktest.Name(t))))
	}
	before := [2]int{grants(t, p.servers[0]), grants(t, p.servers[1])}
	ctx, cancel := context.WithCancel(t.Context())
	var ends []<-chan locktest.Outcome
	for _, l := range held {
		ends = append(ends, locktest.Background(ctx, set(l.Name())))
	}
	first := -1
	locktest.Eventually(t, 10*time.Second, "a set has a lock", func() bool {
		for i := range before {
			if grants(t, p.servers[i]) > before[i] {
				first = i
			}
		}
		return first >= 0
	})
	cancel() // so that none of them succeeds
	for i, ch := range ends {
		if o := locktest.Await(t, ch); o.Err == nil {
			t.Error("a set has got what was held")
		}
		locktest.Release(t, held[i])
	}
	return first
}

// However the locks are listed, all sets begin with the same server.
func TestMultiSameOrder(t *testing.T) {
	t.Parallel()
	p := newTwoServers(t)
	if a, b := p.begins(t, p.set(t, 0, 1)), p.begins(t, p.set(t, 1, 0)); a != b {
		t.Error("each begins with the one that was listed first, or each with the one listed last")
	}
}

// Two processes that list the locks in opposite orders do not block each other.
func TestMultiOppositeOrders(t *testing.T) {
	t.Parallel()
	p := newTwoServers(t)
	n := locktest.Name(t)
	var wg sync.WaitGroup
	var slow atomic.Int64
	for _, set := range []func(string) holdfast.Locker{p.set(t, 0, 1), p.set(t, 1, 0)} {
		wg.Go(func() {
			for range 200 {
				start := time.Now()
				locktest.Release(t, locktest.Lock(t, t.Context(), set(n)))
				// Sets that block each other do so nearly every time. A machine that
				// stands still has that effect now and then.
				if took := locktest.Took(start); took > time.Second && slow.Add(1) > 10 {
					t.Errorf("blocked for %v, and not for the first time", took)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A set that had to give way to a stranger begins with what was in its way the
// next time, since strangers may take their locks in another order; and if that
// was wrong, it returns to the order of all, which clients of this library keep
// to.
func TestMultiLearnsTheOrder(t *testing.T) {
	t.Parallel()
	p := newTwoServers(t)
	set := p.set(t, 0, 1)
	usual := p.begins(t, set)
	first := usual
	for _, c := range []struct {
		blocker func(t *testing.T, i int, n string) (release func())
		then    int
		what    string
	}{
		{p.friend, usual, "learned from a client of this library"},
		{p.stranger, 1 - usual, "not learned"},
		{p.friend, usual, "not forgotten"},
	} {
		n := locktest.Name(t)
		free := c.blocker(t, 1-first, n)
		before := grants(t, p.servers[first])
		ch := locktest.Background(t.Context(), set(n))
		locktest.Eventually(t, 10*time.Second, "the set has given way", func() bool {
			return grants(t, p.servers[first]) > before && !locktest.Locked(t, p.others[first].Mutex(n))
		})
		free()
		locktest.Release(t, locktest.Entered(t, ch))
		if first = p.begins(t, set); first != c.then {
			t.Fatal(c.what)
		}
	}
}

// stranger takes the mutex on a server as a client of Redisson does.
func (p *twoServers) stranger(t *testing.T, i int, n string) (release func()) {
	t.Helper()
	s := p.servers[i]
	s.Do(t, "HSET", n, "0a4b7f6e-3a5e-4f6c-9c1d-1f2e3d4c5b6a:1", "1")
	s.Do(t, "PEXPIRE", n, "60000")
	return func() {
		s.Do(t, "DEL", n)
		s.Do(t, "PUBLISH", "redisson_lock__channel:{"+n+"}", "0")
	}
}

// friend locks the mutex on a server, as usual.
func (p *twoServers) friend(t *testing.T, i int, n string) func() {
	t.Helper()
	l := locktest.Lock(t, t.Context(), p.others[i].Mutex(n))
	return func() { locktest.Release(t, l) }
}

// Many sets for which something was held for long, so that all of them have
// given way, find back to their order: they do not go on giving way to each
// other.
func TestMultiFindsBackToTheOrder(t *testing.T) {
	t.Parallel()
	s, s2 := redistest.Start(t), redistest.Start(t)
	for what, second := range map[string]func(c, c2 *holdfast.Client, n string) holdfast.Locker{
		"queue":       func(c, _ *holdfast.Client, n string) holdfast.Locker { return c.FairMutex(n + "fair") },
		"two servers": func(_, c2 *holdfast.Client, n string) holdfast.Locker { return c2.Mutex(n) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := locktest.Name(t)
			ctx, cancel := context.WithCancel(t.Context())
			var rounds atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				c, c2 := locktest.Open(t, s.URL()), locktest.Open(t, s2.URL())
				for range 8 {
					wg.Go(func() {
						for ctx.Err() == nil {
							l, err := holdfast.MultiLocker(c.Mutex(n), second(c, c2, n)).Lock(ctx)
							if err == nil {
								rounds.Add(1)
								err = l.Release(ctx)
							}
							if ctx.Err() == nil && err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			for _, blocker := range []holdfast.Locker{locktest.Open(t, s.URL()).Mutex(n), second(locktest.Open(t, s.URL()), locktest.Open(t, s2.URL()), n)} {
				held := locktest.Lock(t, t.Context(), blocker)
				locktest.Work(4 * time.Second) // for many to have waited a moment with something in hand
				locktest.Release(t, held)
				before := rounds.Load()
				locktest.Eventually(t, 20*time.Second, "the sets get on with it", func() bool { return rounds.Load() > before+200 })
			}
			cancel()
			wg.Wait()
		})
	}
}

package behaviour_test

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
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A locking locks a name for a client.
type locking func(ctx context.Context, c *holdfast.Client, name string) (*holdfast.Lease, error)

// lockings are all kinds of locks that clients can queue for.
var lockings = map[string]locking{
	"mutex": func(ctx context.Context, c *holdfast.Client, name string) (*holdfast.Lease, error) {
		return c.Mutex(name).Lock(ctx)
	},
	"fenced mutex": func(ctx context.Context, c *holdfast.Client, name string) (*holdfast.Lease, error) {
		return c.FencedMutex(name).Lock(ctx)
	},
	"fair mutex": func(ctx context.Context, c *holdfast.Client, name string) (*holdfast.Lease, error) {
		return c.FairMutex(name).Lock(ctx)
	},
	"rwmutex": func(ctx context.Context, c *holdfast.Client, name string) (*holdfast.Lease, error) {
		return c.RWMutex(name).Lock(ctx)
	},
	"election": func(ctx context.Context, c *holdfast.Client, name string) (*holdfast.Lease, error) {
		return c.Election(name).Campaign(ctx, "x")
	},
}

// compete lets clients lock and release one name until all of them together have had it n
// times. It checks that at most one holds it and that tokens rise, and returns how often
// each has had it.
func compete(t *testing.T, lock locking, name string, n int64, clients ...*holdfast.Client) []int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	had := make([]int64, len(clients))
	var total, token atomic.Int64
	section := locktest.NewSection(name)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				l, err := lock(ctx, c, name)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				section.Visit(l, 0)
				if last := token.Swap(l.Token()); last >= l.Token() {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				had[i]++
				if err := l.Release(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
				if total.Add(1) >= n {
					cancel()
				}
			}
		})
	}
	wg.Wait()
	visits := 0
	for _, n := range had {
		visits += int(n)
	}
	section.Check(t, visits)
	return had
}

// The cost of a hand-off does not depend on how many clients wait.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const clients, rounds = 40, 1000
	for kind, lock := range lockings {
		t.Run(kind, func(t *testing.T) {
			s := redistest.Start(t)
			var crowd []*holdfast.Client
			for range clients {
				crowd = append(crowd, locktest.Open(t, s.URL(), holdfast.Options{Handoffs: -1}))
			}
			compete(t, lock, "crowd", 5*clients, crowd...) // the scripts are known, and the channels subscribed
			before := requests(t, s)
			had := compete(t, lock, "crowd", rounds, crowd...)
			n := requests(t, s) - before
			t.Logf("%.2f requests for a hand-off", float64(n)/rounds)
			if n > 5*rounds {
				t.Errorf("%d requests for %d hand-offs between %d clients", n, rounds, clients)
			}
			for i, n := range had {
				if n < rounds/clients/4 {
					t.Errorf("client %d has had the lock %d times: %v", i, n, had)
				}
			}
			s.Do(t, "DEL", "redisson_lock_token:{crowd}")
			locktest.Eventually(t, 20*time.Second, "nothing is left", func() bool { return len(s.Keys(t)) == 0 })
		})
	}
}

// The permits of a semaphore go to clients that queue for them, some of which want more than
// one.
func TestCrowdOfPermits(t *testing.T) {
	t.Parallel()
	const clients, permits, rounds = 40, 3, 1000
	s := redistest.Start(t)
	var crowd []*holdfast.LeasedSemaphore
	for range clients {
		crowd = append(crowd, locktest.Open(t, s.URL()).LeasedSemaphore("crowd"))
	}
	if err := crowd[0].Set(t.Context(), permits); err != nil {
		t.Fatal(err)
	}
	var had, taken, longest atomic.Int64
	compete := func(rounds int64) {
		had.Store(0)
		var wg sync.WaitGroup
		for i, sem := range crowd {
			wg.Go(func() {
				n := int64(1 + i%2)
				for had.Add(1) <= rounds {
					start := time.Now()
					l, err := sem.Acquire(t.Context(), int(n))
					if err != nil {
						t.Error(err)
						return
					}
					for took, most := int64(time.Since(start)), longest.Load(); took > most && !longest.CompareAndSwap(most, took); {
						most = longest.Load()
					}
					if now := taken.Add(n); now > permits {
						t.Errorf("%d of %d permits are taken", now, permits)
					}
					taken.Add(-n)
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	compete(5 * clients)
	before := requests(t, s)
	compete(rounds)
	n := requests(t, s) - before
	t.Logf("%.2f requests for an acquisition, the longest took %v", float64(n)/rounds, time.Duration(longest.Load()))
	if n > 5*rounds {
		t.Errorf("%d requests for %d acquisitions by %d clients", n, rounds, clients)
	}
	if state, err := crowd[0].State(t.Context()); err != nil || state != (holdfast.PermitState{Available: permits}) {
		t.Errorf("the state is %+v, %v", state, err)
	}
	locktest.Eventually(t, 20*time.Second, "only the number of permits is left", func() bool { return len(s.Keys(t)) == 1 })
}

// requests returns how many requests a server has had from clients that lock.
func requests(t *testing.T, s *redistest.Server) int {
	return locktest.Calls(t, s, "evalsha") + locktest.Calls(t, s, "subscribe") + locktest.Calls(t, s, "unsubscribe")
}

// Redisson tells the next owner in the queue of a fair lock on a channel of this owner. A
// call subscribes to it if Redisson may hold the lock or be ahead in the queue. Otherwise the
// channel of its client is enough.
func TestFairBesideRedisson(t *testing.T) {
	t.Parallel()
	const java = "0f8fad5b-d9cb-469f-a165-70867728950e:42" // its UUID is of version 4
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	own := func(p locktest.Place, name string) string { return "redisson_lock__channel:{" + name + "}:" + p.Owner }
	subscribed := func(channel string) bool { return slices.Contains(s.Channels(t), channel) }

	m := c.FairMutex("ours")
	held := locktest.Lock(t, t.Context(), m)
	p := locktest.Enqueue(t, t.Context(), s, m)
	locktest.Eventually(t, 20*time.Second, "the client listens for grants", func() bool {
		return subscribed("holdfast:queue:{ours}:" + strings.Split(p.Owner, ":")[0])
	})
	locktest.AwaitHeartbeats(t, s, "ours", p) // it has asked at least once more
	if subscribed(own(p, "ours")) {
		t.Error("a call listens on the channel of its owner, and no client of Redisson is there")
	}
	locktest.Release(t, held)
	locktest.Release(t, locktest.Entered(t, p.Got))

	s.Do(t, "HSET", "java", java, "1")
	s.Do(t, "PEXPIRE", "java", "600000")
	p = locktest.Enqueue(t, t.Context(), s, c.FairMutex("java"))
	locktest.Eventually(t, 20*time.Second, "the call listens on the channel of its owner", func() bool { return subscribed(own(p, "java")) })
	s.Do(t, "DEL", "java")
	s.Do(t, "PUBLISH", own(p, "java"), "0")
	locktest.Release(t, locktest.Entered(t, p.Got))
	locktest.Eventually(t, 20*time.Second, "no client listens on the channel", func() bool { return !subscribed(own(p, "java")) })
	locktest.WantNoQueue(t, s, "java")
}

// Readers get the lock beside clients that write one after the other, also if the same
// clients have writers in the queue.
func TestReadersAndQueuedWriters(t *testing.T) {
	t.Parallel()
	const clients, writes = 3, 600
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wrote, read atomic.Int64
	section := locktest.NewSection("x")
	var wg sync.WaitGroup
	use := func(m holdfast.Locker, had *atomic.Int64, visit func(l *holdfast.Lease, inside time.Duration)) {
		for ctx.Err() == nil {
			l, err := m.Lock(ctx)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			visit(l, 0)
			had.Add(1)
			if err := l.Release(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
			if wrote.Load() >= writes {
				cancel()
			}
		}
	}
	for range clients {
		c := locktest.Open(t, s.URL(), holdfast.Options{Handoffs: -1})
		wg.Go(func() { use(c.RWMutex("x").RLocker(), &read, section.Read) })
		for range 2 {
			wg.Go(func() { use(c.RWMutex("x"), &wrote, section.Visit) })
		}
	}
	wg.Wait()
	t.Logf("%d writes, %d reads", wrote.Load(), read.Load())
	section.Check(t, int(wrote.Load()+read.Load()))
	if read.Load() < writes/6 {
		t.Errorf("%d reads beside %d writes", read.Load(), wrote.Load())
	}
}

// A call that has given up is not in the queue when it returns. So a release that follows
// does not grant the lock to it.
func TestGivenUpIsNotQueued(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), a.Mutex("x"))
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(ctx)
			ended <- err
		}()
		locktest.Eventually(t, 20*time.Second, "the client is in the queue", func() bool {
			return s.Int(t, "ZCARD", "holdfast:queue:{x}") == 1
		})
		start := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Logf("the server took %v to answer", took) // after 250 ms the call does not wait for it
			continue
		}
		if n := s.Int(t, "ZCARD", "holdfast:queue:{x}"); n != 0 {
			t.Fatal("the client has given up and is still in the queue")
		}
	}
	locktest.Release(t, l)
}

// Clients of earlier versions, which do not queue, share a lock with those that do, while a
// fleet is upgraded and back.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	const clients, rounds = 4, 1000
	for upgraded := 1; upgraded < clients; upgraded++ {
		t.Run(fmt.Sprint(upgraded), func(t *testing.T) {
			var fleet []*holdfast.Client
			for i := range clients {
				fleet = append(fleet, locktest.Open(t, redistest.Shared(t).URL(), holdfast.Options{Handoffs: -1, WakeAll: i >= upgraded}))
			}
			had := compete(t, lockings["mutex"], "upgrade:"+fmt.Sprint(upgraded), rounds, fleet...)
			var of [2]int64 // the upgraded clients, and the others
			for i, n := range had {
				of[min(i/upgraded, 1)] += n
			}
			for side, members := range []int64{int64(upgraded), int64(clients - upgraded)} {
				if fair := rounds * members / clients; of[side] < fair/4 {
					t.Errorf("%d clients, of which %d are upgraded: %v", clients, upgraded, had)
				}
			}
		})
	}
}

// If a client is granted the lock and does not run, another gets it after some seconds.
func TestGranteeStopped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	holder, stopped, next := locktest.Open(t, s.URL()), locktest.Open(t, p.URL()), locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), holder.Mutex("k"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	waits := func(n int64) func() bool { return func() bool { return s.Int(t, "ZCARD", "holdfast:queue:{k}") == n } }
	wg.Go(func() {
		if l, err := stopped.Mutex("k").Lock(ctx); err == nil {
			_ = l.Release(t.Context())
		}
	})
	locktest.Eventually(t, 10*time.Second, "the first client waits", waits(1))
	got := make(chan *holdfast.Lease, 1)
	wg.Go(func() { got <- locktest.Lock(t, t.Context(), next.Mutex("k")) })
	locktest.Eventually(t, 10*time.Second, "the second client waits", waits(2))
	p.Freeze()
	defer p.Thaw()
	locktest.Release(t, l)
	start := time.Now()
	l = <-got
	if took := locktest.Took(start); took > 5*time.Second {
		t.Errorf("the next client got the lock after %v", took)
	}
	locktest.Release(t, l)
}

// A call fails at once if as many wait for the lock as may. Those that wait get it.
func TestMaxQueue(t *testing.T) {
	t.Parallel()
	const most = 2
	for kind, lock := range lockings {
		t.Run(kind, func(t *testing.T) {
			s := redistest.Shared(t)
			name := "bounded:" + kind
			l, err := lock(t.Context(), locktest.Open(t, s.URL()), name)
			if err != nil {
				t.Fatal(err)
			}
			c := locktest.Open(t, s.URL(), holdfast.Options{MaxQueue: most})
			length := func() int64 {
				return s.Int(t, "ZCARD", "holdfast:queue:{"+name+"}") + s.Int(t, "LLEN", "redisson_lock_queue:{"+name+"}")
			}
			var wg sync.WaitGroup
			wait := func(c *holdfast.Client, ahead int64) {
				wg.Go(func() {
					if l, err := lock(t.Context(), c, name); err != nil {
						t.Error(err)
					} else {
						locktest.Release(t, l)
					}
				})
				locktest.Eventually(t, 10*time.Second, "it waits", func() bool { return length() == ahead+1 })
			}
			for i := range int64(most) {
				wait(locktest.Open(t, s.URL(), holdfast.Options{MaxQueue: most}), i)
			}
			start := time.Now()
			limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err = lock(limited, c, name)
			if !errors.Is(err, holdfast.ErrQueueFull) || !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("the error is %v", err)
			}
			if took := locktest.Took(start); took > 5*time.Second {
				t.Errorf("it failed after %v", took)
			}
			if n := length(); n != most {
				t.Errorf("%d are in the queue", n)
			}
			wait(locktest.Open(t, s.URL()), most) // others may have no bound
			locktest.Release(t, l)
			wg.Wait()
		})
	}
}

// The bound is also one for the calls of a client.
func TestMaxQueueOfOneClient(t *testing.T) {
	t.Parallel()
	const most = 3
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{MaxQueue: most})
	permits := c.LeasedSemaphore("bounded permits")
	if err := permits.Set(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for kind, lock := range map[string]func() (*holdfast.Lease, error){
		"mutex":   func() (*holdfast.Lease, error) { return c.Mutex("bounded calls").Lock(t.Context()) },
		"rwmutex": func() (*holdfast.Lease, error) { return c.RWMutex("bounded writers").Lock(t.Context()) },
		"fair":    func() (*holdfast.Lease, error) { return c.FairMutex("bounded owners").Lock(t.Context()) },
		"permits": func() (*holdfast.Lease, error) { return permits.Acquire(t.Context(), 1) },
	} {
		t.Run(kind, func(t *testing.T) {
			l, err := lock()
			if err != nil {
				t.Fatal(err)
			}
			const calls = 20
			refused := make(chan error, calls)
			var granted atomic.Int64
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					l, err := lock()
					if err != nil {
						refused <- err
						return
					}
					granted.Add(1)
					locktest.Release(t, l)
				})
			}
			for range calls - most {
				if err, ok := locktest.Receive(refused, 20*time.Second); !ok || !errors.Is(err, holdfast.ErrQueueFull) {
					t.Fatalf("the error of a call is %v", err)
				}
			}
			locktest.Release(t, l)
			wg.Wait()
			if n := granted.Load(); n != most {
				t.Errorf("%d calls got it", n)
			}
		})
	}
}

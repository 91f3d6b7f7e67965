package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are what Redisson's tests ask of the fair lock beyond
// what all kinds share. The number in a test's name is its id. Times are
// shorter than in Redisson where nothing depends on their length.

// A waiter that does not run loses its place or its grant, so a round in which the machine
// stands still does not count.
func TestFA01LeasesRunOutInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	redistest.MeterStalls(t, s).Rounds(t, time.Second, func() error { return leasesRunOut(t, s) })
}

func leasesRunOut(t *testing.T, s *redistest.Server) error {
	n := locktest.Name(t)
	// Waiters look once in a second. With a shorter lease, a grant may be over when
	// its waiter sees it, and the waiter would have to queue again behind the others.
	const waiters, lease = 4, 5 * time.Second
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
	var places []locktest.Place
	for i := range waiters {
		places = append(places, locktest.Enqueue(t, t.Context(), s, cs[i%2].FairMutex(n), holdfast.LeaseTime(lease)))
	}
	start := time.Now()
	locktest.Release(t, l)
	var last *holdfast.Lease
	for i, p := range places {
		o, ok := locktest.Receive(p.Got, lease+locktest.Late) // and never released
		switch {
		case !ok:
			return fmt.Errorf("number %d still waits", i)
		case o.Err != nil:
			return fmt.Errorf("number %d: %w", i, o.Err)
		case o.Lease.Owner() != p.Owner:
			return fmt.Errorf("number %d in the queue was %s, and is %s", i, p.Owner, o.Lease.Owner())
		case last != nil && (last.Valid() || o.Lease.Token() <= last.Token()):
			return fmt.Errorf("number %d entered before the lease of its predecessor was over", i)
		}
		last = o.Lease
	}
	if took := time.Since(start); took < (waiters-1)*lease || locktest.Took(start) > (waiters-1)*(lease+locktest.Late) {
		return fmt.Errorf("all were in after %v, want about %v", took, (waiters-1)*lease)
	}
	locktest.Eventually(t, lease+locktest.Late, "the last lease is over", func() bool { return s.Int(t, "EXISTS", n) == 0 })
	locktest.WantNoQueue(t, s, n)
	return nil
}

func TestFA02FiveHundredWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	waiters := locktest.Often(500)
	first := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	var cs [5]*holdfast.Client
	for i := range cs {
		cs[i] = locktest.Open(t, s.URL())
	}
	var order []string // guarded by the lock under test
	sec := locktest.NewSection(n)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			l, err := cs[i%len(cs)].FairMutex(n).Lock(t.Context(), holdfast.LeaseTime(20*time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, l.Owner())
			sec.Visit(l, 2*time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	came := locktest.AwaitQueue(t, s, n, waiters)
	start := time.Now()
	locktest.Release(t, first)
	wg.Wait()
	// Waiters that get no message look once in a second.
	if took := locktest.Took(start); took > max(30*time.Second, time.Duration(waiters)*200*time.Millisecond) {
		t.Errorf("all were in after %v", took)
	}
	sec.Check(t, waiters)
	if !slices.Equal(order, came) {
		t.Error("the order of entry is not that of arrival")
	}
	locktest.WantNoQueue(t, s, n)
}

// churn tries for a fair mutex again and again, three at a time.
func churn(t *testing.T, s *redistest.Server, name string, wait, lease time.Duration) (got int) {
	t.Helper()
	var mu sync.Mutex
	c := locktest.Open(t, s.URL())
	locktest.Parallel(3, func(int) {
		for range 50 {
			l, err := c.FairMutex(name).TryLock(t.Context(), holdfast.Wait(wait), holdfast.LeaseTime(lease))
			if errors.Is(err, holdfast.ErrNotAcquired) || wait < locktest.Late && locktest.TimedOut(err) {
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			got++
			mu.Unlock()
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	return got
}

func TestFA03DeadlinesAfterRefusedTries(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	const lease = 2 * time.Minute
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	if got := churn(t, s, n, 10*time.Millisecond, lease); got != 0 {
		t.Errorf("%d tries have succeeded beside the holder", got)
	}
	locktest.WantNoQueue(t, s, n)
	locktest.EnqueueProcess(t, s, n, 1).Kill()
	locktest.WantDeadlines(t, s, n, lease)
	locktest.Release(t, l)
	locktest.Release(t, locktest.EnteredPastDead(t, locktest.Background(t.Context(), locktest.Open(t, s.URL()).FairMutex(n))))
	locktest.WantNoQueue(t, s, n)
}

func TestFA04DeadlinesAfterTries(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	const lease = 30 * time.Second
	if got := churn(t, s, n, 20*time.Second, lease); got != 150 {
		t.Errorf("%d of 150 tries have succeeded", got)
	}
	locktest.WantNoQueue(t, s, n)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	locktest.EnqueueProcess(t, s, n, 1).Kill()
	locktest.WantDeadlines(t, s, n, lease)
	locktest.Release(t, l)
	locktest.Release(t, locktest.EnteredPastDead(t, locktest.Background(t.Context(), locktest.Open(t, s.URL()).FairMutex(n))))
	locktest.WantNoQueue(t, s, n)
}

func TestFA05DeadlinesBehindDeadWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	const lease = 2 * time.Minute
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	locktest.EnqueueProcess(t, s, n, 1).Kill()
	if got := churn(t, s, n, 10*time.Millisecond, lease); got != 0 {
		t.Errorf("%d tries have succeeded beside the holder", got)
	}
	// A waiter that could not leave the queue in time leaves it in the background.
	locktest.Eventually(t, 10*time.Second, "the tries have left", func() bool { return s.Int(t, "LLEN", locktest.QueueKey(n)) <= 1 })
	p := locktest.Enqueue(t, t.Context(), s, locktest.Open(t, s.URL()).FairMutex(n))
	locktest.WantDeadlines(t, s, n, lease)
	locktest.Release(t, l)
	got := locktest.EnteredPastDead(t, p.Got)
	if got.Owner() != p.Owner {
		t.Errorf("%s was in the queue, and %s is in", p.Owner, got.Owner())
	}
	locktest.Release(t, got)
	locktest.WantNoQueue(t, s, n)
}

// Redisson tells each waiter how long those before it may take, and has to
// correct that when one of them leaves. Here it does not concern the others.
func TestFA06SecondGivesUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	const lease = time.Minute
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var places []locktest.Place
	for i := range 4 {
		each := t.Context()
		if i == 1 {
			each = ctx
		}
		places = append(places, locktest.Enqueue(t, each, s, locktest.Open(t, s.URL()).FairMutex(n)))
		locktest.WantDeadlines(t, s, n, lease)
	}
	// A waiter that has subscribed knows that the lock is held.
	id, _, _ := strings.Cut(places[1].Owner, ":")
	locktest.AwaitListener(t, s, "holdfast:queue:{"+n+"}:"+id)
	cancel()
	if err := locktest.Await(t, places[1].Got).Err; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("the second gave up with %v", err)
	}
	places = slices.Delete(places, 1, 2)
	// A waiter that cannot leave the queue in time leaves it in the background.
	locktest.Eventually(t, 10*time.Second, "the second has left", func() bool { return s.Int(t, "LLEN", locktest.QueueKey(n)) == int64(len(places)) })
	locktest.WantQueue(t, s, n, places...)
	locktest.WantDeadlines(t, s, n, lease)
	start := time.Now()
	locktest.Release(t, l)
	first := locktest.Entered(t, places[0].Got)
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("the first got in after %v, want at once", took)
	}
	locktest.WantQueue(t, s, n, places[1:]...)
	locktest.Release(t, first)
	locktest.EnterInOrder(t, places[1:]...)
	locktest.WantNoQueue(t, s, n)
}

func TestFA07TriesRunOut(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	const wait, lease = 5 * time.Second, time.Minute
	var cs [4]*holdfast.Client
	for i := range cs {
		cs[i] = locktest.Open(t, s.URL())
	}
	locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease)) // and never released
	var places []locktest.Place
	for _, c := range cs[:3] {
		places = append(places, locktest.Enqueue(t, t.Context(), s, c.FairMutex(n), holdfast.Wait(wait)))
	}
	last := locktest.Enqueue(t, t.Context(), s, cs[3].FairMutex(n), holdfast.Wait(lease), holdfast.LeaseTime(10*time.Second))
	for _, p := range places {
		if err := locktest.AwaitAfter(t, wait, p.Got).Err; !locktest.TimedOut(err) {
			t.Errorf("the try ended with %v, want ErrNotAcquired", err)
		}
	}
	// A waiter that cannot leave the queue in time leaves it in the background.
	locktest.Eventually(t, 10*time.Second, "the tries have left", func() bool { return s.Int(t, "LLEN", locktest.QueueKey(n)) == 1 })
	locktest.WantQueue(t, s, n, last)
	locktest.WantDeadlines(t, s, n, lease)
	// The lease must not end before all of that is seen, so its end is set now.
	ends := locktest.ServerTime(t, s) + 500
	s.Do(t, "PEXPIREAT", n, fmt.Sprint(ends))
	l := locktest.EnteredAfter(t, time.Second, last.Got)
	if after := expiry(t, s, n) - 10_000 - ends; after < 0 || after > locktest.Late.Milliseconds() {
		t.Errorf("the last try got in %d ms after the lease, want at once", after)
	}
	locktest.Release(t, l)
	locktest.WantNoQueue(t, s, n)
}

// A grant does not spoil the deadlines of the remaining waiters.
func TestFA08DeadlinesAfterGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	const lease = 30 * time.Second
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	var places []locktest.Place
	for range 4 {
		places = append(places, locktest.Enqueue(t, t.Context(), s, locktest.Open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease)))
	}
	for i, p := range places {
		locktest.WantQueue(t, s, n, places[i:]...)
		locktest.WantDeadlines(t, s, n, lease)
		locktest.Release(t, l)
		l = locktest.Entered(t, p.Got)
		locktest.AwaitHeartbeats(t, s, n, places[i+1:]...) // under this holder
	}
	locktest.Release(t, l)
	locktest.WantNoQueue(t, s, n)
}

func TestFA09AllAbandon(t *testing.T) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		s := redistest.Shared(t)
		n := locktest.Name(t)
		l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
		locktest.EnqueueProcess(t, s, n, 3).Kill()
		time.Sleep(100 * time.Millisecond) // until the server has read their last words
		locktest.Release(t, l)
		start := time.Now()
		got := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
		if took := locktest.Took(start); took > 3*time.Second+2*locktest.Late {
			t.Errorf("got in after %v", took)
		}
		locktest.WantNoQueue(t, s, n)
		locktest.Release(t, got)
	})
	// A Java waiter that was interrupted leaves its entry behind. Its time is
	// over now.
	t.Run("Java threads", func(t *testing.T) {
		t.Parallel()
		s := redistest.Shared(t)
		m := locktest.Open(t, s.URL()).FairMutex(locktest.Name(t))
		for i := range 3 {
			zombie := fmt.Sprint("0b1f1c4e-8d5c-4b0e-9d5e-2f6d9f0c7a11:", i)
			s.Do(t, "RPUSH", locktest.QueueKey(m.Name()), zombie)
			if i != 1 { // and this one has none, which stops Redisson for ever
				s.Do(t, "ZADD", locktest.DeadlinesKey(m.Name()), fmt.Sprint(time.Now().UnixMilli()-1000), zombie)
			}
		}
		locktest.WantFree(t, m)
		locktest.WantNoQueue(t, s, m.Name())
	})
}

func TestFA10FailedTryLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	l, err := locktest.Open(t, s.URL()).FairMutex(n).TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := locktest.Open(t, s.URL()).FairMutex(n)
	if _, err := m.TryLock(t.Context(), holdfast.Wait(time.Second)); !locktest.TimedOut(err) {
		t.Errorf("error %v, want ErrNotAcquired", err)
	}
	locktest.WantRefused(t, m) // this one does not queue
	locktest.WantNoQueue(t, s, n)
	locktest.Release(t, l)
	locktest.WantFree(t, m)
}

// A single try does not overtake waiters.
func TestFA10TryDoesNotPass(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	c := locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), c.FairMutex(n))
	w := locktest.EnqueueProcess(t, s, n, 1)
	w.Pause()
	locktest.Release(t, l)
	locktest.WantRefused(t, c.FairMutex(n))
	w.Resume()
	if ivs := locktest.Visits(t, w); len(ivs) != 1 {
		t.Errorf("the one in the queue was in %d times", len(ivs))
	}
	locktest.WantFree(t, c.FairMutex(n))
	locktest.WantNoQueue(t, s, n)
}

func TestFA11StrictOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
	l := locktest.Lock(t, t.Context(), cs[0].FairMutex(n))
	var places []locktest.Place
	for i := range max(2*runtime.NumCPU(), 12) {
		places = append(places, locktest.Enqueue(t, t.Context(), s, cs[i%len(cs)].FairMutex(n)))
	}
	locktest.Release(t, l)
	locktest.EnterInOrder(t, places...)
	locktest.WantNoQueue(t, s, n)
}

// All keys of a name are in one slot of a cluster, and named as Redisson does.
func TestFA12KeyNames(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	for name, tagged := range map[string]string{"Test:plain": "{Test:plain}", "Test:{tag}:x": "Test:{tag}:x"} {
		c := locktest.Open(t, locktest.Enduring(s.URL()), holdfast.Options{WakeAll: true}) // it listens as Redisson does
		m := c.FairMutex(name)
		l := locktest.Lock(t, t.Context(), m)
		waiter := locktest.Background(t.Context(), m)
		want := []string{
			"holdfast:waiting:" + tagged, "redisson_lock_queue:" + tagged, "redisson_lock_timeout:" + tagged, name,
		}
		slices.Sort(want)
		locktest.Eventually(t, 10*time.Second, "a waiter has subscribed", func() bool {
			return s.Int(t, "LLEN", "redisson_lock_queue:"+tagged) == 1 && len(s.Channels(t)) == 1
		})
		if keys := s.Keys(t); !slices.Equal(keys, want) {
			t.Errorf("keys %q, want %q", keys, want)
		}
		owner := s.Strings(t, "LRANGE", "redisson_lock_queue:"+tagged, "0", "-1")[0]
		if ch := s.Channels(t)[0]; ch != "redisson_lock__channel:"+tagged+":"+owner {
			t.Errorf("channel %q of the waiter %q", ch, owner)
		}
		st, err := m.State(t.Context())
		if err != nil || st.Owner != l.Owner() || !slices.Equal(st.Waiting, []string{owner}) {
			t.Errorf("State is %+v, %v, want the owner %s and the waiter %s", st, err, l.Owner(), owner)
		}
		locktest.Release(t, l)
		locktest.Release(t, locktest.Entered(t, waiter))
		if keys := s.Keys(t); len(keys) > 0 {
			t.Errorf("keys left: %q", keys)
		}
		locktest.Eventually(t, 10*time.Second, "no channel is left", func() bool { return len(s.Channels(t)) == 0 })
	}
}

// The pause is shorter than Redisson's, but longer than a waiter may be silent,
// and longer than a request may take. No other test runs at the same time: a waiter
// that does not run for some seconds loses its place, as it should.
func TestFA13PausedServer(t *testing.T) {
	for when, during := range map[string]bool{"released after the pause": false, "released in the pause": true} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			pausedServer(t, 4*time.Second, during)
		})
	}
}

// pausedServer checks that a queue survives a pause of the server. A waiter that does
// not run loses its place, so a round in which the machine stands still does not
// count.
func pausedServer(t *testing.T, pause time.Duration, during bool) {
	t.Helper()
	s := redistest.Start(t)
	redistest.MeterStalls(t, s).Rounds(t, time.Second, func() error { return pausedServerRound(t, s, pause, during) })
}

func pausedServerRound(t *testing.T, s *redistest.Server, pause time.Duration, during bool) (failed error) {
	t.Helper()
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()+"?timeout=20s").FairMutex(n))
	var places []locktest.Place
	for range 6 {
		// A request that was sent in the pause counts as a sign of life when it
		// ends, however busy this process is then.
		places = append(places, locktest.Enqueue(t, t.Context(), s, locktest.Open(t, s.URL()+"?timeout=20s").FairMutex(n)))
		time.Sleep(150 * time.Millisecond) // so that they give their signs at different times
	}
	s.Do(t, "CLIENT", "PAUSE", fmt.Sprint(pause.Milliseconds()), "WRITE")
	var want []string
	for _, p := range places {
		want = append(want, p.Owner)
	}
	if !during {
		time.Sleep(pause + 1500*time.Millisecond) // until all have spoken again
		if got := locktest.Queue(t, s, n); !slices.Equal(got, want) {
			failed = fmt.Errorf("the queue is %q, want %q", got, want)
		} else {
			locktest.WantDeadlines(t, s, n, 30*time.Second)
		}
	}
	locktest.Release(t, l)
	var order []string
	entered := make(chan string)
	for _, p := range places {
		go func() {
			o := <-p.Got
			if o.Err != nil {
				entered <- o.Err.Error()
				return
			}
			entered <- o.Lease.Owner()
			locktest.Release(t, o.Lease)
		}()
	}
	for range places {
		owner, ok := locktest.Receive(entered, 20*time.Second)
		if !ok {
			t.Fatal("still waiting")
		}
		order = append(order, owner)
	}
	locktest.WantNoQueue(t, s, n)
	if failed == nil && !slices.Equal(order, want) {
		failed = fmt.Errorf("entered in the order %q, want %q", order, want)
	}
	return failed
}

// The server or the network stands still. The pause is longer than the signs of life
// of the first waiters last, and shorter than those of the others. These must not
// take the first ones for dead.
func TestShortPause(t *testing.T) {
	for _, pause := range []time.Duration{2200, 2450, 2700, 2950} {
		pause *= time.Millisecond
		t.Run(pause.String(), func(t *testing.T) {
			t.Parallel()
			pausedServer(t, pause, false)
		})
	}
}

package behaviour_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// owners returns the owners of the intervals, in order of time.
func owners(tb testing.TB, ivs []redistest.Interval) []string {
	tb.Helper()
	if err := redistest.CheckExclusive(ivs); err != nil {
		tb.Error(err)
	}
	slices.SortFunc(ivs, func(a, b redistest.Interval) int { return cmp.Compare(a.Enter, b.Enter) })
	all := make([]string, len(ivs))
	for i, iv := range ivs {
		all[i] = iv.Owner
	}
	return all
}

// wantOrder checks that the owners entered in the order of their arrival at the
// server.
func wantOrder(tb testing.TB, came, got []string) {
	tb.Helper()
	for i := range min(len(came), len(got)) {
		if came[i] != got[i] {
			tb.Errorf("number %d in the queue was %s, number %d to get in was %s", i, came[i], i, got[i])
			break
		}
	}
	if len(came) != len(got) {
		tb.Errorf("%d waited and %d got in", len(came), len(got))
	}
}

// Waiters of several processes enter in the order in which they arrived at the
// server.
func TestFIFOAcrossProcesses(t *testing.T) {
	t.Parallel()
	const processes, waiters = 4, 50
	s := redistest.Shared(t)
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	ws := []*redistest.Process{locktest.EnqueueProcess(t, s, n, waiters)}
	before := locktest.Queue(t, s, n)
	for range processes - 1 { // at the same time, so that they mix
		ws = append(ws, redistest.Worker(t, "queue", "TEST_URL="+s.URL(), "TEST_NAME="+n, fmt.Sprint("TEST_WAITERS=", waiters)))
	}
	came := locktest.AwaitQueue(t, s, n, processes*waiters)
	if !slices.Equal(came[:waiters], before) {
		t.Error("a later owner entered before the waiters")
	}
	locktest.Release(t, l)
	var ivs []redistest.Interval
	for _, w := range ws {
		ivs = append(ivs, locktest.Visits(t, w)...)
	}
	wantOrder(t, came, owners(t, ivs))
	locktest.WantNoQueue(t, s, n)
}

// Waiters that give up do not change the places of others, whether the lock is held
// or being handed over at that moment.
func TestThousandCancelled(t *testing.T) {
	redistest.CheckGoroutines(t)
	keen, moody := locktest.Often(200), locktest.Often(1000)
	s := redistest.Fresh(t)
	n := locktest.Name(t)
	first := locktest.Lock(t, t.Context(), locktest.Open(t, locktest.Enduring(s.URL())).FairMutex(n))
	var cs [4]*holdfast.Client
	for i := range cs {
		cs[i] = locktest.Open(t, locktest.Enduring(s.URL()))
	}
	var (
		order   []string // guarded by the lock under test
		entered int      // of the keen ones
		wg      sync.WaitGroup
		cancels []context.CancelFunc
	)
	for _, i := range rand.Perm(keen + moody) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if i >= keen {
			cancels = append(cancels, cancel)
		}
		wg.Go(func() {
			l, err := cs[i%len(cs)].FairMutex(n).Lock(ctx)
			if err != nil {
				if i < keen || !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			order = append(order, l.Owner())
			if i < keen {
				entered++
			}
			locktest.Work(time.Millisecond)
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	came := locktest.AwaitQueue(t, s, n, keen+moody)
	rand.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })

	for _, cancel := range cancels[:moody/2] {
		cancel()
	}
	stayed := locktest.AwaitQueue(t, s, n, keen+moody/2)
	if !subsequence(stayed, came) {
		t.Error("the order has changed while others gave up")
	}
	locktest.Release(t, first)
	rest := cancels[moody/2:]
	locktest.Repeat(0, time.Millisecond, func() bool { return len(rest) > 0 }, func(int) {
		rest[0]()
		rest = rest[1:]
	})
	wg.Wait()
	if !subsequence(order, stayed) {
		t.Error("the order of entry is not that of arrival")
	}
	if entered != keen {
		t.Errorf("%d of %d waiters that did not give up entered", entered, keen)
	}
	t.Logf("%d of %d waiters that gave up entered before that", len(order)-keen, moody)
	locktest.WantNoQueue(t, s, n)
	locktest.Eventually(t, 5*time.Second, "no key and no channel is left", func() bool {
		return len(s.Keys(t)) == 0 && len(s.Channels(t)) == 0
	})
	for _, c := range cs {
		_ = c.Close()
	}
}

// subsequence reports whether part is what is left of whole without some.
func subsequence(part, whole []string) bool {
	for _, w := range whole {
		if len(part) > 0 && part[0] == w {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// A live waiter keeps its place, however long it waits. Redisson's deadlines would
// have passed long ago if they were not moved on.
//
// A waiter that does not run for some seconds loses its place, so a round in which the
// machine stands still does not count.
func TestLiveWaitersKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	redistest.MeterStalls(t, s).Rounds(t, time.Second, func() error { return liveWaiters(t, s) })
}

func liveWaiters(t *testing.T, s *redistest.Server) error {
	t.Helper()
	n := locktest.Name(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
	l, other := locktest.Lock(t, ctx, locktest.Open(t, s.URL(), locktest.Steady).FairMutex(n)), locktest.Open(t, s.URL())
	var places []locktest.Place
	var want []string
	for i := range 20 {
		p := locktest.Enqueue(t, ctx, s, cs[i%len(cs)].FairMutex(n))
		places, want = append(places, p), append(want, p.Owner)
	}
	for range 24 { // twelve seconds: more than the slack of ten
		locktest.Outlast(t, other, 500*time.Millisecond)
		if got := locktest.Queue(t, s, n); !slices.Equal(got, want) {
			return fmt.Errorf("the queue is %q, want %q", got, want)
		}
		if err := locktest.CheckDeadlines(t, s, n, locktest.Steady.WatchdogTimeout); err != nil {
			return err
		}
	}
	locktest.Release(t, l)
	locktest.EnterInOrder(t, places...)
	locktest.WantNoQueue(t, s, n)
	return nil
}

// A hand-over costs the server the same, however many wait.
func TestHandOverCost(t *testing.T) {
	t.Parallel()
	cost := func(waiters int) (scripts, all float64) {
		s := redistest.Start(t)
		n := locktest.Name(t)
		l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
		cs := []*holdfast.Client{locktest.Open(t, s.URL()), locktest.Open(t, s.URL())}
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				l, err := cs[i%len(cs)].FairMutex(n).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		locktest.AwaitQueue(t, s, n, waiters)
		locktest.Eventually(t, 10*time.Second, "all have subscribed", func() bool { return len(s.Channels(t)) == 1+len(cs) })
		s.Do(t, "CONFIG", "RESETSTAT")
		start := time.Now()
		locktest.Release(t, l)
		wg.Wait()
		took := time.Since(start)
		a, b := locktest.Executed(t, s)
		// Each waiter gives at most one sign of life per second, which is not part of the
		// cost of a hand-over. On a busy machine these are the most.
		signs := float64(waiters) * took.Seconds()
		t.Logf("%d hand-overs in %v: %d scripts, %d commands, up to %.0f signs of life", waiters, took, a, b, signs)
		return (float64(a) - signs) / float64(waiters), (float64(b) - 9*signs) / float64(waiters)
	}
	for _, waiters := range []int{10, 200} {
		scripts, all := cost(waiters)
		if scripts > 5 || all > 60 {
			t.Errorf("with %d waiters, a hand-over costs %.1f scripts and %.1f commands", waiters, scripts, all)
		}
	}
}

// Some calls of Redisson lower the deadlines of all waiters into the past. A waiter
// that gives signs of life keeps its place nevertheless.
func TestLoweredDeadlines(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	c := locktest.Open(t, s.URL())
	places := []locktest.Place{locktest.Enqueue(t, t.Context(), s, c.FairMutex(n)), locktest.Enqueue(t, t.Context(), s, c.FairMutex(n))}
	locktest.AwaitHeartbeats(t, s, n, places...)
	for _, p := range places {
		s.Do(t, "ZINCRBY", locktest.DeadlinesKey(n), "-300000", p.Owner)
	}
	start := time.Now()
	locktest.Release(t, l)
	l = locktest.Entered(t, places[0].Got)
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("the first one got in after %v, want at once", took)
	}
	locktest.WantQueue(t, s, n, places[1])
	locktest.Release(t, l)
	locktest.EnterInOrder(t, places[1])
	locktest.WantNoQueue(t, s, n)
}

// A waiter without subscription that polls seldom keeps its place and enters.
func TestFairPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	n := locktest.Name(t)
	l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(n))
	lazy := holdfast.Poll(holdfast.Backoff{Initial: time.Minute, Max: time.Minute})
	var places []locktest.Place
	for range 3 {
		places = append(places, locktest.Enqueue(t, t.Context(), s, locktest.Open(t, s.URL()).FairMutex(n, lazy)))
	}
	locktest.Outlast(t, locktest.Open(t, s.URL()), 4*time.Second) // more than a sign of life lasts
	locktest.WantQueue(t, s, n, places...)
	if chs := s.Channels(t); len(chs) > 0 {
		t.Errorf("subscribed to %q", chs)
	}
	locktest.Release(t, l)
	locktest.EnterInOrder(t, places...)
	locktest.WantNoQueue(t, s, n)
}

// A Mutex and a FairMutex by one name exclude each other.
func TestFairBesidePlain(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL())
	n := locktest.Name(t)
	plain, fair := c.Mutex(n), c.FairMutex(n)
	l := locktest.Lock(t, t.Context(), plain)
	locktest.WantRefused(t, fair)
	p := locktest.Enqueue(t, t.Context(), s, fair)
	locktest.Release(t, l)
	l = locktest.Entered(t, p.Got)
	locktest.WantRefused(t, plain)
	locktest.Release(t, l)
	locktest.WantFree(t, plain)
	locktest.WantNoQueue(t, s, n)
}

// Closing a client turns its waiters away and takes them out of the queue.
func TestFairClose(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Shared(t)
	n := locktest.Name(t)
	other := locktest.Open(t, s.URL())
	l := locktest.Lock(t, t.Context(), other.FairMutex(n))
	c := locktest.Open(t, s.URL())
	var closed []locktest.Place
	for range 20 {
		closed = append(closed, locktest.Enqueue(t, t.Context(), s, c.FairMutex(n)))
	}
	last := locktest.Enqueue(t, t.Context(), s, other.FairMutex(n))
	start := time.Now()
	_ = c.Close()
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("Close took %v", took)
	}
	for _, p := range closed {
		if err := locktest.Await(t, p.Got).Err; !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("a waiter was turned away with %v, want ErrClosed", err)
		}
	}
	locktest.WantQueue(t, s, n, last)
	locktest.Release(t, l)
	locktest.EnterInOrder(t, last)
	locktest.WantNoQueue(t, s, n)
	_ = other.Close()
}

// A waiter that gives up leaves the queue, also if its client gets no grants.
func TestFairGivesUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for _, wakeAll := range []bool{false, true} {
		o := locktest.Unpolled
		o.WakeAll = wakeAll
		m := locktest.Open(t, s.URL(), o).FairMutex(locktest.Name(t))
		l := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).FairMutex(m.Name()))
		ctx, cancel := context.WithCancel(t.Context())
		place := locktest.Enqueue(t, ctx, s, m)
		cancel()
		if err := locktest.Await(t, place.Got).Err; !errors.Is(err, context.Canceled) {
			t.Errorf("gave up with %v", err)
		}
		locktest.Eventually(t, 10*time.Second, "it has left the queue", func() bool { return len(locktest.Queue(t, s, m.Name())) == 0 })
		locktest.Release(t, l)
	}
}

// A fair mutex with a short lease is handed over as fast as others: its waiters listen, too.
func TestFairShortLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	short := holdfast.Options{WatchdogTimeout: 2500 * time.Millisecond} // shorter than a grant
	clients := []*holdfast.Client{locktest.Open(t, s.URL(), short), locktest.Open(t, s.URL(), short)}
	const turns = 20
	name := locktest.Name(t)
	took := make([]time.Duration, 2*turns)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for turn := range turns {
				start := time.Now()
				l, err := c.FairMutex(name).Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				took[i*turns+turn] = locktest.Took(start)
				locktest.Work(20 * time.Millisecond)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if median := locktest.Median(took); median > 500*time.Millisecond { // without messages, it is a second
		t.Errorf("a call takes %v, of which the other client holds the mutex for 20ms", median)
	}
}

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
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Nothing is left of thousands of contended rounds, some of them cancelled,
// some lost, some cut off.
func TestNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	locktest.Each(t, "PF", func(t *testing.T, k locktest.Kind) {
		t.Parallel()
		rounds := 3000
		if k.Name != "push" {
			rounds = 1000 // none of them is handed over inside the process
		}
		nothingLeaks(t, rounds, func(c *holdfast.Client, name string) holdfast.Locker { return k.Make(c, name) })
	})
	t.Run("multi", func(t *testing.T) {
		t.Parallel()
		nothingLeaks(t, 1000, func(c *holdfast.Client, name string) holdfast.Locker {
			return holdfast.MultiLocker(c.Mutex(name), c.RWMutex("leak:rw"), c.FairMutex("leak:fair"))
		})
	})
}

func nothingLeaks(t *testing.T, rounds int, lock func(c *holdfast.Client, name string) holdfast.Locker) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	clients := []*holdfast.Client{locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick)}
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		c := clients[g%len(clients)]
		wg.Go(func() {
			for i := range next {
				round(t, lock(c, fmt.Sprint("leak:", i%4)), i)
			}
		})
	}
	for i := range rounds {
		if i%500 == 250 { // not at the end, when there would be no subscription for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	// What is in doubt is undone again after some seconds.
	locktest.Eventually(t, 10*time.Second, "no key left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool {
			return !strings.HasPrefix(key, "redisson_lock_token:") // a counter is meant to stay
		})
	})
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range clients {
		_ = c.Close()
	}
}

// round locks and releases, and every so often does not get that far.
func round(t *testing.T, m holdfast.Locker, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.LockOption
	switch i % 20 {
	case 3:
		ctx = locktest.CancelledSoon(ctx)
	case 7:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	}
	l, err := m.Lock(ctx, opts...)
	if err != nil {
		if !locktest.Tolerable(err) {
			t.Error(err)
		}
		return
	}
	switch i % 20 {
	case 11:
		<-l.Context().Done() // lost, and never released
	case 13:
		inner, err := m.Lock(l.Context())
		if err == nil {
			err = inner.Release(ctx)
		}
		if !locktest.Tolerable(err) {
			t.Error(err)
		}
		fallthrough
	default:
		if err := l.Release(ctx); !locktest.Tolerable(err) {
			t.Error(err)
		}
	}
}

// marks returns how many requests the server remembers, and checks that it
// will forget them.
func marks(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	for _, key := range s.Keys(t) {
		if !strings.HasPrefix(key, "holdfast:once:") {
			continue
		}
		n++
		if ttl := s.Int(t, "PTTL", key); ttl <= 0 || ttl > 10*60*1000 {
			t.Errorf("%s: TTL %d", key, ttl)
		}
	}
	return n
}

// Nothing is left of thousands of rounds but marks that the server forgets by
// itself, and of these no more than requests were under way at a time.
func TestPermitsLeaveNothing(t *testing.T) {
	t.Run("undisturbed", func(t *testing.T) { permitsLeaveNothing(t, 10_000, false) })
	t.Run("cut off", func(t *testing.T) { permitsLeaveNothing(t, 3000, true) })
}

func permitsLeaveNothing(t *testing.T, rounds int, cut bool) {
	redistest.CheckGoroutines(t)
	const clients, goroutines, sems, permits = 3, 8, 4, 6
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	stalls := redistest.MeterStalls(t, s)
	var cs []*holdfast.Client
	for range clients {
		cs = append(cs, locktest.Open(t, p.URL(), locktest.Quick))
	}
	for i := range sems {
		locktest.NewSemaphore(t, cs[0], fmt.Sprint("sem:", i), permits)
	}
	next := make(chan int)
	var doubts atomic.Int64
	var wg sync.WaitGroup
	for g := range clients * goroutines {
		c := cs[g%clients]
		wg.Go(func() {
			for i := range next {
				if !cut && timedRound(t, c, i) {
					doubts.Add(1)
				}
				if permitRound(t, stalls, c.Semaphore(fmt.Sprint("sem:", i%sems)), 1+i%permits) {
					doubts.Add(1)
				}
			}
		})
	}
	for i := range rounds {
		if cut && i%300 == 150 {
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for i := range sems {
		locktest.Eventually(t, 10*time.Second, "all permits are free", func() bool { return s.Int(t, "GET", fmt.Sprint("sem:", i)) == permits })
	}
	for _, key := range s.Keys(t) {
		if !strings.HasPrefix(key, "holdfast:once:") && !strings.HasPrefix(key, "sem:") {
			t.Errorf("left: %s", key)
		}
	}
	// A latch takes marks like a semaphore, and there is one. A call without a reply
	// in time has left a mark of its own.
	n, most := marks(t, s), (sems+1)*(clients*goroutines+int(doubts.Load()))
	if n > most || doubts.Load() > 50 {
		t.Errorf("%d marks after %d rounds, want %d at most, with %d in doubt", n, rounds, most, doubts.Load())
	}
	t.Logf("%d marks, %d in doubt", n, doubts.Load())
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		_ = c.Close()
	}
}

// permitRound acquires and releases permits. It reports whether the release continues
// in the background, as it does if the machine stands still.
func permitRound(t *testing.T, stalls *redistest.StallMeter, sem *holdfast.Semaphore, permits int) (doubt bool) {
	if err := sem.Acquire(context.Background(), permits); err != nil {
		t.Error(err)
		return false
	}
	start := time.Now()
	err := sem.Release(context.Background(), permits)
	if locktest.StoodStill(stalls, err, start) {
		return true
	}
	if err != nil {
		t.Error(err)
	}
	return false
}

// timedRound does now and then what does not wait for as long as it takes. It
// reports whether a busy machine has left it without an answer.
func timedRound(t *testing.T, c *holdfast.Client, i int) (doubt bool) {
	sem, latch := c.Semaphore(fmt.Sprint("sem:", i%4)), c.Latch("latch")
	var err error
	start := time.Now()
	switch i % 20 {
	case 3:
		if err = sem.Acquire(t.Context(), 6, holdfast.Wait(2*time.Millisecond)); err == nil {
			err = sem.Release(t.Context(), 6)
		}
	case 7:
		err = sem.TryAcquire(t.Context(), 7)
	case 11:
		if _, err = latch.TrySet(t.Context(), 1); err == nil {
			_, err = latch.CountDown(t.Context())
		}
	case 13:
		err = latch.Wait(t.Context(), holdfast.Wait(2*time.Millisecond))
	}
	switch {
	case errors.Is(err, holdfast.ErrUnavailable):
		return true
	case errors.Is(err, holdfast.ErrNotAcquired):
		return time.Since(start) > time.Second // the answer to the last request was not waited for any longer
	case err != nil:
		t.Error(err)
	}
	return false
}

// Nothing is left of thousands of contended rounds on both sides, some of them
// cancelled, some lost, some cut off.
func TestRWNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	cs := []*holdfast.Client{locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick)}
	const rounds = 3000
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range next {
				rwRound(t, cs[g%len(cs)], fmt.Sprint("leak:", i%4), i)
			}
		})
	}
	for i := range rounds {
		if i%500 == 250 { // not at the end, when there would be no subscription for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	locktest.Eventually(t, 8*time.Second, "no key left", func() bool { return len(s.Keys(t)) == 0 })
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		_ = c.Close()
	}
}

// rwRound reads or writes, and every so often does not get that far.
func rwRound(t *testing.T, c *holdfast.Client, name string, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.LockOption
	switch i % 20 {
	case 3, 4:
		ctx = locktest.CancelledSoon(ctx)
	case 7, 8:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11, 12:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	}
	m := c.RWMutex(name)
	if i%5 == 0 {
		m = c.RWMutex(name, holdfast.WriterFirst())
	}
	side := holdfast.Locker(m)
	if i%3 > 0 {
		side = m.RLocker()
	}
	l, err := side.Lock(ctx, opts...)
	if !locktest.Tolerable(err) {
		t.Error(err)
	}
	if err != nil {
		return
	}
	switch i % 20 {
	case 11, 12:
		<-l.Context().Done() // lost, and never released
		return
	case 13, 14, 15:
		inner, err := side.Lock(l.Context())
		if err == nil {
			err = inner.Release(ctx)
		}
		if !locktest.Tolerable(err) {
			t.Error(err)
		}
	}
	var r *holdfast.Lease
	if side == m && i%2 == 0 {
		r, err = m.RLock(l.Context())
		if !locktest.Tolerable(err) {
			t.Error(err)
		}
	}
	if err := l.Release(ctx); !locktest.Tolerable(err) {
		t.Error(err)
	}
	if r != nil {
		_ = r.Context()
		if err := r.Release(ctx); !locktest.Tolerable(err) {
			t.Error(err)
		}
	}
}

// Nothing is left of thousands of contended rounds, some of them cancelled, some
// lost, some cut off: but the permits themselves, as many as there were.
func TestPermitsNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	const rounds, semaphores, permits = 3000, 4, 3
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	cs := []*holdfast.Client{locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick)}
	var names, want []string
	for i := range semaphores {
		names = append(names, fmt.Sprint("leak:", i))
		want = append(want, fmt.Sprint(names[i], " = ", permits))
		if err := cs[0].LeasedSemaphore(names[i]).Set(t.Context(), permits); err != nil {
			t.Fatal(err)
		}
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range next {
				leakyRound(t, cs[g%len(cs)].LeasedSemaphore(names[i%semaphores]), 1+i%7/5, i)
			}
		})
	}
	for i := range rounds {
		if i%500 == 250 { // not at the end, when there would be no subscription for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for _, n := range names {
		sem := cs[0].LeasedSemaphore(n)
		locktest.Eventually(t, 10*time.Second, "all are free", func() bool {
			st, err := sem.State(t.Context())
			return err == nil && st == holdfast.PermitState{Available: permits}
		})
		locktest.Release(t, locktest.Obtain(t, sem, permits, holdfast.LeaseTime(time.Minute)))
	}
	// A request that its caller gave up may come only now, and is undone then.
	var left []string
	undone := redistest.Poll(10*time.Second, func() bool {
		left = nil
		for _, key := range s.Keys(t) {
			if strings.HasPrefix(key, "holdfast:once:") {
				continue
			}
			if value, err := s.Try("GET", key); err == nil { // of what is no number there is only the name
				key += fmt.Sprint(" = ", value)
			}
			left = append(left, key)
		}
		return slices.Equal(left, want)
	})
	if !undone {
		t.Errorf("keys %q, want %q", left, want)
	}
	locktest.Eventually(t, 10*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		_ = c.Close()
	}
}

// leakyRound acquires and releases permits, and every so often does not get that
// far.
func leakyRound(t *testing.T, sem *holdfast.LeasedSemaphore, permits, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.LockOption
	switch i % 20 {
	case 3:
		ctx = locktest.CancelledSoon(ctx)
	case 7:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	}
	l, err := sem.Acquire(ctx, permits, opts...)
	if !locktest.Tolerable(err) {
		t.Error(err)
	}
	if err != nil {
		return
	}
	switch i % 20 {
	case 11:
		<-l.Context().Done() // lost, and never released
	case 13:
		if err := sem.ReleaseIDs(ctx, l.PermitIDs()...); !locktest.Tolerable(err) && !errors.Is(err, holdfast.ErrNotHeld) {
			t.Error(err)
		}
		fallthrough // which finds nothing
	default:
		if err := l.Release(ctx); !locktest.Tolerable(err) {
			t.Error(err)
		}
	}
}

// Nothing is left of thousands of rounds, some of them cancelled, some given
// up, some cut off.
func TestLimiterNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	r := newLimiterRig(t, holdfast.Rate{Permits: 50, Per: 100 * time.Millisecond, PerClient: true}, locktest.Quick)
	cs := []*holdfast.Client{r.Client, locktest.Open(t, r.Proxy.URL(), locktest.Quick), locktest.Open(t, r.Proxy.URL(), locktest.Quick)}
	next := make(chan int)
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range next {
				limiterRound(t, cs[g%len(cs)].RateLimiter("rig"), i)
			}
		})
	}
	for i := range 3000 {
		if i%500 == 250 {
			r.Proxy.Cut()
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for _, c := range cs {
		_ = c.Close()
	}
	// The state of each client ends by itself; marks of numbered requests stay
	// for minutes.
	locktest.Eventually(t, 15*time.Second, "nothing but the rate is left", func() bool {
		for _, key := range r.Server.Keys(t) {
			if key != "rig" && !strings.HasPrefix(key, "holdfast:once:") {
				return false
			}
		}
		return true
	})
	for _, key := range r.Server.Keys(t) {
		if key != "rig" && r.Server.Int(t, "PTTL", key) == -1 {
			t.Errorf("%s stays for ever", key)
		}
	}
}

// limiterRound takes permits in one of the ways that there are, and every so
// often gives up.
func limiterRound(t *testing.T, l *holdfast.RateLimiter, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	switch i % 10 {
	case 0, 1:
		ctx = locktest.CancelledSoon(ctx)
		err = l.WaitN(ctx, 1+i%5)
	case 2:
		err = l.Wait(ctx, holdfast.Wait(5*time.Millisecond))
	case 3, 4:
		_, err = l.AllowN(ctx, 1+i%3)
	case 5:
		var r *holdfast.Reservation
		if r, err = l.Reserve(ctx); err == nil {
			err = r.Cancel(ctx)
		}
	default:
		err = l.Wait(ctx)
	}
	if !locktest.Tolerable(err) {
		t.Error(err)
	}
}

// Nothing is left of many elections, some of them cancelled, some lost, some
// cut off.
func TestElectionNothingLeaks(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	cs := []*holdfast.Client{locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick), locktest.Open(t, p.URL(), locktest.Quick)}
	ctx, cancel := context.WithCancel(t.Context())
	var observers, candidates sync.WaitGroup
	for i := range 4 {
		observers.Go(func() {
			for l, err := range cs[i%3].Election(fmt.Sprint("leak:", i)).Observe(ctx) {
				if err != nil && !errors.Is(err, holdfast.ErrUnavailable) {
					t.Error(err)
				}
				if l.Term%7 == 0 && l != locktest.NoLeader {
					for range cs[i%3].Election(fmt.Sprint("leak:", i)).Observe(ctx) {
						break
					}
				}
			}
		})
	}
	const rounds = 1000
	next := make(chan int)
	for g := range 12 {
		candidates.Go(func() {
			for i := range next {
				electionRound(t, cs[g%3].Election(fmt.Sprint("leak:", i%4)), i)
			}
		})
	}
	for i := range rounds {
		if i%250 == 125 { // not at the end, when there would be no subscription for a moment
			p.Cut()
		}
		next <- i
	}
	close(next)
	candidates.Wait()
	cancel()
	observers.Wait()
	locktest.Eventually(t, 8*time.Second, "no key left", func() bool {
		return !slices.ContainsFunc(s.Keys(t), func(key string) bool {
			return !strings.HasPrefix(key, "redisson_lock_token:") // a counter is meant to stay
		})
	})
	locktest.Eventually(t, 5*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
	for _, c := range cs {
		c.Close()
	}
}

// electionRound leads for a moment, and every so often does not get that far.
func electionRound(t *testing.T, e *holdfast.Election, i int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var opts []holdfast.LockOption
	switch i % 20 {
	case 3:
		ctx = locktest.CancelledSoon(ctx)
	case 7:
		opts = append(opts, holdfast.Wait(2*time.Millisecond))
	case 11:
		opts = append(opts, holdfast.LeaseTime(10*time.Millisecond))
	case 13:
		if err := e.Lead(ctx, "led", func(context.Context) error { return nil }); !locktest.Tolerable(err) {
			t.Error(err)
		}
		return
	}
	l, err := e.Campaign(ctx, fmt.Sprint("round ", i), opts...)
	if !locktest.Tolerable(err) {
		t.Error(err)
	}
	if err != nil {
		return
	}
	if i%20 == 11 {
		<-l.Context().Done() // lost, and never released
		return
	}
	if err := e.Proclaim(ctx, l, fmt.Sprint("round ", i, " still")); !locktest.Tolerable(err) {
		t.Error(err)
	}
	if err := l.Release(ctx); !locktest.Tolerable(err) {
		t.Error(err)
	}
}

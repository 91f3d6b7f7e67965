package behaviour_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The permits of a lease are renewed together, and told of together.
func TestPermitsOfALease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Open(t, s.URL(), locktest.Steady)
	sem := c.LeasedSemaphore(locktest.Name(t))
	if ok, err := sem.TrySet(t.Context(), 3, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	lease, err := sem.Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if ids := lease.PermitIDs(); len(ids) != 2 || len(ids[0]) != 32 || ids[0] == ids[1] {
		t.Fatalf("ids %q", ids)
	}
	for _, wait := range []time.Duration{0, locktest.Steady.WatchdogTimeout + locktest.AWhile} { // beyond the end of a lease that is not renewed
		if _, err := sem.TryAcquire(lease.Context(), 2, holdfast.Wait(wait)); !errors.Is(err, holdfast.ErrNotAcquired) || holdfast.Remaining(err) <= 0 {
			t.Fatalf("taken twice after %v: %v", wait, err)
		}
	}
	if !lease.Valid() {
		t.Fatal("not renewed")
	}
	if st, err := sem.State(t.Context()); st != (holdfast.PermitState{Available: 1, Taken: 2}) || err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	if err := sem.ReleaseIDs(t.Context(), lease.PermitIDs()[0]); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told that a permit is gone")
	}
	if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Fatal(err)
	}
	// What was left of it is not renewed any more.
	locktest.Eventually(t, 10*time.Second, "the second permit", func() bool {
		n, err := sem.Available(t.Context())
		return err == nil && n == 3
	})
}

// A lease that has lost one permit is lost as a whole. Its other permits are
// released at once, not at the end of the lease.
func TestPermitsRestComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := locktest.Open(t, s.URL(), holdfast.Options{RenewEvery: 100 * time.Millisecond}) // they would last for half a minute
	sem := locktest.NewLeasedSemaphore(t, c, 4)
	l := locktest.Obtain(t, sem, 3)
	if err := sem.ReleaseIDs(t.Context(), l.PermitIDs()[1]); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("not told")
	}
	locktest.Eventually(t, 10*time.Second, "all permits are back", func() bool {
		st, err := sem.State(t.Context())
		return err == nil && st == holdfast.PermitState{Available: 4}
	})
}

// Permits that Redisson holds are counted. Waiters wait for the end of their leases,
// and their ids can be released.
func TestPermitsOfJava(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t, locktest.Unpolled)
	near, far := strings.Repeat("n", 16), strings.Repeat("f", 16)
	const first = 5 * time.Second
	end := locktest.ServerTime(t, r.Server) + first.Milliseconds()
	locktest.JavaTakes(t, r.Server, r.Sem, near, end)
	locktest.JavaTakes(t, r.Server, r.Sem, far, locktest.JavaForever)
	locktest.WantPermits(t, r.Sem, 1, 2)
	_, err := r.Sem.TryAcquire(t.Context(), 2)
	if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left <= 0 || left > first {
		t.Errorf("%v, %v left", err, left)
	}
	const lease = 10 * time.Second
	got := locktest.EnteredAfter(t, first, locktest.Background(t.Context(), r.Sem.Locker(2), holdfast.LeaseTime(lease)))
	if after := locktest.PermitExpiry(t, r.Server, r.Sem, got.PermitIDs()[0]) - lease.Milliseconds() - end; after < 0 || after > locktest.Late.Milliseconds() {
		t.Errorf("entered %d ms after Java's lease ended", after)
	}
	locktest.Release(t, got)
	r.Has(t, 2, 1)

	_, err = r.Sem.TryAcquire(t.Context(), 3)
	if left := holdfast.Remaining(err); !errors.Is(err, holdfast.ErrNotAcquired) || left >= 0 {
		t.Errorf("%v, %v left; want that it has no end", err, left)
	}
	id := strings.Repeat("66", 16)
	if err := r.Sem.ExtendID(t.Context(), id, time.Minute); err != nil {
		t.Error(err)
	}
	if left, err := r.Sem.RemainingID(t.Context(), id); left >= 0 || err != nil {
		t.Errorf("%v left after an extension, %v", left, err)
	}
	waiter := locktest.Background(t.Context(), r.Sem.Locker(3))
	r.Awake(t)
	if err := r.Far.ReleaseIDs(t.Context(), id); err != nil {
		t.Error(err)
	}
	locktest.Release(t, locktest.Entered(t, waiter))
	r.Has(t, 3, 0)
}

// Everything that frees permits wakes the waiters.
func TestPermitsWaiterWakes(t *testing.T) {
	t.Parallel()
	for how, makeRoom := range map[string]func(t *testing.T, r *locktest.LeasedRig, l *holdfast.Lease){
		"Release": func(t *testing.T, _ *locktest.LeasedRig, l *holdfast.Lease) { locktest.Release(t, l) },
		"ReleaseIDs": func(t *testing.T, r *locktest.LeasedRig, l *holdfast.Lease) {
			if err := r.Far.ReleaseIDs(t.Context(), l.PermitIDs()...); err != nil {
				t.Error(err)
			}
		},
		"Add": func(t *testing.T, r *locktest.LeasedRig, _ *holdfast.Lease) {
			if err := r.Far.Add(t.Context(), 3); err != nil {
				t.Error(err)
			}
		},
		"Set": func(t *testing.T, r *locktest.LeasedRig, _ *holdfast.Lease) {
			if err := r.Far.Set(t.Context(), 6); err != nil {
				t.Error(err)
			}
		},
		"Java": func(t *testing.T, r *locktest.LeasedRig, _ *holdfast.Lease) {
			r.Server.Do(t, "DEL", "{rig}:timeout")
			r.Server.Do(t, "INCRBY", "rig", "3")
			r.Server.Do(t, "PUBLISH", "redisson_sc:{rig}", "3")
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewLeasedRig(t, locktest.Unpolled)
			l := locktest.Obtain(t, r.Far, 3)
			waiter := locktest.Background(t.Context(), r.Sem.Locker(2))
			r.Awake(t)
			start := time.Now()
			makeRoom(t, r, l)
			got := locktest.Entered(t, waiter)
			if took := locktest.Took(start); took > locktest.Late {
				t.Errorf("entered %v later", took)
			}
			locktest.Release(t, got)
		})
	}
}

// A waiter for many permits waits for the end of as many leases as it needs. No
// message announces the end of a lease.
func TestPermitsWaiterOutlivesLeases(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t, locktest.Unpolled)
	const step = 500 * time.Millisecond
	for i := range time.Duration(3) {
		locktest.Obtain(t, r.Far, 1, holdfast.LeaseTime((i+1)*step))
	}
	last := r.LastExpiry(t)
	const lease = time.Minute
	got := locktest.EnteredAfter(t, 3*step, locktest.Background(t.Context(), r.Sem.Locker(3), holdfast.LeaseTime(lease)))
	if after := locktest.PermitExpiry(t, r.Server, r.Sem, got.PermitIDs()[0]) - lease.Milliseconds() - last; after < 0 || after > locktest.Late.Milliseconds() {
		t.Errorf("entered %d ms after the last lease ended", after)
	}
	locktest.Release(t, got)
	r.Has(t, 3, 0)
}

// Waiters in a process are served FIFO, however many permits they request. If the
// first one gives up, the next ones are served.
func TestPermitsOrder(t *testing.T) {
	t.Parallel()
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprint("give up: ", giveUp), func(t *testing.T) { // not in parallel, so that parked counts only these waiters
			r := locktest.NewLeasedRig(t, locktest.Unpolled)
			first := []*holdfast.Lease{locktest.Obtain(t, r.Sem, 1), locktest.Obtain(t, r.Sem, 1), locktest.Obtain(t, r.Far, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var mu sync.Mutex
			var order []int               // as they come
			tokens := make(map[int]int64) // which rise as they are let in
			var wg sync.WaitGroup
			for i, wants := range []int{3, 1, 2, 1, 1} {
				wg.Go(func() {
					parent := t.Context()
					if i == 0 {
						parent = ctx
					}
					l, err := r.Sem.Acquire(parent, wants)
					if giveUp && i == 0 {
						if !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
							t.Errorf("gave up: %v", err)
						}
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, i)
					tokens[i] = l.Token()
					mu.Unlock()
					locktest.Work(50 * time.Millisecond) // so that the next one has to wait
					locktest.Release(t, l)
				})
				locktest.Eventually(t, 10*time.Second, "one more in the queue, in this order", func() bool { return parked("TestPermitsOrder") == i+1 })
			}
			locktest.Release(t, first[0])
			locktest.Release(t, first[1])
			if l, err := r.Sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("pushed in: %v", err)
				if err == nil {
					locktest.Release(t, l) // or the others would wait for ever
				}
			}
			if l, err := r.Sem.TryAcquire(t.Context(), 1, holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("pushed in after a while: %v", err)
				if err == nil {
					locktest.Release(t, l)
				}
			}
			mu.Lock()
			if len(order) > 0 {
				t.Errorf("%v came before the first, which wants three", order)
			}
			mu.Unlock()
			r.Has(t, 2, 1)
			want := "[0 1 2 3 4]"
			if giveUp {
				cancel()
				want = "[1 2 3 4]"
			} else {
				locktest.Release(t, first[2])
			}
			wg.Wait()
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(tokens[a], tokens[b]) })
			if got := fmt.Sprint(order); got != want {
				t.Errorf("the order was %v", got)
			}
			if giveUp {
				locktest.Release(t, first[2])
			}
			r.Has(t, 3, 0)
		})
	}
}

// Each lease of a client ends when its own time is over.
func TestPermitsLeaseTimes(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t, locktest.Steady)
	renewed := locktest.Obtain(t, r.Sem, 1)
	brief := locktest.Obtain(t, r.Sem, 1, holdfast.LeaseTime(500*time.Millisecond))
	long := locktest.Obtain(t, r.Sem, 1, holdfast.LeaseTime(5*time.Second))
	if err := long.Extend(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	<-brief.Context().Done()
	next := locktest.Obtain(t, r.Far, 1, holdfast.LeaseTime(20*time.Second))
	locktest.Outlast(t, r.Client, locktest.Steady.WatchdogTimeout)
	locktest.WantLost(t, brief, holdfast.LossExpired)
	r.Has(t, 0, 3)
	for what, l := range map[string]*holdfast.Lease{"renewed": renewed, "extended": long, "next": next} {
		if !l.Valid() {
			t.Errorf("%s: over", what)
		}
		locktest.Release(t, l)
	}
	r.Has(t, 3, 0)
}

// Many leases are renewed by few commands.
func TestPermitsRenewedTogether(t *testing.T) {
	t.Parallel()
	const leases = 200
	r := locktest.NewLeasedRig(t, holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 500 * time.Millisecond})
	if err := r.Sem.Set(t.Context(), 2*leases); err != nil {
		t.Fatal(err)
	}
	var ls []*holdfast.Lease
	for i := range leases {
		ls = append(ls, locktest.Obtain(t, r.Sem, 1+i%2))
	}
	locktest.AwaitRenewals(t, r.Client, 2*leases) // until they are renewed in a row
	before := r.LastExpiry(t)
	start := time.Now()
	r.Proxy.ResetCounts()
	locktest.Eventually(t, 10*time.Second, "the leases are moved by two seconds", func() bool { return r.LastExpiry(t)-before >= 2000 })
	// Two calls take all of them, four or five times. On a busy machine they are
	// taken at different times, and so it may be an eighth of them at a time.
	n := r.Proxy.Total()
	if rounds := int(time.Since(start)/(500*time.Millisecond)) + 2; n > 20*rounds {
		t.Errorf("%d commands for %d leases, in %d rounds: %v", n, leases, rounds, r.Proxy.Commands())
	}
	for _, l := range ls {
		if !l.Valid() {
			t.Fatal("lost")
		}
	}
	locktest.Parallel(8, func(i int) {
		for ; i < leases; i += 8 {
			locktest.Release(t, ls[i])
		}
	})
	r.Has(t, 2*leases, 0)
}

// To renew many permits does not keep the server from all others for long.
func TestRenewalOfManyPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// Renewals of these must leave the server time for anything else, also on a
	// machine that gives it an eighth of a processor.
	const leases, each = 32, 1000
	sem := locktest.Open(t, locktest.Enduring(s.URL()), holdfast.Options{WatchdogTimeout: time.Minute, RenewEvery: 3 * time.Second}).LeasedSemaphore("big")
	if err := sem.Set(t.Context(), leases*each); err != nil {
		t.Fatal(err)
	}
	for range leases {
		if _, err := sem.Acquire(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	s.Do(t, "CONFIG", "RESETSTAT")
	locktest.Eventually(t, time.Minute, "all were renewed", func() bool { return locktest.Calls(t, s, "zadd") >= leases*each })
	// By what a script does, since a busy machine makes any of them slow.
	looks := locktest.Calls(t, s, "zscore")
	scripts := locktest.Calls(t, s, "evalsha") + locktest.Calls(t, s, "eval") + 1 // counted when it is over
	if looks > 2*each*scripts {
		t.Errorf("%d looks at permits in %d scripts", looks, scripts)
	}
}

// A semaphore is not reentrant. Acquire with the context of a lease takes more
// permits.
func TestPermitsAgain(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t)
	outer := locktest.Obtain(t, r.Sem, 1)
	inner, err := r.Sem.Acquire(outer.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Has(t, 1, 2)
	if a, b := outer.PermitIDs()[0], inner.PermitIDs()[0]; a == b || outer.Owner() == inner.Owner() || outer.Token() >= inner.Token() {
		t.Errorf("the permits are %s and %s, the owners %s and %s, the tokens %d and %d", a, b, outer.Owner(), inner.Owner(), outer.Token(), inner.Token())
	}
	if _, err := r.Sem.TryAcquire(inner.Context(), 2); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("more than there are: %v", err)
	}
	locktest.Release(t, inner)
	r.Has(t, 2, 1)
	if !outer.Valid() || outer.Context().Err() != nil {
		t.Error("the first lease ended with the second")
	}
	err = r.Sem.Do(outer.Context(), 2, func(ctx context.Context) error {
		if l := holdfast.LeaseOf(ctx); l == nil || len(l.PermitIDs()) != 2 {
			t.Errorf("the lease of the work is %v", l)
		}
		r.Has(t, 0, 3)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	locktest.Release(t, outer)
	r.Has(t, 3, 0)
}

// Close releases the permits of all leases, and ends the waits.
func TestPermitsClose(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t)
	held, fixed := locktest.Obtain(t, r.Sem, 1), locktest.Obtain(t, r.Sem, 1, holdfast.LeaseTime(time.Minute))
	kept := locktest.Obtain(t, r.Far, 1)
	ctx := held.Context()
	var waiters []<-chan locktest.Outcome
	for n := range 3 {
		waiters = append(waiters, locktest.Background(context.Background(), r.Sem.Locker(1+n)))
	}
	locktest.AwaitListener(t, r.Server, "redisson_sc:{rig}")
	if err := r.Client.Close(); err != nil {
		t.Error(err)
	}
	for _, w := range waiters {
		if o := locktest.Await(t, w); !errors.Is(o.Err, holdfast.ErrClosed) {
			t.Errorf("waiter: %v", o.Err)
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrClosed) || !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("cause %v", cause)
	}
	for _, l := range []*holdfast.Lease{held, fixed} {
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrClosed) || l.Valid() {
			t.Errorf("release after Close: %v, valid %v", err, l.Valid())
		}
	}
	r.Has(t, 2, 1)
	for _, err := range []error{r.Sem.Set(t.Context(), 1), r.Sem.ReleaseIDs(t.Context(), kept.PermitIDs()...)} {
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	locktest.Release(t, kept)
	r.Has(t, 3, 0)
}

// Many calls of a client that come at the same time have one place in the queue at the
// server. A grant to a call that waits for its turn in the process would be of no use.
func TestLeasedQueueOfMany(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	name := locktest.Name(t)
	queue := "holdfast:queue:{" + name + "}"
	clients := []*holdfast.Client{locktest.Open(t, s.URL(), locktest.Unpolled), locktest.Open(t, s.URL(), locktest.Unpolled)}
	burst := func() {
		locktest.Parallel(20, func(i int) {
			l, err := clients[i%len(clients)].LeasedSemaphore(name, holdfast.WithPermits(4)).Acquire(t.Context(), 1)
			if err != nil {
				t.Error(err)
				return
			}
			locktest.Work(5 * time.Millisecond)
			locktest.Release(t, l)
		})
	}
	burst() // the clients still listen for grants for a second
	held, err := locktest.Open(t, s.URL()).LeasedSemaphore(name).Acquire(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		burst()
	}()
	time.Sleep(300 * time.Millisecond)
	locktest.Eventually(t, 10*time.Second, "each client has one place", func() bool { return s.Int(t, "ZCARD", queue) == int64(len(clients)) })
	locktest.Release(t, held)
	<-done
	locktest.Eventually(t, 10*time.Second, "the queue is empty", func() bool { return s.Int(t, "ZCARD", queue) == 0 })
}

package holdfast_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// unpolled are the settings of waiters that nothing but a message, or the end of a
// lease, can wake in time.
var unpolled = holdfast.Options{PollInterval: time.Minute}

// awake waits until a waiter for permits of the rig listens and has looked once
// more.
func (r *permitRig) awake(t *testing.T) {
	t.Helper()
	listened(t, r.s, "redisson_sc:{rig}")
	time.Sleep(100 * time.Millisecond)
}

// Whatever makes room wakes who waits.
func TestPermitsWaiterWakes(t *testing.T) {
	t.Parallel()
	for how, makeRoom := range map[string]func(t *testing.T, r *permitRig, l *holdfast.Lease){
		"Release": func(t *testing.T, _ *permitRig, l *holdfast.Lease) { release(t, l) },
		"ReleaseIDs": func(t *testing.T, r *permitRig, l *holdfast.Lease) {
			if err := r.far.ReleaseIDs(t.Context(), l.Permits()...); err != nil {
				t.Error(err)
			}
		},
		"Add": func(t *testing.T, r *permitRig, _ *holdfast.Lease) {
			if err := r.far.Add(t.Context(), 3); err != nil {
				t.Error(err)
			}
		},
		"Set": func(t *testing.T, r *permitRig, _ *holdfast.Lease) {
			if err := r.far.Set(t.Context(), 6); err != nil {
				t.Error(err)
			}
		},
		"Java": func(t *testing.T, r *permitRig, _ *holdfast.Lease) {
			r.s.Do(t, "DEL", "{rig}:timeout")
			r.s.Do(t, "INCRBY", "rig", "3")
			r.s.Do(t, "PUBLISH", "redisson_sc:{rig}", "3")
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newPermitRig(t, unpolled)
			l := obtain(t, r.far, 3)
			waiter := background(t.Context(), r.sem.Locker(2))
			r.awake(t)
			start := time.Now()
			makeRoom(t, r, l)
			got := entered(t, waiter)
			if took := time.Since(start); took > late {
				t.Errorf("entered %v later", took)
			}
			release(t, got)
		})
	}
}

// Who wants many waits for the end of as many leases as it takes, of which
// nobody sends word.
func TestPermitsWaiterOutlivesLeases(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t, unpolled)
	const step = 500 * time.Millisecond
	for i := range time.Duration(3) {
		obtain(t, r.far, 1, holdfast.LeaseTime((i+1)*step))
	}
	last := obtainedLast(t, r)
	const lease = time.Minute
	got := enteredAfter(t, 3*step, background(t.Context(), r.sem.Locker(3), holdfast.LeaseTime(lease)))
	if after := ends(t, r.s, r.sem, got.Permits()[0]) - lease.Milliseconds() - last; after < 0 || after > late.Milliseconds() {
		t.Errorf("entered %d ms after the last lease ended", after)
	}
	release(t, got)
	r.has(t, 3, 0)
}

// obtainedLast returns when the last lease ends, as of the server.
func obtainedLast(t *testing.T, r *permitRig) int64 {
	t.Helper()
	return r.s.Int(t, "EVAL", "return redis.call('zrange', KEYS[1], -1, -1, 'withscores')[2]", "1", "{rig}:timeout")
}

// Inside a process, permits go to those who came first, also to one who wants
// many, whom nobody passes; and if that one gives up, to those behind.
func TestPermitsOrder(t *testing.T) {
	t.Parallel()
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprint("give up: ", giveUp), func(t *testing.T) { // not in parallel, so that parked knows whom it counts
			r := newPermitRig(t, unpolled)
			first := []*holdfast.Lease{obtain(t, r.sem, 1), obtain(t, r.sem, 1), obtain(t, r.far, 1)}
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
					l, err := r.sem.Acquire(parent, wants)
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
					time.Sleep(50 * time.Millisecond) // so that the next one has to wait
					release(t, l)
				})
				eventually(t, 10*time.Second, "one more in the queue, in this order", func() bool { return parked("TestPermitsOrder") == i+1 })
			}
			release(t, first[0])
			release(t, first[1])
			if l, err := r.sem.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("pushed in: %v", err)
				if err == nil {
					release(t, l) // or the others would wait for ever
				}
			}
			if l, err := r.sem.TryAcquire(t.Context(), 1, holdfast.Wait(time.Second)); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("pushed in after a while: %v", err)
				if err == nil {
					release(t, l)
				}
			}
			mu.Lock()
			if len(order) > 0 {
				t.Errorf("%v came before the first, who wants three", order)
			}
			mu.Unlock()
			r.has(t, 2, 1)
			want := "[0 1 2 3 4]"
			if giveUp {
				cancel()
				want = "[1 2 3 4]"
			} else {
				release(t, first[2])
			}
			wg.Wait()
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(tokens[a], tokens[b]) })
			if got := fmt.Sprint(order); got != want {
				t.Errorf("the order was %v", got)
			}
			if giveUp {
				release(t, first[2])
			}
			r.has(t, 3, 0)
		})
	}
}

// Without messages a waiter looks by itself.
func TestPermitsWithoutMessages(t *testing.T) {
	t.Parallel()
	for harm, do := range map[string]func(*testing.T, *permitRig){
		"dropped": func(_ *testing.T, r *permitRig) { r.p.DropMessages(true) },
		"killed":  func(t *testing.T, r *permitRig) { r.s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
	} {
		t.Run(harm, func(t *testing.T) {
			t.Parallel()
			r := newPermitRig(t, patient)
			for range 5 {
				l := obtain(t, r.far, 3)
				waiter := background(t.Context(), r.sem.Locker(2))
				r.awake(t)
				do(t, r)
				start := time.Now()
				release(t, l)
				got := entered(t, waiter)
				if took := time.Since(start); took > patient.PollInterval+late {
					t.Errorf("entered %v later", took)
				}
				r.p.DropMessages(false)
				release(t, got)
			}
		})
	}
}

// What a process had that was killed comes back within the lease time, and who
// waits gets it then.
func TestPermitsKilledProcess(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t, unpolled)
	w := redistest.Worker(t, "leased holder", "TEST_URL="+r.s.URL(), "TEST_NAME=rig", "TEST_FIXED=", "TEST_PERMITS=3")
	for start := time.Now(); time.Since(start) < 2*mortal.WatchdogTimeout; { // it is renewed
		<-w.Lines()
	}
	go func() {
		for range w.Lines() {
		}
	}()
	r.has(t, 0, 3)
	const lease = time.Minute
	waiter := background(t.Context(), r.sem.Locker(2), holdfast.LeaseTime(lease))
	r.awake(t)
	w.Kill()
	last := obtainedLast(t, r)
	if left := last - serverMillis(t, r.s); left > mortal.WatchdogTimeout.Milliseconds() {
		t.Errorf("the permits outlive the process by %d ms", left)
	}
	got := enteredAfter(t, mortal.WatchdogTimeout, waiter)
	if after := ends(t, r.s, r.sem, got.Permits()[0]) - lease.Milliseconds() - last; after < 0 || after > late.Milliseconds() {
		t.Errorf("entered %d ms after the leases ended", after)
	}
	release(t, got)
	r.has(t, 3, 0)
}

// Each lease of a client ends when its own time is over.
func TestPermitsLeaseTimes(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t, steady)
	renewed := obtain(t, r.sem, 1)
	brief := obtain(t, r.sem, 1, holdfast.LeaseTime(500*time.Millisecond))
	long := obtain(t, r.sem, 1, holdfast.LeaseTime(5*time.Second))
	if err := long.Extend(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	<-brief.Context().Done()
	next := obtain(t, r.far, 1, holdfast.LeaseTime(20*time.Second))
	time.Sleep(6 * time.Second)
	wantLost(t, brief, holdfast.LossExpired)
	r.has(t, 0, 3)
	for what, l := range map[string]*holdfast.Lease{"renewed": renewed, "extended": long, "next": next} {
		if !l.Valid() {
			t.Errorf("%s: over", what)
		}
		release(t, l)
	}
	r.has(t, 3, 0)
}

// Many leases are renewed by few commands.
func TestPermitsRenewedTogether(t *testing.T) {
	t.Parallel()
	const leases = 200
	r := newPermitRig(t, holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 500 * time.Millisecond})
	if err := r.sem.Set(t.Context(), 2*leases); err != nil {
		t.Fatal(err)
	}
	var ls []*holdfast.Lease
	for i := range leases {
		ls = append(ls, obtain(t, r.sem, 1+i%2))
	}
	time.Sleep(time.Second) // until they are renewed in a row
	before := obtainedLast(t, r)
	start := time.Now()
	r.p.ResetCounts()
	eventually(t, 10*time.Second, "the leases are moved by two seconds", func() bool { return obtainedLast(t, r)-before >= 2000 })
	// Two calls take all of them, four or five times. On a busy machine they are
	// taken at different times, and so it may be an eighth of them at a time.
	n := r.p.Total()
	if rounds := int(time.Since(start)/(500*time.Millisecond)) + 2; n > 20*rounds {
		t.Errorf("%d commands for %d leases, in %d rounds: %v", n, leases, rounds, r.p.Commands())
	}
	for _, l := range ls {
		if !l.Valid() {
			t.Fatal("lost")
		}
	}
	parallel(8, func(i int) {
		for ; i < leases; i += 8 {
			release(t, ls[i])
		}
	})
	r.has(t, 2*leases, 0)
}

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Redisson removes a lease, expired or not. The holder is told at the next renewal,
// and no permit is released twice.
func TestPermitsTakenAway(t *testing.T) {
	t.Parallel()
	for how, take := range map[string]func(t *testing.T, r *locktest.LeasedRig){
		"released by its id": func(t *testing.T, r *locktest.LeasedRig) {
			r.Server.Do(t, "EVAL", "redis.call('zremrangebyrank', KEYS[2], 0, 0) redis.call('incrby', KEYS[1], 1)", "2", "rig", "{rig}:timeout")
		},
		"reaped": func(t *testing.T, r *locktest.LeasedRig) {
			r.Server.Do(t, "EVAL", "redis.call('incrby', KEYS[1], redis.call('zremrangebyrank', KEYS[2], 0, -1))", "2", "rig", "{rig}:timeout")
		},
		"deleted": func(t *testing.T, r *locktest.LeasedRig) {
			r.Server.Do(t, "DEL", "rig", "{rig}:timeout")
			r.Server.Do(t, "SET", "rig", "3")
		},
		"flushed": func(t *testing.T, r *locktest.LeasedRig) {
			r.Server.Do(t, "FLUSHALL")
			r.Server.Do(t, "SET", "rig", "3")
		},
		"replaced": func(t *testing.T, r *locktest.LeasedRig) {
			redistest.Outage(time.Second, func() { r.Server.Do(t, "SET", "{rig}:timeout", "x") }, func() {
				r.Server.Do(t, "DEL", "{rig}:timeout")
				r.Server.Do(t, "SET", "rig", "3")
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewLeasedRig(t, holdfast.Options{WatchdogTimeout: 6 * time.Second, RenewEvery: 200 * time.Millisecond})
			l := locktest.Obtain(t, r.Sem, 2)
			ctx := l.Context()
			take(t, r)
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("not told")
			}
			locktest.WantLost(t, l, holdfast.LossNotOwner)
			locktest.Eventually(t, 10*time.Second, "three are free", func() bool {
				st, err := r.Far.State(t.Context())
				return err == nil && st == holdfast.PermitState{Available: 3}
			})
			locktest.Release(t, locktest.Obtain(t, r.Far, 3))
			r.Has(t, 3, 0)
		})
	}
}

// Without messages a waiter looks by itself.
func TestPermitsWithoutMessages(t *testing.T) {
	t.Parallel()
	for harm, do := range map[string]func(*testing.T, *locktest.LeasedRig){
		"dropped": func(_ *testing.T, r *locktest.LeasedRig) { r.Proxy.DropMessages(true) },
		"killed":  func(t *testing.T, r *locktest.LeasedRig) { r.Server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
	} {
		t.Run(harm, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewLeasedRig(t, patient)
			for range 5 {
				l := locktest.Obtain(t, r.Far, 3)
				waiter := locktest.Background(t.Context(), r.Sem.Locker(2))
				r.Awake(t)
				do(t, r)
				start := time.Now()
				locktest.Release(t, l)
				got := locktest.Entered(t, waiter)
				if took := locktest.Took(start); took > patient.PollInterval+locktest.Late {
					t.Errorf("entered %v later", took)
				}
				r.Proxy.DropMessages(false)
				locktest.Release(t, got)
			}
		})
	}
}

// Taken once, although the request ran twice, and for the whole lease from the
// request on that was answered: the holder counts from there.
func TestPermitsTakeReplyLost(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t)
	stalls := redistest.MeterStalls(t, r.Server)
	const lease = 10 * time.Second
	for call, take := range map[string]func() (*holdfast.Lease, error){
		"Acquire":    func() (*holdfast.Lease, error) { return r.Sem.Acquire(t.Context(), 2, holdfast.LeaseTime(lease)) },
		"TryAcquire": func() (*holdfast.Lease, error) { return r.Sem.TryAcquire(t.Context(), 2, holdfast.LeaseTime(lease)) },
	} {
		r.Proxy.Refuse(true)
		dropped := r.DropNext() // and with the reply goes the only connection
		repaired := make(chan int64, 1)
		start := time.Now()
		go redistest.Outage(100*time.Millisecond, func() { <-dropped }, func() {
			repaired <- locktest.ServerTime(t, r.Server)
			r.Proxy.Refuse(false)
		})
		l, err := take()
		if call == "TryAcquire" && locktest.StoodStill(stalls, err, start) {
			<-repaired
			r.Back(t)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		r.Has(t, 1, 2)
		from := <-repaired
		for _, id := range l.PermitIDs() {
			end := locktest.PermitExpiry(t, r.Server, r.Sem, id)
			if end < from+lease.Milliseconds() {
				t.Errorf("%s: the lease counts from %d ms before the second request", call, from+lease.Milliseconds()-end)
			}
			there := time.Duration(end-locktest.ServerTime(t, r.Server)) * time.Millisecond
			if left := time.Until(l.Deadline()); there < left {
				t.Errorf("%s: the holder counts on %v, the server on %v", call, left, there)
			}
		}
		locktest.Release(t, l)
		r.Has(t, 3, 0)
	}
}

// The caller gives up while its request is under way. What the request acquires is
// released at once, not at the end of the lease.
func TestPermitsGivenUpInDoubt(t *testing.T) {
	t.Parallel()
	for call, take := range map[string]func(context.Context, *locktest.LeasedRig) (*holdfast.Lease, error){
		"Acquire": func(ctx context.Context, r *locktest.LeasedRig) (*holdfast.Lease, error) {
			return r.Sem.Acquire(ctx, 2)
		},
		"TryAcquire": func(ctx context.Context, r *locktest.LeasedRig) (*holdfast.Lease, error) {
			return r.Sem.TryAcquire(ctx, 3)
		},
		"Wait": func(_ context.Context, r *locktest.LeasedRig) (*holdfast.Lease, error) {
			return r.Sem.TryAcquire(context.Background(), 2, holdfast.Wait(50*time.Millisecond))
		},
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewLeasedRig(t)
			arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				select {
				case <-arrived:
				case <-ctx.Done():
					return
				}
				cancel()
			}()
			l, err := take(ctx, r)
			asked := true
			select {
			case <-arrived:
			default:
				asked = false // its time was over before that, if the machine stood still
			}
			if err == nil || asked && errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%v, %v: without a reply this is not known", l, err)
			}
			letGo()
			r.Back(t)
		})
	}
	t.Run("late", func(t *testing.T) { // it runs when its caller has long given up
		t.Parallel()
		r := locktest.NewLeasedRig(t)
		r.Proxy.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // long enough to have sent it
		defer cancel()
		if _, err := r.Sem.Acquire(ctx, 2); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		r.Proxy.ResetCounts()
		r.Proxy.Thaw()
		locktest.Eventually(t, 10*time.Second, "acquire and undo have both run", func() bool { return r.Proxy.Count("EVALSHA") >= 2 })
		r.Back(t)
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		r := locktest.NewLeasedRig(t)
		held := locktest.Obtain(t, r.Far, 2)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := locktest.Background(ctx, r.Sem.Locker(2))
		r.Awake(t)
		arrived, letGo := r.Proxy.HoldReply(redistest.Command("EVALSHA"))
		// This grants nothing: the waiter asks, and is granted what it does not hear of.
		if err := r.Far.ReleaseIDs(t.Context(), held.PermitIDs()...); err != nil {
			t.Fatal(err)
		}
		<-arrived
		cancel()
		if o := locktest.Await(t, waiter); !errors.Is(o.Err, context.Canceled) {
			t.Errorf("%v, %v", o.Lease, o.Err)
		}
		letGo()
		r.Back(t)
	})
}

// Released once, although the request ran twice. Permits that another owner holds by
// then are not released.
func TestPermitsReleaseReplyLost(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t)
	l := locktest.Obtain(t, r.Sem, 2)
	dropped := r.DropNext()
	taken := make(chan *holdfast.Lease, 1)
	go func() {
		<-dropped // they are free, but the caller of Release does not know
		taken <- locktest.Obtain(t, r.Far, 3)
	}()
	if excused, err := locktest.LoseReply(redistest.MeterStalls(t, r.Server), r.Proxy, func() error { return l.Release(t.Context()) }); err != nil && !excused {
		t.Error(err)
	}
	got := <-taken
	r.Has(t, 0, 3)
	locktest.Release(t, got)
	r.Has(t, 3, 0)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("second release: %v", err)
	}
}

func TestPermitsRenewReplyLost(t *testing.T) {
	t.Parallel()
	// Long enough for a standstill and three renewals without a reply.
	r := locktest.NewLeasedRig(t, holdfast.Options{WatchdogTimeout: 10 * time.Second, RenewEvery: locktest.Steady.RenewEvery})
	ls := []*holdfast.Lease{locktest.Obtain(t, r.Sem, 2), locktest.Obtain(t, r.Sem, 1)}
	for range 3 {
		<-r.DropNext() // nothing but renewals goes out
	}
	locktest.AwaitRenewals(t, r.Client, 2)
	r.Has(t, 0, 3)
	for _, l := range ls {
		if !l.Valid() {
			t.Error("lost by a lost reply")
		}
		locktest.Release(t, l)
	}
	r.Has(t, 3, 0)
}

// Orders that are not about a lease are carried out once, too.
func TestPermitsOrderReplyLost(t *testing.T) {
	t.Parallel()
	r := locktest.NewLeasedRig(t)
	stalls := redistest.MeterStalls(t, r.Server)
	ctx := t.Context()
	lose := func(what string, order func() error) {
		t.Helper()
		if excused, err := locktest.LoseReply(stalls, r.Proxy, order); err != nil && !excused {
			t.Errorf("%s: %v", what, err)
		}
	}
	ids := locktest.Obtain(t, r.Sem, 3, holdfast.LeaseTime(time.Minute)).PermitIDs()
	lose("ExtendID", func() error { return r.Sem.ExtendID(ctx, ids[0], time.Hour) })
	lose("ReleaseIDs", func() error { return r.Sem.ReleaseIDs(ctx, ids[1:]...) })
	r.Has(t, 2, 1)
	lose("Add", func() error { return r.Sem.Add(ctx, 2) })
	r.Has(t, 4, 1)
	lose("Set", func() error { return r.Sem.Set(ctx, 2) })
	r.Has(t, 1, 1)
	lose("RemainingID", func() error {
		left, err := r.Sem.RemainingID(ctx, ids[0])
		if left < 59*time.Minute {
			err = errors.Join(err, fmt.Errorf("%v left", left))
		}
		return err
	})
	lose("State", func() error { _, err := r.Sem.State(ctx); return err })
	lose("ReleaseIDs", func() error { return r.Sem.ReleaseIDs(ctx, ids[0]) })
	r.Server.Do(t, "DEL", "rig")
	lose("TrySet", func() error {
		set, err := r.Sem.TrySet(ctx, 3, 0)
		if !set {
			err = errors.Join(err, errors.New("reports that another call did"))
		}
		return err
	})
	r.Has(t, 3, 0)
}

// With the server out of reach, a release goes on in the background.
func TestPermitsReleaseGoesOn(t *testing.T) {
	t.Parallel()
	for what, give := range map[string]func(r *locktest.LeasedRig, l *holdfast.Lease) error{
		"lease": func(_ *locktest.LeasedRig, l *holdfast.Lease) error { return l.Release(context.Background()) },
		"ids": func(r *locktest.LeasedRig, l *holdfast.Lease) error {
			return r.Sem.ReleaseIDs(context.Background(), l.PermitIDs()...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewLeasedRig(t)
			l := locktest.Obtain(t, r.Sem, 2)
			r.Disconnect()
			if err := give(r, l); !errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("release without a server: %v", err)
			}
			r.Has(t, 1, 2)
			r.Proxy.Refuse(false)
			r.Back(t)
		})
	}
}

// Leases are renewed although the server has no memory left. A renewal needs none,
// for a mutex either.
func TestPermitsRenewedWithoutMemory(t *testing.T) {
	t.Parallel()
	o := holdfast.Options{WatchdogTimeout: 5 * time.Second, RenewEvery: locktest.Steady.RenewEvery}
	r := locktest.NewLeasedRig(t, o)
	permits, mutex := locktest.Obtain(t, r.Sem, 2), locktest.Lock(t, t.Context(), r.Client.Mutex("mutex"))
	r.Server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	full := time.Now()
	for what, l := range map[string]*holdfast.Lease{"mutex": mutex, "permits": permits} {
		locktest.Eventually(t, 20*time.Second, "a renewal", func() bool {
			return !l.Valid() || l.Deadline().After(full.Add(o.WatchdogTimeout+time.Second))
		})
		if !l.Valid() {
			t.Errorf("%s: %v", what, context.Cause(l.Context()))
		}
		_ = l.Release(t.Context())
	}
	r.Server.Do(t, "CONFIG", "SET", "maxmemory", "0")
}

// A copier is a driver that can send the last request for permits once more, as
// happens to one that was sent twice and late on its way.
type copier struct {
	driver.Driver
	mu   sync.Mutex
	last driver.Call
}

func (c *copier) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	if call.Script.Name == "leased_acquire" {
		c.mu.Lock()
		c.last = call
		c.mu.Unlock()
	}
	return c.Driver.Do(ctx, call)
}

func (c *copier) again(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	call := c.last
	c.mu.Unlock()
	if _, err := c.Driver.Do(t.Context(), call); err != nil {
		t.Fatal(err)
	}
}

func newCopier(t *testing.T, s *redistest.Server) (*copier, *holdfast.Client) {
	t.Helper()
	settings, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	twice := &copier{Driver: d}
	c, err := holdfast.New(twice, &holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Async}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return twice, c
}

// A late copy of the request does not shorten a lease that was extended meanwhile.
// Otherwise another owner would enter while the lease is valid for its holder.
func TestPermitsLateCopyOfExtended(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	twice, c := newCopier(t, s)
	sem := locktest.NewLeasedSemaphore(t, c, 1)
	const lease = 3 * time.Second
	l := locktest.Obtain(t, sem, 1, holdfast.LeaseTime(lease))
	if err := l.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	twice.again(t)
	got, err := locktest.Open(t, s.URL()).LeasedSemaphore(sem.Name()).TryAcquire(t.Context(), 1, holdfast.Wait(lease+time.Second))
	if err == nil {
		t.Errorf("both are valid: %v and %v", l.Valid(), got.Valid())
		locktest.Release(t, got)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A late copy of the request does not take a permit that was released meanwhile
// without counting it.
func TestPermitsLateCopyOfDivided(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	twice, c := newCopier(t, s)
	for back := range 2 {
		sem := locktest.NewLeasedSemaphore(t, c, 3)
		l := locktest.Obtain(t, sem, 2)
		if err := sem.ReleaseIDs(t.Context(), l.PermitIDs()[back]); err != nil {
			t.Fatal(err)
		}
		twice.again(t)
		st, err := sem.State(t.Context())
		if st.Available+st.Taken != 3 || err != nil {
			t.Errorf("permit %d released: %+v, %v; want three in all", back, st, err)
		}
		_ = l.Release(t.Context())
		locktest.WantPermits(t, sem, 3, 0)
	}
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A permitRig is a semaphore with three permits on a client whose replies can be
// lost, and an undisturbed look at the server.
type permitRig struct {
	s   *redistest.Server
	p   *redistest.Proxy
	c   *holdfast.Client
	sem *holdfast.LeasedSemaphore
	far *holdfast.LeasedSemaphore // the same in another client, past the proxy
}

func newPermitRig(t *testing.T, o ...holdfast.Options) *permitRig {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	r := &permitRig{s: s, p: p, c: open(t, p.URL(), o...)}
	r.sem, r.far = r.c.LeasedSemaphore("rig"), open(t, enduring(s.URL()), o...).LeasedSemaphore("rig")
	for range 2 { // so that the server knows the scripts
		if _, err := r.sem.TrySet(t.Context(), 3, 0); err != nil {
			t.Fatal(err)
		}
		l := obtain(t, r.sem, 1, holdfast.LeaseTime(time.Minute))
		for _, err := range []error{
			l.Extend(t.Context(), time.Minute), r.sem.Add(t.Context(), 0), r.sem.Set(t.Context(), 3),
			r.sem.ReleaseIDs(t.Context(), obtain(t, r.sem, 1).Permits()...),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		release(t, l)
	}
	r.has(t, 3, 0)
	return r
}

// has checks the number of free permits, and that of leases, past everything
// that could make either look right.
func (r *permitRig) has(t *testing.T, free, leases int64) {
	t.Helper()
	if n := r.s.Int(t, "GET", "rig"); n != free {
		t.Errorf("%d free, want %d", n, free)
	}
	if n := r.s.Int(t, "ZCARD", "{rig}:timeout"); n != leases {
		t.Errorf("%d leases, want %d", n, leases)
	}
}

// back waits until all permits are free, and nothing is left of leases.
func (r *permitRig) back(t *testing.T) {
	t.Helper()
	eventually(t, 10*time.Second, "all permits are back", func() bool {
		return r.s.Int(t, "GET", "rig") == 3 && r.s.Int(t, "EXISTS", "{rig}:timeout") == 0
	})
}

func (r *permitRig) dropNext() <-chan struct{} { return r.p.DropReply(1, redistest.Command("EVALSHA")) }

// serverMillis is the server's clock in milliseconds.
func serverMillis(tb testing.TB, s *redistest.Server) int64 {
	tb.Helper()
	return s.Int(tb, "EVAL", "local t = redis.call('time') return t[1] * 1000 + math.floor(t[2] / 1000)", "0")
}

// Taken once, although the request ran twice, and for the whole lease from the
// request on that was answered: the holder counts from there.
func TestPermitsTakeReplyLost(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	stalls := redistest.MeterStalls(t, r.s)
	const lease = 10 * time.Second
	for call, take := range map[string]func() (*holdfast.Lease, error){
		"Acquire":    func() (*holdfast.Lease, error) { return r.sem.Acquire(t.Context(), 2, holdfast.LeaseTime(lease)) },
		"TryAcquire": func() (*holdfast.Lease, error) { return r.sem.TryAcquire(t.Context(), 2, holdfast.LeaseTime(lease)) },
	} {
		r.p.Refuse(true)
		dropped := r.dropNext() // and with the reply goes the only connection
		mended := make(chan int64, 1)
		start := time.Now()
		go func() {
			<-dropped
			time.Sleep(100 * time.Millisecond)
			mended <- serverMillis(t, r.s)
			r.p.Refuse(false)
		}()
		l, err := take()
		if call == "TryAcquire" && stoodStill(stalls, err, start) {
			<-mended
			r.back(t)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		r.has(t, 1, 2)
		from := <-mended
		for _, id := range l.Permits() {
			end := ends(t, r.s, r.sem, id)
			if end < from+lease.Milliseconds() {
				t.Errorf("%s: the lease counts from %d ms before the second request", call, from+lease.Milliseconds()-end)
			}
			there := time.Duration(end-serverMillis(t, r.s)) * time.Millisecond
			if left := time.Until(l.Deadline()); there < left {
				t.Errorf("%s: the holder counts on %v, the server on %v", call, left, there)
			}
		}
		release(t, l)
		r.has(t, 3, 0)
	}
}

// The caller gives up while its request is on the way: what the request takes
// is given back at once, not when the lease ends.
func TestPermitsGivenUpInDoubt(t *testing.T) {
	t.Parallel()
	for call, take := range map[string]func(context.Context, *permitRig) (*holdfast.Lease, error){
		"Acquire":    func(ctx context.Context, r *permitRig) (*holdfast.Lease, error) { return r.sem.Acquire(ctx, 2) },
		"TryAcquire": func(ctx context.Context, r *permitRig) (*holdfast.Lease, error) { return r.sem.TryAcquire(ctx, 3) },
		"Wait": func(_ context.Context, r *permitRig) (*holdfast.Lease, error) {
			return r.sem.TryAcquire(context.Background(), 2, holdfast.Wait(50*time.Millisecond))
		},
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			r := newPermitRig(t)
			arrived, letGo := r.p.HoldReply(redistest.Command("EVALSHA"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				select {
				case <-arrived:
				case <-ctx.Done():
					return
				}
				time.Sleep(50 * time.Millisecond)
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
				t.Errorf("%v, %v: without a reply nobody can say", l, err)
			}
			letGo()
			r.back(t)
		})
	}
	t.Run("late", func(t *testing.T) { // it runs when its caller has long given up
		t.Parallel()
		r := newPermitRig(t)
		r.p.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond) // long enough to have sent it
		defer cancel()
		if _, err := r.sem.Acquire(ctx, 2); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		r.p.ResetCounts()
		r.p.Thaw()
		eventually(t, 10*time.Second, "acquire and undo have both run", func() bool { return r.p.Count("EVALSHA") >= 2 })
		r.back(t)
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		r := newPermitRig(t)
		held := obtain(t, r.far, 2)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := background(ctx, r.sem.Locker(2))
		listened(t, r.s, "redisson_sc:{rig}")
		time.Sleep(100 * time.Millisecond) // so that it has looked once more
		arrived, letGo := r.p.HoldReply(redistest.Command("EVALSHA"))
		release(t, held) // the waiter asks, and is granted what it does not hear of
		<-arrived
		cancel()
		if o := await(t, waiter); !errors.Is(o.err, context.Canceled) {
			t.Errorf("%v, %v", o.lease, o.err)
		}
		letGo()
		r.back(t)
	})
}

// Given back once, although the request ran twice, and never what somebody else
// has by then.
func TestPermitsReleaseReplyLost(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	l := obtain(t, r.sem, 2)
	dropped := r.dropNext()
	taken := make(chan *holdfast.Lease, 1)
	go func() {
		<-dropped // they are free, but the one who gave them back does not know
		taken <- obtain(t, r.far, 3)
	}()
	if excused, err := loseReply(redistest.MeterStalls(t, r.s), r.p, func() error { return l.Release(t.Context()) }); err != nil && !excused {
		t.Error(err)
	}
	got := <-taken
	r.has(t, 0, 3)
	release(t, got)
	r.has(t, 3, 0)
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("second release: %v", err)
	}
}

func TestPermitsRenewReplyLost(t *testing.T) {
	t.Parallel()
	// Long enough for a standstill and three renewals that nobody hears of.
	r := newPermitRig(t, holdfast.Options{WatchdogTimeout: 10 * time.Second, RenewEvery: steady.RenewEvery})
	ls := []*holdfast.Lease{obtain(t, r.sem, 2), obtain(t, r.sem, 1)}
	for range 3 {
		<-r.dropNext() // nothing but renewals goes out
	}
	time.Sleep(steady.RenewEvery)
	r.has(t, 0, 3)
	for _, l := range ls {
		if !l.Valid() {
			t.Error("lost by a lost reply")
		}
		release(t, l)
	}
	r.has(t, 3, 0)
}

// Orders that are not about a lease are carried out once, too.
func TestPermitsOrderReplyLost(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	stalls := redistest.MeterStalls(t, r.s)
	ctx := t.Context()
	lose := func(what string, order func() error) {
		t.Helper()
		if excused, err := loseReply(stalls, r.p, order); err != nil && !excused {
			t.Errorf("%s: %v", what, err)
		}
	}
	ids := obtain(t, r.sem, 3, holdfast.LeaseTime(time.Minute)).Permits()
	lose("ExtendID", func() error { return r.sem.ExtendID(ctx, ids[0], time.Hour) })
	lose("ReleaseIDs", func() error { return r.sem.ReleaseIDs(ctx, ids[1:]...) })
	r.has(t, 2, 1)
	lose("Add", func() error { return r.sem.Add(ctx, 2) })
	r.has(t, 4, 1)
	lose("Set", func() error { return r.sem.Set(ctx, 2) })
	r.has(t, 1, 1)
	lose("RemainingID", func() error {
		left, err := r.sem.RemainingID(ctx, ids[0])
		if left < 59*time.Minute {
			err = errors.Join(err, fmt.Errorf("%v left", left))
		}
		return err
	})
	lose("State", func() error { _, err := r.sem.State(ctx); return err })
	lose("ReleaseIDs", func() error { return r.sem.ReleaseIDs(ctx, ids[0]) })
	r.s.Do(t, "DEL", "rig")
	lose("TrySet", func() error {
		set, err := r.sem.TrySet(ctx, 3, 0)
		if !set {
			err = errors.Join(err, errors.New("says that somebody else did"))
		}
		return err
	})
	r.has(t, 3, 0)
}

// With the server out of reach, a release goes on in the background.
func TestPermitsReleaseGoesOn(t *testing.T) {
	t.Parallel()
	for what, give := range map[string]func(r *permitRig, l *holdfast.Lease) error{
		"lease": func(_ *permitRig, l *holdfast.Lease) error { return l.Release(context.Background()) },
		"ids": func(r *permitRig, l *holdfast.Lease) error {
			return r.sem.ReleaseIDs(context.Background(), l.Permits()...)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newPermitRig(t)
			l := obtain(t, r.sem, 2)
			r.p.Refuse(true)
			r.p.Cut()
			if err := give(r, l); !errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("release without a server: %v", err)
			}
			r.has(t, 1, 2)
			r.p.Refuse(false)
			r.back(t)
		})
	}
}

// The context of a lease is no way in: who acquires with it takes more.
func TestPermitsAgain(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	outer := obtain(t, r.sem, 1)
	inner, err := r.sem.Acquire(outer.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.has(t, 1, 2)
	if a, b := outer.Permits()[0], inner.Permits()[0]; a == b || outer.Owner() == inner.Owner() || outer.Token() >= inner.Token() {
		t.Errorf("the permits are %s and %s, the owners %s and %s, the tokens %d and %d", a, b, outer.Owner(), inner.Owner(), outer.Token(), inner.Token())
	}
	if _, err := r.sem.TryAcquire(inner.Context(), 2); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("more than there are: %v", err)
	}
	release(t, inner)
	r.has(t, 2, 1)
	if !outer.Valid() || outer.Context().Err() != nil {
		t.Error("the first lease ended with the second")
	}
	err = r.sem.Do(outer.Context(), 2, func(ctx context.Context) error {
		if l := holdfast.LeaseOf(ctx); l == nil || len(l.Permits()) != 2 {
			t.Errorf("the lease of the work is %v", l)
		}
		r.has(t, 0, 3)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	release(t, outer)
	r.has(t, 3, 0)
}

// Close gives permits back, of whatever lease, and turns away who waits.
func TestPermitsClose(t *testing.T) {
	t.Parallel()
	r := newPermitRig(t)
	held, fixed := obtain(t, r.sem, 1), obtain(t, r.sem, 1, holdfast.LeaseTime(time.Minute))
	kept := obtain(t, r.far, 1)
	ctx := held.Context()
	var waiters []<-chan outcome
	for n := range 3 {
		waiters = append(waiters, background(context.Background(), r.sem.Locker(1+n)))
	}
	listened(t, r.s, "redisson_sc:{rig}")
	if err := r.c.Close(); err != nil {
		t.Error(err)
	}
	for _, w := range waiters {
		if o := await(t, w); !errors.Is(o.err, holdfast.ErrClosed) {
			t.Errorf("waiter: %v", o.err)
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
	r.has(t, 2, 1)
	for _, err := range []error{r.sem.Set(t.Context(), 1), r.sem.ReleaseIDs(t.Context(), kept.Permits()...)} {
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	release(t, kept)
	r.has(t, 3, 0)
}

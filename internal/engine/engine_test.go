package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

func init() {
	clock.Fake()
	clock.Seed(1)
}

var options = Options{
	Lease: 30 * time.Second, Renew: 10 * time.Second,
	Poll: 5 * time.Second, PollBlind: time.Second,
	Queue:    true,
	Patience: 10 * time.Second, Linger: time.Second,
	SlicePasses: 4, SliceTime: 5 * time.Millisecond,
	Log: slog.New(slog.DiscardHandler),
}

// in runs a test in fake time on two engines that share a fake server. No goroutine may
// run at its end.
func in(t *testing.T, test func(d *fake.Driver, a, b *Engine)) {
	synctest.Test(t, func(*testing.T) {
		d := fake.New()
		a, b := New(d, options), New(deaf{d}, options)
		test(d, a, b)
		a.Close(time.Second)
		b.Close(time.Second)
	})
}

// deaf shares the locks of a fake driver but not its messages, because the fake driver has
// only one listener. An engine on it is like one in another process without messages.
type deaf struct{ *fake.Driver }

func (deaf) Listen(driver.Handler) driver.Listener { return silence{} }

type silence struct{}

func (silence) Subscribe(...string)   {}
func (silence) Unsubscribe(...string) {}
func (silence) Close() error          { return nil }

// A user records the losses that it is told.
type user struct {
	mu  sync.Mutex
	why []watchdog.Reason
}

func (u *user) Lost(why watchdog.Reason) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.why = append(u.why, why)
}

func (u *user) told() []watchdog.Reason {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.why
}

// acquire acquires the mutex "k".
func acquire(t *testing.T, e *Engine, r Request) *Hold {
	t.Helper()
	h, err := e.Acquire(context.Background(), script.NewMutex("k"), r, new(user))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// release releases a hold for its only user.
func release(t *testing.T, h *Hold) {
	t.Helper()
	if err := h.Release(nil, h.nest.renewers > 0); err != nil {
		t.Error(err)
	}
}

var forever = Request{Wait: Forever}

// wrapped is a fake driver whose calls can be replaced.
type wrapped struct {
	*fake.Driver
	do   func(context.Context, driver.Call) (driver.Reply, error)
	many func(context.Context, []driver.Call) []driver.Result
}

func wrap(d *fake.Driver) *wrapped { return &wrapped{d, d.Do, d.DoMany} }

func (w *wrapped) Do(ctx context.Context, c driver.Call) (driver.Reply, error) { return w.do(ctx, c) }

func (w *wrapped) DoMany(ctx context.Context, cs []driver.Call) []driver.Result {
	return w.many(ctx, cs)
}

// taken acquires the mutex "k" and returns the hold and its user.
func taken(t *testing.T, e *Engine, r Request) (*Hold, *user) {
	t.Helper()
	u := new(user)
	h, err := e.Acquire(context.Background(), script.NewMutex("k"), r, u)
	if err != nil {
		t.Fatal(err)
	}
	return h, u
}

// After SlicePasses hand-offs, the lock is released at the server.
func TestSliceOfPasses(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		first := acquire(t, a, forever)
		const n = 12
		var mu sync.Mutex
		owners := []string{first.Owner()}
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				h := acquire(t, a, forever)
				mu.Lock()
				owners = append(owners, h.Owner())
				mu.Unlock()
				time.Sleep(10 * time.Microsecond)
				release(t, h)
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Microsecond)
		release(t, first)
		wg.Wait()
		// Five users per grant: the first one, and four hand-offs.
		grants := 1
		for i := range owners[1:] {
			if owners[i+1] != owners[i] {
				grants++
			}
		}
		if want := (n + 1 + 4) / 5; grants != want {
			t.Errorf("%d grants for %d users, want %d: %v", grants, n+1, want, owners)
		}
		if d.Holder("k") != "" {
			t.Error("still held")
		}
	})
}

// After SliceTime, the lock is released at the server, so that other processes get it.
func TestSliceOfTime(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					h := acquire(t, a, forever)
					time.Sleep(2 * time.Millisecond)
					release(t, h)
				}
			})
		}
		time.Sleep(time.Second)
		close(stop)
		wg.Wait()
		// Three holds of 2 ms are more than a slice.
		if n := d.Releases(); n < 100 || n > 250 {
			t.Errorf("released at the server %d times in a second, want 100 to 250", n)
		}
	})
}

// crowded is a driver whose releases are heard by two clients that compete for the lock.
type crowded struct{ *fake.Driver }

func (d crowded) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	r, err := d.Driver.Do(ctx, c)
	if fake.Release(c) && r.Int == 1 {
		r.Int += 2
	}
	return r, err
}

// While other clients compete for each release, a grant serves the process for a shorter time:
// sections of 2 ms are not handed off.
func TestSliceBesideRivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		e := New(crowded{d}, options)
		defer e.Close(time.Second)
		end := time.Now().Add(time.Second)
		var wg sync.WaitGroup
		var sections atomic.Int64
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(end) {
					h := acquire(t, e, forever)
					sections.Add(1)
					time.Sleep(2 * time.Millisecond)
					release(t, h)
				}
			})
		}
		wg.Wait()
		if n, all := d.Releases(), int(sections.Load()); n < all*9/10 {
			t.Errorf("%d of %d sections ended with a release at the server", n, all)
		}
	})
}

// A renewed hold is not handed off to a call that wants a fixed lease, nor a fixed lease to
// a call that wants a renewed hold.
func TestNotPassed(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		first := acquire(t, a, forever)
		got := make(chan *Hold)
		go func() { got <- acquire(t, a, Request{Wait: Forever, Lease: time.Minute}) }()
		synctest.Wait()
		release(t, first)
		second := <-got
		if second.Owner() == first.Owner() {
			t.Error("a renewed hold was handed off to a call that wants a fixed lease")
		}
		go func() { got <- acquire(t, a, forever) }()
		synctest.Wait()
		release(t, second)
		third := <-got
		if third.Owner() == second.Owner() {
			t.Error("a fixed lease was handed off to a call that wants a renewed hold")
		}
		release(t, third)
	})
}

// Without messages, a waiter asks when the lease of the holder has ended and at the poll
// interval, whichever comes first.
func TestWaiterLooksForItself(t *testing.T) {
	in(t, func(d *fake.Driver, a, b *Engine) {
		start := time.Now()
		h := acquire(t, a, Request{Wait: Forever, Lease: 300 * time.Millisecond})
		got := acquire(t, b, forever)
		if took := time.Since(start); took < 300*time.Millisecond || took > 310*time.Millisecond {
			t.Errorf("acquired after %v, want 300ms to 310ms", took)
		}
		if h.Loss() != watchdog.Expired {
			t.Errorf("first holder: %v", h.Loss())
		}
		d.Delete("k") // without a message
		start = time.Now()
		calls := d.Acquires()
		release(t, acquire(t, a, forever))
		_ = got
		if took := time.Since(start); took > time.Second {
			t.Errorf("a free lock was taken after %v", took)
		}
		if n := d.Acquires() - calls; n > 2 {
			t.Errorf("%d requests, want at most 2", n)
		}
	})
}

// unheard makes a wait for a lock that b releases, and drops the message of the release. The
// channel receives the hold of a.
func unheard(t *testing.T, d *fake.Driver, a, b *Engine) <-chan *Hold {
	t.Helper()
	h := acquire(t, b, forever)
	got := make(chan *Hold)
	go func() { got <- acquire(t, a, forever) }()
	time.Sleep(time.Second)
	d.Deafen(true)
	release(t, h)
	return got
}

// A lost message delays a waiter by at most the poll interval.
func TestLostMessage(t *testing.T) {
	for _, queue := range []bool{true, false} {
		in(t, func(d *fake.Driver, a, b *Engine) {
			a.o.Queue = queue
			got := unheard(t, d, a, b)
			start := time.Now()
			release(t, <-got)
			if took := time.Since(start); took > options.Poll {
				t.Errorf("queue %v: acquired after %v, want at most %v", queue, took, options.Poll)
			}
		})
	}
}

// A restored subscription wakes all waiters, because messages may have been lost meanwhile.
func TestReconnected(t *testing.T) {
	in(t, func(d *fake.Driver, a, b *Engine) {
		got := unheard(t, d, a, b)
		d.Deafen(false)
		start := time.Now()
		d.Reconnect(errors.New("cut"))
		release(t, <-got)
		if took := time.Since(start); took != 0 {
			t.Errorf("acquired %v after the subscription was restored, want at once", took)
		}
	})
}

// A grant that arrives when its lease is nearly over is not used.
func TestGrantedTooLate(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		slow := &slowDriver{Driver: d, delay: time.Minute}
		e := New(slow, options)
		defer e.Close(time.Second)
		h := acquire(t, e, forever)
		if !h.Valid() || d.Holder("k") != h.Owner() || d.Acquires() != 2 {
			t.Errorf("valid %v, holder %q, hold %q, asked %d times", h.Valid(), d.Holder("k"), h.Owner(), d.Acquires())
		}
		release(t, h)
	})
}

// slowDriver delays its first answer.
type slowDriver struct {
	*fake.Driver
	delay time.Duration
	first string
}

func (s *slowDriver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	r, err := s.Driver.Do(ctx, c)
	if s.first == "" {
		s.first = c.Args[1]
		time.Sleep(s.delay)
	}
	return r, err
}

// A call waits for an unavailable server. If the server stays unavailable, the call fails
// with ErrUnavailable and never with ErrNotAcquired.
func TestPatience(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		down := driver.ServerError("LOADING Redis is loading the dataset in memory")
		d.Fail(func(driver.Call) error { return down })
		time.AfterFunc(8*time.Second, func() { d.Fail(nil) })
		release(t, acquire(t, a, forever))
		d.Fail(func(driver.Call) error { return down })
		for _, test := range []struct {
			wait, least, most time.Duration
		}{
			{Forever, 10 * time.Second, 11 * time.Second},
			{0, time.Second, 2 * time.Second},
			{3 * time.Second, 3 * time.Second, 3 * time.Second},
		} {
			start := time.Now()
			_, err := a.Acquire(context.Background(), script.NewMutex("k"), Request{Wait: test.wait}, new(user))
			if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotAcquired) {
				t.Errorf("wait %v: %v", test.wait, err)
			}
			if took := time.Since(start); took < test.least || took > test.most {
				t.Errorf("wait %v: gave up after %v", test.wait, took)
			}
		}
		d.Fail(nil)
	})
}

// A call in the queue ends with its context, and the turn is not lost.
func TestQueuedCancel(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h := acquire(t, a, forever)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i+1)*time.Millisecond)
				defer cancel()
				got, err := a.Acquire(ctx, script.NewMutex("k"), forever, new(user))
				switch {
				case err == nil:
					release(t, got)
				case !errors.Is(err, context.DeadlineExceeded): // and ErrNotAcquired, unless it had the turn
					t.Error(err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond) // at the same time as one of them gives up
		release(t, h)
		wg.Wait()
		release(t, acquire(t, a, forever))
		if g := a.gates.byKey["k"]; g.refs > 0 || g.turns > 0 || g.length > 0 || g.sub.waiter != nil || d.Holder("k") != "" {
			t.Errorf("left %+v, held by %q", g, d.Holder("k"))
		}
	})
}

// The user of a lost hold is told once, and the next call in the queue gets the turn.
func TestLostWithQueue(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		u := new(user)
		h, err := a.Acquire(context.Background(), script.NewMutex("k"), forever, u)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *Hold)
		go func() { got <- acquire(t, a, forever) }()
		synctest.Wait()
		d.Delete("k")
		next := <-got
		if why := u.told(); len(why) != 1 || why[0] != watchdog.NotOwner {
			t.Errorf("told %v", why)
		}
		if err := h.Release(nil, true); !errors.Is(err, ErrLost) {
			t.Errorf("release: %v", err)
		}
		if !next.Valid() || d.Holder("k") != next.Owner() {
			t.Errorf("next: valid %v, holder %q", next.Valid(), d.Holder("k"))
		}
		release(t, next)
	})
}

// A lease counts from before the request was sent, however long the answer takes.
func TestLeaseCountsFromBefore(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		e := New(&slowDriver{Driver: d, delay: 12 * time.Second}, options)
		defer e.Close(time.Second)
		start := clock.Now()
		h := acquire(t, e, Request{Wait: Forever, Lease: options.Lease})
		if ends := h.Deadline() - start; ends > options.Lease {
			t.Errorf("the lease ends %v after the request was sent, at the server after %v", ends, options.Lease)
		}
		release(t, h)
	})
}

// A waiter whose context ends when it gets the turn passes the turn on.
func TestTurnIsNotLost(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		g := a.gate("k")
		defer a.leaveGate(g)
		for range 100 {
			if h, has, err := a.awaitTurn(context.Background(), g, script.Traits{}, options.Lease, new(longWait)); h != nil || !has || err != nil {
				t.Fatal(h, has, err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					h, err := a.Acquire(ctx, script.NewMutex("k"), forever, new(user))
					if err == nil {
						release(t, h)
					}
				})
			}
			synctest.Wait()
			cancel()
			g.give() // to a call that is about to end
			wg.Wait()
			release(t, acquire(t, a, forever)) // hangs if the turn is lost
		}
	})
}

// A fixed lease is not released when it ends at the client. It lasts until its end at the
// server, which is later, because the request took time to arrive.
func TestFixedLeaseLastsToItsEnd(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		const way = 40 * time.Millisecond
		e := New(&farDriver{d, way}, options)
		defer e.Close(time.Second)
		h := acquire(t, e, Request{Wait: Forever, Lease: 300 * time.Millisecond})
		time.Sleep(299 * time.Millisecond)
		if h.Loss() != watchdog.Expired || d.Holder("k") != h.Owner() {
			t.Errorf("lost %v, held by %q before the end", h.Loss(), d.Holder("k"))
		}
		time.Sleep(2 * time.Millisecond)
		if d.Holder("k") != "" {
			t.Error("held after the end")
		}
		time.Sleep(time.Minute)
		if n := d.Releases(); n != 0 {
			t.Errorf("%d releases of an expired lock", n)
		}
	})
}

// farDriver delays every request on its way to the server.
type farDriver struct {
	*fake.Driver
	way time.Duration
}

func (f *farDriver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	time.Sleep(f.way)
	return f.Driver.Do(ctx, c)
}

// The first call after the machine has slept succeeds.
func TestFirstCallAfterSleep(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		clock.Skip(time.Hour)
		h, u := taken(t, a, Request{})
		if err := h.Release(u, true); err != nil {
			t.Error(err)
		}
	})
}

// A grant that arrives after the context has ended is not returned, and the lock is freed.
func TestGrantedTooLateForTheCaller(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		e := New(&slowDriver{Driver: d, delay: 2 * time.Second}, options)
		defer e.Close(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := e.Acquire(ctx, script.NewMutex("k"), forever, new(user)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Second)
		if d.Holder("k") != "" {
			t.Error("left locked")
		}
	})
}

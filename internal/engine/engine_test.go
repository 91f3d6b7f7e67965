package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

func init() { clock.Fake() }

var options = Options{
	Lease: 30 * time.Second, Renew: 10 * time.Second,
	Poll: 5 * time.Second, PollBlind: time.Second,
	Patience: 10 * time.Second, Linger: time.Second,
	SlicePasses: 4, SliceTime: 5 * time.Millisecond,
	Log: slog.New(slog.DiscardHandler),
}

// in runs a test in faked time on two engines that share a fake server, at the
// end of which nothing may be left running.
func in(t *testing.T, test func(d *fake.Driver, a, b *Engine)) {
	synctest.Test(t, func(*testing.T) {
		d := fake.New()
		a, b := New(d, options), New(deaf{d}, options)
		test(d, a, b)
		a.Close(time.Second)
		b.Close(time.Second)
	})
}

// deaf shares the locks of a fake driver but not its messages, of which it
// has only one listener: an engine on it is somebody in a far process.
type deaf struct{ *fake.Driver }

func (deaf) Listen(driver.Handler) driver.Listener { return silence{} }

type silence struct{}

func (silence) Subscribe(...string)   {}
func (silence) Unsubscribe(...string) {}
func (silence) Close() error          { return nil }

// A user counts what it is told.
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

func acquire(t *testing.T, e *Engine, r Request) *Hold {
	t.Helper()
	h, err := e.Acquire(context.Background(), script.NewMutex("k"), r, new(user))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func release(t *testing.T, h *Hold) {
	t.Helper()
	if err := h.Release(nil, h.renewers > 0); err != nil {
		t.Error(err)
	}
}

var forever = Request{Wait: Forever}

// A slice ends after its passes, and the lock is offered to others.
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
		// Five users per grant: the one that asked, and four passes.
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

// A slice ends after its time, too, so that somebody far away can get in.
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
		if n := d.Calls("mutex_release"); n < 100 || n > 250 {
			t.Errorf("really released %d times in a second", n)
		}
	})
}

// Nobody is passed a hold of another length than it asked for, nor one that is
// about to end.
func TestNotPassed(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		first := acquire(t, a, forever)
		got := make(chan *Hold)
		go func() { got <- acquire(t, a, Request{Wait: Forever, Lease: time.Minute}) }()
		synctest.Wait()
		release(t, first)
		second := <-got
		if second.Owner() == first.Owner() {
			t.Error("a fixed lease was passed on from a renewed hold")
		}
		go func() { got <- acquire(t, a, forever) }()
		synctest.Wait()
		release(t, second)
		third := <-got
		if third.Owner() == second.Owner() {
			t.Error("a renewed hold was passed on from a fixed lease")
		}
		release(t, third)
	})
}

// Without messages a waiter looks when the holder's time is over, and at the
// poll bound, whichever comes first.
func TestWaiterLooksForItself(t *testing.T) {
	in(t, func(d *fake.Driver, a, b *Engine) {
		start := time.Now()
		h := acquire(t, a, Request{Wait: Forever, Lease: 300 * time.Millisecond})
		got := acquire(t, b, forever)
		if took := time.Since(start); took < 300*time.Millisecond || took > 310*time.Millisecond {
			t.Errorf("got in after %v, when the lease of 300ms ended", took)
		}
		if h.Loss() != watchdog.Expired {
			t.Errorf("first holder: %v", h.Loss())
		}
		d.Delete("k") // nobody is told
		start = time.Now()
		calls := d.Calls("mutex_acquire")
		release(t, acquire(t, a, forever))
		_ = got
		if took := time.Since(start); took > time.Second {
			t.Errorf("a free lock was taken after %v", took)
		}
		if n := d.Calls("mutex_acquire") - calls; n > 2 {
			t.Errorf("%d looks", n)
		}
	})
}

// missed lets a wait for what b releases, without the message of that, and
// returns when a gets it.
func missed(t *testing.T, d *fake.Driver, a, b *Engine) <-chan *Hold {
	t.Helper()
	h := acquire(t, b, forever)
	got := make(chan *Hold)
	go func() { got <- acquire(t, a, forever) }()
	time.Sleep(time.Second)
	d.Deafen(true)
	release(t, h)
	return got
}

// A lost message costs the poll bound and no more.
func TestLostMessage(t *testing.T) {
	in(t, func(d *fake.Driver, a, b *Engine) {
		got := missed(t, d, a, b)
		start := time.Now()
		release(t, <-got)
		if took := time.Since(start); took > options.Poll {
			t.Errorf("got in after %v", took)
		}
	})
}

// A new subscription wakes everybody: what was published in between is gone.
func TestReconnected(t *testing.T) {
	in(t, func(d *fake.Driver, a, b *Engine) {
		got := missed(t, d, a, b)
		d.Deafen(false)
		start := time.Now()
		d.Reconnect(errors.New("cut"))
		release(t, <-got)
		if took := time.Since(start); took != 0 {
			t.Errorf("got in %v after the subscription was restored", took)
		}
	})
}

// A grant that arrives when its lease is as good as over is not used.
func TestGrantedTooLate(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		slow := &slowDriver{Driver: d, delay: time.Minute}
		e := New(slow, options)
		defer e.Close(time.Second)
		h := acquire(t, e, forever)
		if !h.Valid() || d.Holder("k") != h.Owner() || d.Calls("mutex_acquire") != 2 {
			t.Errorf("valid %v, holder %q, hold %q, asked %d times", h.Valid(), d.Holder("k"), h.Owner(), d.Calls("mutex_acquire"))
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

// Trouble that passes is waited for; trouble that stays is an error, and never
// one that looks as if the lock were taken.
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

// Those who queue are turned away in time, and the turn is not lost with them.
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
				case !errors.Is(err, ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond) // at the very moment one of them gives up
		release(t, h)
		wg.Wait()
		release(t, acquire(t, a, forever))
		if len(a.gates) != 0 || d.Holder("k") != "" {
			t.Errorf("%d gates left, held by %q", len(a.gates), d.Holder("k"))
		}
	})
}

// The user of a lost hold is told once, and the next in the queue may try.
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

// The lease counts from before the request was sent, however long the answer
// took.
func TestLeaseCountsFromBefore(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		e := New(&slowDriver{Driver: d, delay: 12 * time.Second}, options)
		defer e.Close(time.Second)
		start := clock.Now()
		h := acquire(t, e, Request{Wait: Forever, Lease: options.Lease})
		if ends := h.Deadline() - start; ends > options.Lease {
			t.Errorf("the lease ends %v after the request was sent, the server's after %v", ends, options.Lease)
		}
		release(t, h)
	})
}

// A waiter whose time is up just as it gets the turn passes it on.
func TestTurnIsNotLost(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		g := a.gate("k")
		defer a.leave(g)
		for range 100 {
			if h, err := a.awaitTurn(context.Background(), g, true); h != nil || err != nil {
				t.Fatal(h, err)
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
			g.give() // to one who is about to go
			wg.Wait()
			release(t, acquire(t, a, forever)) // hangs if the turn is lost
		}
	})
}

// A lease of fixed length lasts to its end at the server, which is a moment
// after its end here, since the request took time to get there.
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
		if n := d.Calls("mutex_release"); n != 0 {
			t.Errorf("%d releases of what has expired", n)
		}
	})
}

// farDriver has a server that is far away.
type farDriver struct {
	*fake.Driver
	way time.Duration
}

func (f *farDriver) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	time.Sleep(f.way)
	return f.Driver.Do(ctx, c)
}

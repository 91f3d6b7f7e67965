package engine

import (
	"context"
	"errors"
	"strings"
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

// A hold with leases of several lengths is kept as long as one of them is renewed.
func TestMixedLeaseTimes(t *testing.T) {
	for name, mix := range map[string]func(h *Hold, pass int) error{
		"renewed inside a short one": nil,
		"extended by far": func(h *Hold, pass int) error {
			return h.Extend(context.Background(), pass, time.Hour)
		},
		"a long one inside, released": func(h *Hold, pass int) error {
			inner := new(user)
			if err := h.Reenter(context.Background(), pass, Request{Lease: time.Hour, Wait: Forever}, inner); err != nil {
				return err
			}
			return h.Release(inner, false)
		},
	} {
		in(t, func(d *fake.Driver, a, _ *Engine) {
			r := forever
			if mix == nil {
				r.Lease = 2 * time.Second
				mix = func(h *Hold, pass int) error { return h.Reenter(context.Background(), pass, forever, new(user)) }
			}
			h, u := taken(t, a, r)
			pass, _ := h.Current()
			if err := mix(h, pass); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			if why := u.told(); len(why) > 0 || !h.Valid() || d.Holder("k") != h.Owner() {
				t.Errorf("%s: told %v, valid %v", name, why, h.Valid())
			}
		})
	}
}

// Reenter ends after its wait time, and a release does not wait for an extension without
// an answer.
func TestClaimsAreBounded(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h, u := taken(t, a, forever)
		pass, _ := h.Current()
		d.Fail(func(driver.Call) error { return driver.ServerError("LOADING") })
		start := time.Now()
		for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
			if err := h.Reenter(context.Background(), pass, Request{Wait: wait}, new(user)); err == nil {
				t.Error("re-entered an unavailable server")
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("wait %v: gave up after %v", wait, took)
			}
			start = time.Now()
		}
		done := make(chan error)
		go func() { done <- h.Extend(context.Background(), pass, time.Hour) }()
		time.Sleep(100 * time.Millisecond)
		start = time.Now()
		_ = h.Release(u, true)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("released after %v", took)
		}
		<-done
		d.Fail(nil)
	})
}

// A silent driver does not answer while on is set.
type silent struct {
	driver.Driver
	mu *sync.RWMutex
	on *bool
}

func (d silent) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	d.mu.RLock()
	on := *d.on
	d.mu.RUnlock()
	if on {
		<-ctx.Done()
		return driver.Reply{}, driver.Unknown(ctx.Err())
	}
	return d.Driver.Do(ctx, c)
}

// Reenter with a wait time fails with ErrUnavailable if the server does not answer, for the
// call that asks and for a call behind it.
func TestReenterAtSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.RWMutex
		var on bool
		e := over(t, silent{fake.New(), &mu, &on})
		h := acquire(t, e, forever)
		mu.Lock()
		on = true
		mu.Unlock()
		var wg sync.WaitGroup
		// The second call waits behind the first, and gives up before it.
		for _, wait := range []time.Duration{time.Second, time.Second / 2} {
			wg.Go(func() {
				began := time.Now()
				err := h.Reenter(t.Context(), 0, Request{Wait: wait}, new(user))
				if took := time.Since(began); !errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || took > 3*time.Second {
					t.Errorf("wait %v, after %v: %v", wait, took, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		mu.Lock()
		on = false
		mu.Unlock()
		release(t, h)
	})
}

// After a failover, a lease is verified at once, not when it is due for renewal.
func TestFailoverVerifiesAtOnce(t *testing.T) {
	in(t, func(d *fake.Driver, e, _ *Engine) {
		w := &witness{d: d, key: "k"}
		if _, err := e.Acquire(context.Background(), script.NewMutex("k"), forever, w); err != nil {
			t.Fatal(err)
		}
		d.FailOver("k")
		failed := time.Now()
		time.Sleep(options.Renew / 2)
		if said := w.told(); said.why != watchdog.Failover || said.at.Sub(failed) > time.Millisecond {
			t.Errorf("told %v after %v", said.why, said.at.Sub(failed))
		}
	})
}

// A hold whose request has a renewal time is renewed for that time, not for the engine's.
func TestRenewalOfRequest(t *testing.T) {
	for _, renewal := range []time.Duration{5 * time.Second, 5 * time.Minute} {
		in(t, func(d *fake.Driver, a, _ *Engine) {
			h, u := taken(t, a, Request{Wait: Forever, Renewal: renewal})
			for range 1000 {
				time.Sleep(500 * time.Millisecond)
				least := renewal - min(renewal/3, options.Renew) - time.Second
				if ttl := d.Remaining("k"); ttl > renewal || ttl < least {
					t.Fatalf("renewal %v: the server keeps it for %v", renewal, ttl)
				}
			}
			if why := u.told(); len(why) > 0 || !h.Valid() {
				t.Errorf("renewal %v: told %v, valid %v", renewal, why, h.Valid())
			}
			d.Fail(func(driver.Call) error { return driver.ServerError("LOADING") })
			time.Sleep(renewal)
			if why := u.told(); len(why) != 1 || h.Valid() {
				t.Errorf("renewal %v, no server: told %v, valid %v", renewal, why, h.Valid())
			}
			d.Fail(nil)
			_ = h.Release(u, true)
		})
	}
}

// A hold that is entered again is renewed for the longest time.
func TestRenewalOfReentry(t *testing.T) {
	const short, long = 5 * time.Second, 5 * time.Minute
	for _, outer := range []time.Duration{short, long} {
		in(t, func(d *fake.Driver, a, _ *Engine) {
			h, u := taken(t, a, Request{Wait: Forever, Renewal: outer})
			pass, _ := h.Current()
			inner := new(user)
			if err := h.Reenter(context.Background(), pass, Request{Wait: Forever, Renewal: short + long - outer}, inner); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				time.Sleep(2 * long)
				if ttl := d.Remaining("k"); ttl < long-options.Renew-time.Second || ttl > long {
					t.Errorf("outside %v: the server keeps it for %v", outer, ttl)
				}
				_ = h.Release(inner, true)
			}
			_ = h.Release(u, true)
		})
	}
}

// A hold is handed off only to a call that wants the same renewal.
func TestRenewalOfHandoff(t *testing.T) {
	for _, next := range []time.Duration{options.Lease, time.Minute, 5 * time.Second} {
		in(t, func(d *fake.Driver, a, _ *Engine) {
			h, u := taken(t, a, forever)
			got := make(chan *Hold)
			go func() {
				h, _ := taken(t, a, Request{Wait: Forever, Renewal: next})
				got <- h
			}()
			synctest.Wait()
			if err := h.Release(u, true); err != nil {
				t.Fatal(err)
			}
			second := <-got
			if passed := second == h; passed != (next == options.Lease) {
				t.Errorf("%v behind %v: handed off: %v", next, options.Lease, passed)
			}
			time.Sleep(next) // the first lease of a grant is shorter
			if ttl := d.Remaining("k"); ttl > next || ttl < next/2 {
				t.Errorf("%v behind %v: the server keeps it for %v", next, options.Lease, ttl)
			}
			release(t, second)
		})
	}
}

// A release that has to keep the lock keeps it also if the server does not answer at
// first, and does not free it later.
func TestKeepUnanswered(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h, u := taken(t, a, forever)
		h.KeepUntil(clock.Now() + time.Minute)
		var silent atomic.Bool
		silent.Store(true)
		d.Fail(func(driver.Call) error {
			if silent.Load() {
				return &driver.Error{Class: driver.Ambiguous, Err: errors.New("no answer")}
			}
			return nil
		})
		if err := h.Release(u, true); !errors.Is(err, ErrUnavailable) {
			t.Errorf("released: %v", err)
		}
		silent.Store(false)
		time.Sleep(20 * time.Second)
		if n := d.Releases(); n > 0 {
			t.Errorf("%d releases, which may arrive before the lock is kept", n)
		}
		if left := d.Remaining("k"); d.Holder("k") != strings.Replace(h.Owner(), ":", ":0", 1) || left < 35*time.Second || left > time.Minute {
			t.Errorf("%q holds it for %v", d.Holder("k"), left)
		}
		time.Sleep(time.Minute)
		if owner := d.Holder("k"); owner != "" {
			t.Errorf("%q still holds it", owner)
		}
		d.Fail(nil)
	})
}

// A lock that stays is released for its owner, too, if a request for it may arrive late. This
// leaves no entry in the queue, and does not free the lock.
func TestKeepOfOpenRequest(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		var asked atomic.Int32
		d.Fail(func(driver.Call) error {
			if asked.Add(1) == 1 {
				return &driver.Error{Class: driver.Ambiguous, Err: errors.New("no answer")}
			}
			return nil
		})
		h, u := taken(t, a, forever)
		h.KeepUntil(clock.Now() + time.Minute)
		if err := h.Release(u, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if d.Releases() == 0 {
			t.Error("nothing was released")
		}
		if left := d.Remaining("k"); d.Holder("k") != strings.Replace(h.Owner(), ":", ":0", 1) || left < 35*time.Second || left > time.Minute {
			t.Errorf("%q holds it for %v", d.Holder("k"), left)
		}
		d.Fail(nil)
	})
}

// The owner of a lost hold is released if a request for it may arrive late: it would queue, and its
// entry would stay.
func TestLossOfOpenRequest(t *testing.T) {
	for name, lose := range map[string]func(d *fake.Driver){
		"not the owner": func(d *fake.Driver) { d.Delete("k") },
		"expired":       func(*fake.Driver) {},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(d *fake.Driver, a, _ *Engine) {
				var asked atomic.Int32
				d.Fail(func(driver.Call) error {
					if asked.Add(1) == 1 {
						return &driver.Error{Class: driver.Ambiguous, Err: errors.New("no answer")}
					}
					return nil
				})
				h, u := taken(t, a, Request{Wait: Forever, Lease: 3 * options.Renew})
				lose(d)
				time.Sleep(4 * options.Renew)
				if err := h.Release(u, false); !errors.Is(err, ErrLost) {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if d.Releases() == 0 {
					t.Error("nothing was released")
				}
				d.Fail(nil)
			})
		})
	}
}

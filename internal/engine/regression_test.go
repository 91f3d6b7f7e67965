package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// wrapped is a fake driver with some of its calls changed.
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

// taken acquires "k" for a user that can be asked what it was told.
func taken(t *testing.T, e *Engine, r Request) (*Hold, *user) {
	t.Helper()
	u := new(user)
	h, err := e.Acquire(context.Background(), script.NewMutex("k"), r, u)
	if err != nil {
		t.Fatal(err)
	}
	return h, u
}

// Whatever has to be undone all the time does not keep leases from being
// renewed.
func TestGravesDoNotDelayRenewals(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		in(t, func(d *fake.Driver, _, _ *Engine) {
			slow := wrap(d)
			slow.many = func(ctx context.Context, cs []driver.Call) []driver.Result {
				time.Sleep(rtt)
				return d.DoMany(ctx, cs)
			}
			e := New(slow, options)
			defer e.Close(time.Second)
			_, u := taken(t, e, forever)
			for i, start := 0, time.Now(); time.Since(start) < options.Lease; i++ {
				time.Sleep(max(rtt/2, 5*time.Millisecond))
				e.undo(script.NewMutex(fmt.Sprint("g", i)), "x:1", options.Lease, true)
			}
			if why := u.told(); len(why) > 0 {
				t.Errorf("at %v: lost, %v, after %d renewals", rtt, why, d.Calls("renew"))
			}
		})
	}
}

// Leases of several lengths on one hold: as long as one of them is renewed,
// the hold lives.
func TestMixedLeaseTimes(t *testing.T) {
	for name, mix := range map[string]func(h *Hold, pass int) error{
		"renewed inside a short one": nil,
		"extended by far": func(h *Hold, pass int) error {
			return h.Extend(context.Background(), pass, time.Hour)
		},
		"a long one inside, given back": func(h *Hold, pass int) error {
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
			pass, _ := h.Grant()
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

// An answer that comes after Close is no lock.
func TestGrantedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		stalled, answer := wrap(d), make(chan struct{})
		stalled.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			<-answer
			return d.Do(ctx, c)
		}
		e := New(stalled, options)
		got := make(chan error)
		go func() {
			_, err := e.Acquire(context.Background(), script.NewMutex("k"), forever, new(user))
			got <- err
		}()
		synctest.Wait()
		e.Close(time.Second)
		close(answer)
		if err := <-got; !errors.Is(err, ErrClosed) {
			t.Errorf("acquired after Close: %v", err)
		}
		if d.Holder("k") != "" {
			t.Error("left locked")
		}
	})
}

// One call that hangs does not keep Close from freeing the rest.
func TestCloseFreesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		stalled := wrap(d)
		stalled.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			if c.Keys[0] == "slow" {
				time.Sleep(time.Minute)
			}
			return d.Do(ctx, c)
		}
		e := New(stalled, options)
		taken(t, e, forever)
		go func() { _, _ = e.Acquire(context.Background(), script.NewMutex("slow"), forever, new(user)) }()
		synctest.Wait()
		e.Close(time.Second)
		if d.Holder("k") != "" {
			t.Error("not freed, though the server answers for it")
		}
		time.Sleep(2 * time.Minute)
	})
}

// A release that the server refuses for now is tried again.
func TestRefusedRelease(t *testing.T) {
	for _, text := range []string{"ERR max number of clients reached", "NOPERM this user has no permissions"} {
		in(t, func(d *fake.Driver, a, _ *Engine) {
			h, u := taken(t, a, forever)
			d.Fail(func(driver.Call) error { return driver.ServerError(text) })
			if err := h.Release(u, true); err == nil {
				t.Errorf("%s: no error", text)
			}
			d.Fail(nil)
			time.Sleep(2 * time.Second)
			if d.Holder("k") != "" {
				t.Errorf("%s: still held", text)
			}
		})
	}
}

// A request that was sent twice and comes late is undone although the first
// attempt to undo it has found and freed the other one.
func TestLateDuplicate(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		n := 0
		var late func()
		lossy := wrap(d)
		lossy.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			if c.Script.Name != "mutex_acquire" {
				return d.Do(ctx, c)
			}
			c.Args = append([]string(nil), c.Args...)
			if n++; n == 1 { // on its way for long
				late = func() { _, _ = d.Do(context.Background(), c) }
				return driver.Reply{}, driver.Unknown(errors.New("cut"))
			}
			_, _ = d.Do(ctx, c) // runs, and the reply is lost
			<-ctx.Done()
			return driver.Reply{}, driver.Unknown(ctx.Err())
		}
		e := New(lossy, options)
		defer e.Close(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := e.Acquire(ctx, script.NewMutex("k"), forever, new(user)); err == nil {
			t.Fatal("acquired")
		}
		time.Sleep(100 * time.Millisecond)
		late()
		time.Sleep(10 * time.Second)
		if d.Holder("k") != "" {
			t.Error("held by nobody")
		}
	})
}

// Entering again keeps to the time it was given, and a release does not wait
// for an extension that gets no answer.
func TestClaimsAreBounded(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h, u := taken(t, a, forever)
		pass, _ := h.Grant()
		d.Fail(func(driver.Call) error { return driver.ServerError("LOADING") })
		start := time.Now()
		for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
			if err := h.Reenter(context.Background(), pass, Request{Wait: wait}, new(user)); err == nil {
				t.Error("entered")
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

// The first call after the machine has slept.
func TestFirstCallAfterSleep(t *testing.T) {
	in(t, func(_ *fake.Driver, a, _ *Engine) {
		clock.Skip(time.Hour)
		h, u := taken(t, a, Request{})
		if err := h.Release(u, true); err != nil {
			t.Error(err)
		}
	})
}

// An answer that comes after the caller has given up is no success.
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

// A lease whose time is over was lost because of that, also if the server is
// asked before the watchdog has come to say so.
func TestReleasedAfterItsEnd(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		for passed, why := range map[time.Duration]watchdog.Reason{0: watchdog.NotOwner, 2 * time.Second: watchdog.Expired} {
			h, u := taken(t, a, Request{Wait: Forever, Lease: time.Second})
			d.Delete("k")
			clock.Skip(passed) // no timer has noticed
			if err := h.Release(u, false); !errors.Is(err, ErrLost) || h.Loss() != why {
				t.Errorf("after %v: error %v, lost because %v, want %v", passed, err, h.Loss(), why)
			}
		}
	})
}

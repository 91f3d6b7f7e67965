package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// failRelease makes every release fail with the errors, one after the other, and
// then with the last one. A nil error lets the release pass.
func failRelease(d *fake.Driver, errs ...error) {
	n := 0
	d.Fail(func(c driver.Call) error {
		if !fake.Release(c) {
			return nil
		}
		err := errs[min(n, len(errs)-1)]
		n++
		return err
	})
}

var (
	lostReply = driver.Unknown(errors.New("reply lost"))
	noNetwork = driver.Unsent(errors.New("no network"))
	forbidden = driver.ServerError("NOPERM this user has no permissions")
)

// A process is stopped until its lease has ended, and releases it before its watchdog runs.
// Release returns ErrLost, whatever the server answers.
func TestReleaseAfterTheEnd(t *testing.T) {
	tests := map[string][]error{
		"answered":               {nil},
		"unanswered, then not":   {lostReply, nil},
		"unsent, then answered":  {noNetwork, nil},
		"unreachable":            {noNetwork},
		"silent":                 {lostReply},
		"no longer allowed":      {forbidden},
		"unanswered, then never": {lostReply, forbidden},
	}
	for name, errs := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, func(d *fake.Driver, a, b *Engine) {
				h := acquire(t, a, Request{Lease: 5 * time.Second})
				time.Sleep(time.Millisecond)
				clock.Skip(6 * time.Second)
				d.Delete("k") // it has expired at the server
				other := acquire(t, b, Request{})
				failRelease(d, errs...)
				err := h.Release(nil, false)
				if !errors.Is(err, ErrLost) {
					t.Errorf("error %v", err)
				}
				if why := h.Loss(); why != watchdog.Expired {
					t.Errorf("lost: %v", why)
				}
				d.Fail(nil)
				release(t, other)
				time.Sleep(time.Minute)
			})
		})
	}
}

// The release of a valid lease succeeds even if its first request has no answer.
func TestReleaseInTime(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h := acquire(t, a, Request{})
		failRelease(d, lostReply, nil)
		if err := h.Release(nil, true); err != nil {
			t.Error(err)
		}
		if d.Holder("k") != "" {
			t.Error("still held")
		}
	})
}

// The error of a release without an answer contains no negative time.
func TestReleaseText(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h := acquire(t, a, Request{Lease: 1200 * time.Millisecond})
		failRelease(d, lostReply)
		err := h.Release(nil, false)
		if !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "-") {
			t.Errorf("error %v", err)
		}
		d.Fail(nil)
	})
}

// The release of a re-entered lock returns the result of the server.
func TestReleaseNested(t *testing.T) {
	tests := []struct {
		name string
		errs []error
		skip time.Duration
		want error
	}{
		{"answered", []error{nil}, 0, nil},
		{"unanswered, then answered", []error{lostReply, nil}, 0, nil},
		{"unreachable", []error{noNetwork}, 0, ErrUnavailable},
		{"no longer allowed", []error{forbidden}, 0, ErrRefused},
		{"unreachable after the end", []error{noNetwork}, time.Minute, ErrLost},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in(t, func(d *fake.Driver, a, _ *Engine) {
				outer, inner := new(user), new(user)
				h, err := a.Acquire(context.Background(), script.NewMutex("k"), Request{}, outer)
				if err != nil {
					t.Fatal(err)
				}
				if err := h.Reenter(context.Background(), 0, Request{}, inner); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
				clock.Skip(test.skip)
				failRelease(d, test.errs...)
				if err := h.Release(inner, true); !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				d.Fail(nil)
				time.Sleep(time.Second)
				if test.skip == 0 {
					if err := h.Release(outer, true); err != nil || d.Holder("k") != "" {
						t.Errorf("the outer release: %v, held by %q", err, d.Holder("k"))
					}
				} else if !slices.Equal(outer.told(), []watchdog.Reason{watchdog.Expired}) {
					t.Errorf("told %v", outer.told())
				}
			})
		})
	}
}

// A release that the server refuses is retried in the background.
func TestRefusedRelease(t *testing.T) {
	for _, text := range []string{"ERR max number of clients reached", "NOPERM this user has no permissions"} {
		in(t, func(d *fake.Driver, a, _ *Engine) {
			h, u := taken(t, a, forever)
			d.Fail(func(driver.Call) error { return driver.ServerError(text) })
			if err := h.Release(u, true); err == nil {
				t.Errorf("%s: no error", text)
			}
			d.Fail(nil)
			time.Sleep(options.Patience) // the first retry may come before the server allows it
			if d.Holder("k") != "" {
				t.Errorf("%s: still held", text)
			}
		})
	}
}

// If a claim was sent twice and its first copy arrives late, that copy is undone, too, even
// if the second copy was undone before.
func TestLateDuplicate(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		n := 0
		var late func()
		lossy := wrap(d)
		lossy.do = func(ctx context.Context, c driver.Call) (driver.Reply, error) {
			if !fake.Acquire(c) {
				return d.Do(ctx, c)
			}
			c.Args = append([]string(nil), c.Args...)
			if n++; n == 1 { // arrives late
				late = func() { _, _ = d.Do(context.Background(), c) }
				return driver.Reply{}, driver.Unknown(errors.New("cut"))
			}
			_, _ = d.Do(ctx, c) // executed, but the reply is lost
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
			t.Error("the late claim was not undone")
		}
	})
}

// A lease that has ended was lost with the reason Expired, even if it is released before
// the watchdog has noticed.
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

// Many pending releases do not delay renewals.
func TestPendingReleasesDoNotDelayRenewals(t *testing.T) {
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
				e.settle(script.NewMutex(fmt.Sprint("g", i)), "x:1", settle.Remains{Until: clock.Now() + options.Lease, Open: true})
			}
			if why := u.told(); len(why) > 0 {
				t.Errorf("at %v: lost, %v, after %d renewals", rtt, why, d.Renewals())
			}
		})
	}
}

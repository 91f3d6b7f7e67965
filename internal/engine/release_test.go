package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// failRelease makes every release fail with the errors, one after the other, and
// then with the last one. A nil error lets the release pass.
func failRelease(d *fake.Driver, errs ...error) {
	n := 0
	d.Fail(func(c driver.Call) error {
		if c.Script.Name != "mutex_release" {
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

// A process is stopped until its lease is over, and releases before its watchdog
// runs. Whatever the server or the network say, Release does not claim that the
// lock was held until then.
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
				d.Delete("k") // as it has expired
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

// A lease that is valid when it is released was held until then, also if the
// first request has no answer.
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

// The text of a release without an answer never counts time that has passed.
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

// The release of a lock that was entered again says what the server says.
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

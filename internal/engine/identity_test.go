package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A client says who it is after its first lock, again every few minutes, and nothing if it
// lives for less than a second or takes no lock.
func TestAnnounce(t *testing.T) {
	said := func(t *testing.T, fail func(driver.Call) error, use string, live time.Duration) (n int) {
		synctest.Test(t, func(t *testing.T) {
			d := fake.New()
			o := options
			o.Client = &script.Client{Host: "here"}
			e := New(d, o)
			d.Fail(func(c driver.Call) error {
				if c.Script.Name != "value_set" {
					return nil
				}
				n++
				return fail(c)
			})
			switch use {
			case "lock":
				acquire(t, e, forever)
			case "lock and wait":
				acquire(t, e, forever)
				_, _ = e.Acquire(t.Context(), script.NewMutex("k"), Request{Wait: 100 * time.Millisecond}, nil)
			case "wait":
				far := New(deaf{d}, options)
				acquire(t, far, forever)
				_, _ = e.Acquire(t.Context(), script.NewMutex("k"), Request{Wait: time.Second}, nil)
				far.Close(time.Second)
			}
			time.Sleep(live)
			e.Close(time.Second)
		})
		return n
	}
	good := func(driver.Call) error { return nil }
	for _, test := range []struct {
		what        string
		fail        func(driver.Call) error
		use         string
		live        time.Duration
		least, most int // requests
	}{
		{"not used", good, "", time.Hour, 0, 0},
		{"short", good, "lock", 900 * time.Millisecond, 0, 0},
		{"longer", good, "lock", 1100 * time.Millisecond, 2, 2}, // and taken back
		{"an hour", good, "lock", time.Hour, 17, 23},
		{"an hour, and only a wait", good, "wait", time.Hour, 16, 23},
		{"a lock, then a wait", good, "lock and wait", 2 * time.Second, 2, 2},
		{"only a wait", good, "wait", announceEvery + 3*time.Second, 2, 3},
		{"refused", func(driver.Call) error { return driver.ServerError("NOPERM no permissions") }, "lock", time.Hour, 2, 2},
		{"unavailable", func(driver.Call) error { return driver.Unsent(errors.New("no network")) }, "lock", time.Minute, 6, 8},
	} {
		if n := said(t, test.fail, test.use, test.live); n < test.least || n > test.most {
			t.Errorf("%s: %d requests, want %d to %d", test.what, n, test.least, test.most)
		}
	}
}

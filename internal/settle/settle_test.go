package settle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
)

func init() { clock.Fake() }

const (
	lease = 30 * time.Second
	grace = 2500 * time.Millisecond
)

var mutex = script.NewMutex("a")

// in runs a test in faked time, on a server on which an owner has the lock a.
func in(t *testing.T, test func(d *fake.Driver, s *settle.Settler)) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		s := settle.New(d, grace, 10*time.Second)
		take(t, d)
		test(d, s)
		s.Close()
	})
}

func take(t *testing.T, d *fake.Driver) {
	t.Helper()
	v, err := script.Acquire(context.Background(), d, mutex, script.Claim{Owner: "me:1", Count: 1, Lease: lease})
	if err != nil || !v.Granted() {
		t.Fatal(v, err)
	}
}

// owner returns the owner of the lock with what may be left.
func owner(left settle.Remains) *settle.Owner {
	return &settle.Owner{Name: "me:1", Free: mutex.Free("me:1"), From: clock.Now(), Remains: left}
}

func noNetwork(driver.Call) error { return driver.Unsent(errors.New("no network")) }

// A hold is released until the server confirms it, and then not any more.
func TestRepeated(t *testing.T) {
	in(t, func(d *fake.Driver, s *settle.Settler) {
		d.Fail(noNetwork)
		s.Settle(owner(settle.Remains{Until: clock.Now() + lease}))
		time.Sleep(5 * time.Second)
		d.Fail(nil)
		time.Sleep(2 * time.Second)
		if d.Holder("a") != "" || s.Pending() != 0 {
			t.Errorf("held by %q, and %d owners are pending, 2 s after the network came back", d.Holder("a"), s.Pending())
		}
		calls := d.Releases()
		time.Sleep(time.Hour)
		if n := d.Releases(); n != calls {
			t.Errorf("%d more calls after the server has confirmed the release", n-calls)
		}
	})
}

// A hold that has ended is left alone. What may be in a queue is not, however long the
// server is silent: an entry has no end.
func TestEnds(t *testing.T) {
	for _, entry := range []bool{false, true} {
		in(t, func(d *fake.Driver, s *settle.Settler) {
			d.Fail(noNetwork)
			s.Settle(owner(settle.Remains{Entry: entry, Until: clock.Now() + lease}))
			time.Sleep(time.Hour)
			if pending := s.Pending() == 1; pending != entry {
				t.Errorf("entry %v: pending %v after an hour", entry, pending)
			}
		})
	}
}

// An open request is executed after a release was confirmed, and after a silence that is much
// longer than the grace. The release is repeated until the server has answered for the grace.
func TestOpen(t *testing.T) {
	in(t, func(d *fake.Driver, s *settle.Settler) {
		d.Fail(noNetwork)
		s.Settle(owner(settle.Remains{Open: true, Until: clock.Now() + lease}))
		time.Sleep(time.Minute)
		d.Fail(nil)
		time.Sleep(time.Second)
		take(t, d) // the open request
		time.Sleep(grace + time.Second)
		if d.Holder("a") != "" || s.Pending() != 0 {
			t.Errorf("held by %q, and %d owners are pending", d.Holder("a"), s.Pending())
		}
	})
}

// A server that refuses the key of the queue is asked to release the lock alone. Where it
// refuses it only while a slot is being moved, the entry is removed later.
func TestFallback(t *testing.T) {
	for code, entry := range map[string]bool{"NOPERM": false, "TRYAGAIN": true} {
		in(t, func(d *fake.Driver, s *settle.Settler) {
			refused := 0
			d.Fail(func(c driver.Call) error {
				if len(c.Keys) == 1 {
					return nil
				}
				refused++
				return driver.ServerError(code + " no")
			})
			o := owner(settle.Remains{Entry: true, Until: clock.Now() + lease})
			o.Unqueued = o.Free
			o.Free.Keys = []string{"a", "holdfast:queue:{a}"}
			s.Settle(o)
			time.Sleep(time.Second / 2)
			if d.Holder("a") != "" || refused != 1 {
				t.Errorf("%s: held by %q, refused %d times", code, d.Holder("a"), refused)
			}
			if pending := s.Pending() == 1; pending != entry {
				t.Errorf("%s: pending %v", code, pending)
			}
		})
	}
}

// A message for an owner that was settled settles it again. Other messages do not.
func TestAgain(t *testing.T) {
	in(t, func(d *fake.Driver, s *settle.Settler) {
		s.Settle(owner(settle.Remains{Open: true, Until: clock.Now() + lease}))
		time.Sleep(2 * grace)
		take(t, d)
		s.Again("me:2")
		time.Sleep(time.Millisecond)
		if d.Holder("a") == "" {
			t.Error("a message for another owner frees the lock")
		}
		s.Again("me:1")
		time.Sleep(time.Millisecond)
		if d.Holder("a") != "" {
			t.Error("a late grant is not given back")
		}
	})
}

// slow takes 100 ms for each pipeline.
type slow struct{ *fake.Driver }

const slowness = 100 * time.Millisecond

func (d slow) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	time.Sleep(slowness)
	return d.Driver.DoMany(ctx, calls)
}

// An owner that is due while others are under way is settled as soon as those are answered.
func TestBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		s := settle.New(slow{d}, grace, 10*time.Second)
		defer s.Close()
		release := func(key string) {
			m := script.NewMutex(key)
			if _, err := script.Acquire(context.Background(), d, m, script.Claim{Owner: "me:1", Count: 1, Lease: lease}); err != nil {
				t.Fatal(err)
			}
			s.Settle(&settle.Owner{Free: m.Free("me:1"), From: clock.Now(), Remains: settle.Remains{Until: clock.Now() + lease}})
		}
		release("a")
		time.Sleep(slowness / 2)
		release("b")
		synctest.Wait()
		if n := s.Pending(); n != 2 { // those under way count, too
			t.Errorf("%d owners are pending, want 2", n)
		}
		time.Sleep(slowness)
		if d.Holder("a") != "" || d.Holder("b") == "" {
			t.Fatalf("after one batch: a is held by %q, b by %q", d.Holder("a"), d.Holder("b"))
		}
		time.Sleep(slowness)
		if d.Holder("b") != "" {
			t.Error("b was not freed by the next batch")
		}
	})
}

// Close returns what is left, and Now settles it, with the fallback.
func TestCloseAndNow(t *testing.T) {
	in(t, func(d *fake.Driver, s *settle.Settler) {
		d.Fail(noNetwork)
		o := owner(settle.Remains{Until: clock.Now() + lease})
		o.Unqueued = o.Free
		o.Free.Keys = []string{"a", "holdfast:queue:{a}"}
		s.Settle(o)
		time.Sleep(time.Second)
		left := s.Close()
		if s.Settle(o) || len(left) != 1 {
			t.Fatalf("%d owners are left", len(left))
		}
		if rest, err := s.Now(time.Second, left); len(rest) != 1 || err == nil {
			t.Errorf("without a network, %d are left: %v", len(rest), err)
		}
		d.Fail(func(c driver.Call) error {
			if len(c.Keys) == 1 {
				return nil
			}
			return driver.ServerError("NOPERM no")
		})
		if rest, err := s.Now(time.Second, left); len(rest) != 0 || d.Holder("a") != "" {
			t.Errorf("%d are left, held by %q: %v", len(rest), d.Holder("a"), err)
		}
	})
}

package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

func init() { clock.Fake() }

const lease = 30 * time.Second

// A lossRecorder records the loss of its lease.
type lossRecorder struct {
	mu  sync.Mutex
	why Reason
	at  time.Time
}

func (l *lossRecorder) Lost(why Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why, l.at = why, time.Now()
}

func (l *lossRecorder) told() (Reason, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why, l.at
}

func (l *lossRecorder) reason() Reason {
	why, _ := l.told()
	return why
}

// A rig is a watchdog on a fake server.
type rig struct {
	t *testing.T
	d *fake.Driver
	w *Watchdog
}

// in runs a test in fake time. No goroutine may run at its end.
func in(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		r := &rig{t, d, New(d, lease/3, slog.New(slog.DiscardHandler))}
		test(r)
		r.w.Close()
	})
}

// guard acquires a lock and has the watchdog guard it.
func (r *rig) guard(key string, renewed bool) (*Watched, *lossRecorder) {
	r.t.Helper()
	sent := clock.Now()
	v, err := script.Acquire(context.Background(), r.d, script.NewMutex(key), script.Claim{Owner: "me:1", Count: 1, Lease: lease})
	if err != nil || !v.Granted() {
		r.t.Fatal(v, err)
	}
	user := new(lossRecorder)
	c := &Watched{Ref: script.LockRef{Key: key, Owner: "me:1"}, Handler: user, Lease: lease}
	var renewal time.Duration
	if renewed {
		renewal = lease
	}
	r.w.Guard(c, sent, renewal)
	return c, user
}

// A lease is renewed at the interval of the watchdog until it is dropped.
func TestRenewedForADay(t *testing.T) {
	in(t, func(r *rig) {
		c, user := r.guard("a", true)
		const day = 24 * time.Hour
		time.Sleep(day)
		if user.reason() != 0 || !c.Valid() || r.d.Holder("a") != "me:1" {
			t.Fatalf("after a day: lost %v, valid %v, holder %q", user.reason(), c.Valid(), r.d.Holder("a"))
		}
		if n, want := r.d.Renewals(), int(day/(lease/3)); n < want-1 || n > want+1 {
			t.Errorf("%d renewals in a day, want %d", n, want)
		}
		if !r.w.Drop(c) || c.Valid() {
			t.Error("not dropped")
		}
		time.Sleep(lease + time.Second)
		if r.d.Holder("a") != "" {
			t.Error("renewed after Drop")
		}
	})
}

// The holder is told exactly a gap before the deadline, and so before the lease ends
// at the server, even if the server does not answer.
func TestToldInTime(t *testing.T) {
	in(t, func(r *rig) {
		fixed, user1 := r.guard("fixed", false)
		start := time.Now()
		lost := errors.New("no network")
		renewed, user2 := r.guard("renewed", true)
		time.Sleep(15 * time.Second) // renewed once, at 10 s
		r.d.Fail(func(driver.Call) error { return driver.Unsent(lost) })
		time.Sleep(time.Hour)
		ends := func(from time.Duration) time.Duration { return from + lease - margin(lease) - gap(lease) }
		for _, test := range []struct {
			name string
			user *lossRecorder
			c    *Watched
			want time.Duration
		}{{"fixed", user1, fixed, ends(0)}, {"renewed", user2, renewed, ends(10 * time.Second)}} {
			why, at := test.user.told()
			if got := at.Sub(start); why != Expired || got < test.want-time.Millisecond || got > test.want+time.Millisecond {
				t.Errorf("%s: told %v after %v, want %v", test.name, why, got, test.want)
			}
			if test.c.Valid() {
				t.Errorf("%s: still valid", test.name)
			}
		}
	})
}

// A renewal whose answer is lost does not move the deadline, and loses no lease.
func TestAmbiguousRenewal(t *testing.T) {
	in(t, func(r *rig) {
		c, user := r.guard("a", true)
		n := 0
		r.d.Fail(func(call driver.Call) error {
			if call.Script.Name == "renew" {
				n++
				if n%3 != 0 {
					return driver.Unknown(errors.New("lost"))
				}
			}
			return nil
		})
		deadline := c.Deadline()
		time.Sleep(10*time.Second + time.Millisecond)
		if c.Deadline() != deadline {
			t.Error("a renewal without an answer has moved the deadline")
		}
		time.Sleep(time.Hour)
		if user.reason() != 0 || !c.Valid() {
			t.Errorf("lost: %v", user.reason())
		}
	})
}

// The holder of a lease that was deleted at the server is told at the next renewal.
// Other leases are kept.
func TestNotOwner(t *testing.T) {
	in(t, func(r *rig) {
		_, user := r.guard("a", true)
		_, other := r.guard("b", true)
		r.d.Delete("a")
		start := time.Now()
		time.Sleep(lease)
		if why, at := user.told(); why != NotOwner || at.Sub(start) > lease/3+time.Second {
			t.Errorf("told %v after %v", why, at.Sub(start))
		}
		if other.reason() != 0 {
			t.Error("another lease was lost with it")
		}
	})
}

// Leases that were acquired one after the other are soon renewed in the same calls.
func TestBatches(t *testing.T) {
	in(t, func(r *rig) {
		const n = 1000
		for i := range n {
			r.guard(fmt.Sprint("a", i), true)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		before := r.d.Renewals()
		const periods = 60
		time.Sleep(periods * lease / 3)
		calls := r.d.Renewals() - before
		if most := (n + maxBatch - 1) / maxBatch * (periods + 1); calls > most {
			t.Errorf("%d calls in %d periods for %d leases, want at most %d", calls, periods, n, most)
		}
	})
}

// A node that does not answer does not delay the renewals of another node.
func TestNodesAreIndependent(t *testing.T) {
	in(t, func(r *rig) {
		hang := &hanging{Driver: r.d}
		r.w.Close()
		r.w = New(hang, lease/3, slog.New(slog.DiscardHandler))
		_, dead := r.guard("dead/a", true)
		alive, user := r.guard("alive/a", true)
		time.Sleep(time.Hour)
		if dead.reason() != Expired {
			t.Errorf("the lease on the dead node: %v", dead.reason())
		}
		if user.reason() != 0 || !alive.Valid() {
			t.Errorf("the lease on the other node was lost: %v", user.reason())
		}
	})
}

// hanging does not answer calls with keys of the node "dead" until the caller gives up.
type hanging struct{ *fake.Driver }

func (h *hanging) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	if h.Place(calls[0].Keys[0]).Node == "dead" {
		<-ctx.Done()
		return slices.Repeat([]driver.Result{{Err: driver.Unknown(ctx.Err())}}, len(calls))
	}
	return h.Driver.DoMany(ctx, calls)
}

// When the machine has slept past the deadline, the lease is invalid at once.
func TestSleepingMachine(t *testing.T) {
	in(t, func(r *rig) {
		c, user := r.guard("a", true)
		time.Sleep(time.Second)
		clock.Skip(40 * time.Second)
		if c.Valid() {
			t.Error("valid right after the sleep")
		}
		time.Sleep(maxSleep + time.Millisecond)
		if user.reason() != Expired {
			t.Errorf("told %v", user.reason())
		}
	})
}

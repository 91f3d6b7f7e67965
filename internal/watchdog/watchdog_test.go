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

// A keeper is told of a loss.
type keeper struct {
	mu  sync.Mutex
	why Reason
	at  time.Time
}

func (k *keeper) Lost(why Reason) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.why, k.at = why, time.Now()
}

func (k *keeper) told() (Reason, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.why, k.at
}

func (k *keeper) reason() Reason {
	why, _ := k.told()
	return why
}

type rig struct {
	t *testing.T
	d *fake.Driver
	w *Watchdog
}

// in runs a test in faked time, at whose end nothing may be left running.
func in(t *testing.T, test func(k *rig)) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New()
		k := &rig{t, d, New(d, lease/3, slog.New(slog.DiscardHandler))}
		test(k)
		k.w.Close()
	})
}

// guard takes a lock and gives it into care.
func (k *rig) guard(key string, renewed bool) (*Watched, *keeper) {
	k.t.Helper()
	sent := clock.Now()
	v, err := script.Acquire(context.Background(), k.d, script.NewMutex(key), script.Claim{Owner: "me:1", Count: 1, Lease: lease})
	if err != nil || !v.Granted() {
		k.t.Fatal(v, err)
	}
	user := new(keeper)
	c := &Watched{LockRef: script.LockRef{Key: key, Owner: "me:1"}, Handler: user, Lease: lease}
	var renewal time.Duration
	if renewed {
		renewal = lease
	}
	k.w.Guard(c, sent, renewal)
	return c, user
}

func TestRenewedForADay(t *testing.T) {
	in(t, func(k *rig) {
		c, user := k.guard("a", true)
		const day = 24 * time.Hour
		time.Sleep(day)
		if user.reason() != 0 || !c.Valid() || k.d.Holder("a") != "me:1" {
			t.Fatalf("after a day: lost %v, valid %v, holder %q", user.reason(), c.Valid(), k.d.Holder("a"))
		}
		if n, want := k.d.Calls("renew"), int(day/(lease/3)); n < want-1 || n > want+1 {
			t.Errorf("%d renewals in a day, want %d", n, want)
		}
		if !k.w.Drop(c) || c.Valid() {
			t.Error("not dropped")
		}
		time.Sleep(lease + time.Second)
		if k.d.Holder("a") != "" {
			t.Error("renewed although dropped")
		}
	})
}

// The holder is told a gap before the deadline, that is well before the server
// forgets it, to the millisecond, also when nobody answers.
func TestToldInTime(t *testing.T) {
	in(t, func(k *rig) {
		fixed, user1 := k.guard("fixed", false)
		start := time.Now()
		lost := errors.New("no network")
		renewed, user2 := k.guard("renewed", true)
		time.Sleep(15 * time.Second) // renewed once, at 10 s
		k.d.Fail(func(driver.Call) error { return driver.Unsent(lost) })
		time.Sleep(time.Hour)
		ends := func(from time.Duration) time.Duration { return from + lease - margin(lease) - gap(lease) }
		for _, test := range []struct {
			name string
			user *keeper
			c    *Watched
			want time.Duration
		}{{"fixed", user1, fixed, ends(0)}, {"renewed", user2, renewed, ends(10 * time.Second)}} {
			why, at := test.user.told()
			if got := at.Sub(start); why != Expired || got < test.want-time.Millisecond || got > test.want+time.Millisecond {
				t.Errorf("%s: told %v after %v, want %v", test.name, why, got, test.want)
			}
			if test.c.Valid() {
				t.Errorf("%s: valid", test.name)
			}
		}
	})
}

// A renewal whose answer is lost counts for nothing, and hurts nothing.
func TestAmbiguousRenewal(t *testing.T) {
	in(t, func(k *rig) {
		c, user := k.guard("a", true)
		n := 0
		k.d.Fail(func(call driver.Call) error {
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
			t.Error("an ambiguous answer has moved the deadline")
		}
		time.Sleep(time.Hour)
		if user.reason() != 0 || !c.Valid() {
			t.Errorf("lost: %v", user.reason())
		}
	})
}

func TestNotOwner(t *testing.T) {
	in(t, func(k *rig) {
		_, user := k.guard("a", true)
		_, other := k.guard("b", true)
		k.d.Delete("a")
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

// Leases that were taken one after the other are soon renewed together.
func TestBatches(t *testing.T) {
	in(t, func(k *rig) {
		const n = 1000
		for i := range n {
			k.guard(fmt.Sprint("a", i), true)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		before := k.d.Calls("renew")
		const periods = 60
		time.Sleep(periods * lease / 3)
		calls := k.d.Calls("renew") - before
		if most := (n + maxBatch - 1) / maxBatch * (periods + 1); calls > most {
			t.Errorf("%d calls in %d periods for %d leases, want at most %d", calls, periods, n, most)
		}
	})
}

// One node that hangs delays no other.
func TestNodesAreIndependent(t *testing.T) {
	in(t, func(k *rig) {
		hang := &hanging{Driver: k.d}
		k.w.Close()
		k.w = New(hang, lease/3, slog.New(slog.DiscardHandler))
		_, dead := k.guard("dead/a", true)
		alive, user := k.guard("alive/a", true)
		time.Sleep(time.Hour)
		if dead.reason() != Expired {
			t.Errorf("the lease on the dead node: %v", dead.reason())
		}
		if user.reason() != 0 || !alive.Valid() {
			t.Errorf("the lease on the other node was lost: %v", user.reason())
		}
	})
}

// hanging answers nothing for keys of the node "dead" until the caller gives
// up.
type hanging struct{ *fake.Driver }

func (h *hanging) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	if h.Place(calls[0].Keys[0]).Node == "dead" {
		<-ctx.Done()
		return slices.Repeat([]driver.Result{{Err: driver.Unknown(ctx.Err())}}, len(calls))
	}
	return h.Driver.DoMany(ctx, calls)
}

// After the machine slept past the deadline, the lease is over at once.
func TestSleepingMachine(t *testing.T) {
	in(t, func(k *rig) {
		c, user := k.guard("a", true)
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

func TestBury(t *testing.T) {
	in(t, func(k *rig) {
		m := script.NewMutex("a")
		take := func() {
			k.t.Helper()
			v, err := script.Acquire(context.Background(), k.d, m, script.Claim{Owner: "me:1", Count: 1, Lease: lease})
			if err != nil || !v.Granted() {
				k.t.Fatal(v, err)
			}
		}
		take()
		k.d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		now := clock.Now()
		k.w.ReleaseLater(m.Free("me:1"), now, now, now+lease, nil)
		time.Sleep(5 * time.Second)
		k.d.Fail(nil)
		time.Sleep(2 * time.Second)
		if k.d.Holder("a") != "" {
			t.Error("not freed when the network came back")
		}
		// An acquire that arrives after the first attempt to undo it.
		now = clock.Now()
		k.w.ReleaseLater(m.Free("me:1"), now, now+time.Second, now+lease, nil)
		time.Sleep(500 * time.Millisecond)
		take()
		time.Sleep(time.Second)
		if k.d.Holder("a") != "" {
			t.Error("a late acquire was left behind")
		}
		calls := k.d.Calls("mutex_release")
		time.Sleep(time.Hour)
		if n := k.d.Calls("mutex_release"); n != calls {
			t.Errorf("%d more calls for pending that are done", n-calls)
		}
	})
}

// slow takes its time for every maxBatch of calls.
type slow struct{ *fake.Driver }

const slowness = 100 * time.Millisecond

func (d slow) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	time.Sleep(slowness)
	return d.Driver.DoMany(ctx, calls)
}

// What has to be freed while other calls to free something are under way goes
// out as soon as those are back.
func TestReleaseLaterBehindOthers(t *testing.T) {
	in(t, func(k *rig) {
		w := New(slow{k.d}, lease/3, slog.New(slog.DiscardHandler))
		defer w.Close()
		release := func(key string) {
			m := script.NewMutex(key)
			if _, err := script.Acquire(context.Background(), k.d, m, script.Claim{Owner: "me:1", Count: 1, Lease: lease}); err != nil {
				t.Fatal(err)
			}
			now := clock.Now()
			w.ReleaseLater(m.Free("me:1"), now, now, now+lease, nil)
		}
		release("a")
		time.Sleep(slowness / 2)
		release("b")
		time.Sleep(slowness)
		if k.d.Holder("a") != "" || k.d.Holder("b") == "" {
			t.Fatalf("after one batch: a is held by %q, b by %q", k.d.Holder("a"), k.d.Holder("b"))
		}
		time.Sleep(slowness)
		if k.d.Holder("b") != "" {
			t.Error("not freed by the next batch")
		}
	})
}

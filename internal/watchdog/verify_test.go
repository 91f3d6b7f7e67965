package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// extend prolongs a lease as Lease.Extend does.
func (k *rig) extend(c *Watched, d time.Duration) {
	k.t.Helper()
	sent := clock.Now()
	if held, err := script.Prolong(context.Background(), k.d, c.LockRef, d); !held || err != nil {
		k.t.Fatal(held, err)
	}
	if !k.w.Extend(c, sent, d) {
		k.t.Fatal("not in care")
	}
}

// A replica that takes over may have missed an extension. A lease is confirmed
// only when the new server keeps it for as long as its deadline claims.
func TestFailoverOfExtended(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		in(t, func(k *rig) {
			k.d.Watch(k.w.Suspect)
			c, user := k.guard("a", renewed)
			k.extend(c, 5*time.Minute)
			time.Sleep(time.Second)
			k.d.Expire("a", 5*time.Second) // all that the replica has heard of
			k.d.FailOver()
			time.Sleep(time.Millisecond)
			if why := user.reason(); why != 0 {
				t.Fatalf("renewed %v: told %v", renewed, why)
			}
			claimed, kept := c.Deadline()-clock.Now(), k.d.Remaining("a")
			if kept < claimed {
				t.Errorf("renewed %v: the deadline is in %v, but the server keeps the lease for %v", renewed, claimed, kept)
			}
			if most := 5*time.Minute - time.Second; kept > most {
				t.Errorf("renewed %v: verifying has prolonged the lease to %v, more than %v", renewed, kept, most)
			}
		})
	}
}

// The holder of a fixed lease learns within a period that the server does not
// keep it any more, as one does whose lease is renewed.
func TestFixedLeaseTakenAway(t *testing.T) {
	in(t, func(k *rig) {
		c, user := k.guard("a", false)
		k.extend(c, time.Hour)
		other, neighbour := k.guard("b", false)
		k.extend(other, time.Hour)
		time.Sleep(25 * time.Second)
		k.d.Delete("a")
		start := time.Now()
		time.Sleep(time.Minute)
		if why, at := user.told(); why != NotOwner || at.Sub(start) > lease/3+time.Second {
			t.Errorf("told %v after %v", why, at.Sub(start))
		}
		if why := neighbour.reason(); why != 0 {
			t.Errorf("the other lease: told %v", why)
		}
		time.Sleep(time.Hour - 90*time.Second)
		if left := k.d.Remaining("b"); left > 5*time.Second {
			t.Errorf("verifying has prolonged a lease: %v are left", left)
		}
	})
}

// To verify fixed leases costs as much as to renew others: a call for so many
// leases in each period.
func TestFixedLeasesAreCheap(t *testing.T) {
	in(t, func(k *rig) {
		const n, periods = 2000, 12
		for i := range n {
			c, _ := k.guard(fmt.Sprint("a", i), false)
			k.extend(c, time.Hour+time.Duration(i)*time.Second)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		before := k.d.Calls("renew")
		time.Sleep(periods * lease / 3)
		calls := k.d.Calls("renew") - before
		t.Logf("%d calls in each period for %d leases", calls/periods, n)
		if most := (n/maxBatch + 20) * (periods + 1); calls > most {
			t.Errorf("%d calls in %d periods, want at most %d", calls, periods, most)
		}
	})
}

// reading answers the renewals of read leases, and counts them.
type reading struct {
	*fake.Driver
	mu              sync.Mutex
	pipelines, most int
	calls           int
}

func (d *reading) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	d.mu.Lock()
	d.pipelines++
	d.most = max(d.most, d.pipelines)
	d.calls += len(calls)
	d.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
	d.mu.Lock()
	d.pipelines--
	d.mu.Unlock()
	results := make([]driver.Result, len(calls))
	for i, c := range calls {
		one := driver.Reply{Type: driver.Int, Int: 1}
		results[i].Reply = driver.Reply{Type: driver.List, List: slices.Repeat([]driver.Reply{one}, len(c.Keys)/2)}
	}
	return results
}

// Read leases of all lengths travel together.
func TestVariedFixedReads(t *testing.T) {
	in(t, func(k *rig) {
		d := &reading{Driver: k.d}
		k.w.Close()
		k.w = New(d, lease/3, slog.New(slog.DiscardHandler))
		const n = 2000
		for i := range n {
			length := 20*time.Second + time.Duration(i)*37*time.Millisecond
			h := script.LockRef{Key: fmt.Sprint("a", i), Owner: "me:1", Reads: fmt.Sprint("{a", i, "}:me:1")}
			k.w.Guard(&Watched{LockRef: h, Handler: new(keeper), Lease: length}, clock.Now(), 0)
		}
		time.Sleep(lease/3 + time.Second)
		d.mu.Lock()
		calls, most := d.calls, d.most
		d.mu.Unlock()
		if calls == 0 || calls > n/maxBatch+20 || most > 10 {
			t.Errorf("%d calls in up to %d pipelines at a time, for %d leases", calls, most, n)
		}
		time.Sleep(time.Hour)
	})
}

// answering answers late, and says what was true when it was asked.
type answering struct{ *fake.Driver }

func (d answering) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.DoMany(ctx, calls)
	time.Sleep(100 * time.Millisecond)
	return results
}

// An answer to what was asked before does not verify anything.
func TestVerifyDuringRenewal(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		in(t, func(k *rig) {
			k.w.Close()
			k.w = New(answering{k.d}, lease/3, slog.New(slog.DiscardHandler))
			c, user := k.guard("a", renewed)
			k.extend(c, time.Hour)
			time.Sleep(lease/3 + 50*time.Millisecond) // under way
			k.d.Delete("a")
			k.w.Verify("a")
			time.Sleep(time.Second)
			if why := user.reason(); why != NotOwner {
				t.Errorf("renewed %v: told %v", renewed, why)
			}
		})
	}
}

// picky refuses calls with certain keys.
type picky struct {
	*fake.Driver
	refuse map[string]string
}

func (d picky) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, c := range calls {
		results[i] = d.Driver.DoMany(ctx, calls[i:i+1])[0]
		for _, key := range c.Keys {
			if text := d.refuse[key]; text != "" {
				results[i] = driver.Result{Err: driver.ServerError(text)}
			}
		}
	}
	return results
}

// A key for which the server refuses the call costs no lease on another key.
func TestBadKeys(t *testing.T) {
	for _, text := range []string{
		"NOPERM No permissions to access a key",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR value is not an integer or out of range script: f, on @user_script:10.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
	} {
		in(t, func(k *rig) {
			k.w.Close()
			k.w = New(picky{k.d, map[string]string{"a7": text, "a77": text}}, lease/3, slog.New(slog.DiscardHandler))
			users := make(map[string]*keeper)
			for i := range 200 {
				name := fmt.Sprint("a", i)
				_, users[name] = k.guard(name, true)
			}
			before := k.d.Calls("renew")
			time.Sleep(time.Hour)
			for name, user := range users {
				bad := name == "a7" || name == "a77"
				if why := user.reason(); (why == Expired) != bad || why != 0 && !bad {
					t.Errorf("%s, %s: told %v", text, name, why)
				}
			}
			if n := k.d.Calls("renew") - before; n > 2*360+2000 {
				t.Errorf("%s: %d calls in an hour", text, n)
			}
		})
	}
}

// A server that refuses everything is not asked all the time.
func TestRefusedEverything(t *testing.T) {
	in(t, func(k *rig) {
		const n = 256
		for i := range n {
			k.guard(fmt.Sprint("a", i), true)
		}
		k.d.Fail(func(driver.Call) error { return driver.ServerError("NOPERM this user has no permissions") })
		before := k.d.Calls("renew")
		time.Sleep(lease)
		if calls := k.d.Calls("renew") - before; calls > 15*2*n {
			t.Errorf("%d calls for %d leases", calls, n)
		}
	})
}

// Close ends every lease that was taken into care before it, and none is taken
// after it.
func TestCloseIsAtomic(t *testing.T) {
	for range 200 {
		w := New(fake.New(), lease/3, slog.New(slog.DiscardHandler))
		const n = 8
		var watchedHeap [n]Watched
		var guarded [n]bool
		var wg sync.WaitGroup
		for i := range n {
			watchedHeap[i] = Watched{LockRef: script.LockRef{Key: "a", Owner: "me:1"}, Handler: new(keeper), Lease: lease}
			guard := func() { guarded[i] = w.Guard(&watchedHeap[i], clock.Now(), lease) }
			if i == 0 {
				guard() // one at least is in care
				continue
			}
			wg.Go(guard)
		}
		ended := w.Close()
		wg.Wait()
		for i := range n {
			c := &watchedHeap[i]
			if slices.Contains(ended, c) != guarded[i] {
				t.Fatalf("guarded: %v, ended by Close: %v", guarded[i], !guarded[i])
			}
			if c.Valid() {
				t.Fatal("valid after Close")
			}
		}
	}
}

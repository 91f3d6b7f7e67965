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

// extend extends a lease as Lease.Extend does.
func (r *rig) extend(c *Watched, d time.Duration) {
	r.t.Helper()
	sent := clock.Now()
	if held, err := script.Prolong(context.Background(), r.d, c.Ref, d); !held || err != nil {
		r.t.Fatal(held, err)
	}
	if !r.w.Extend(c, sent, d) {
		r.t.Fatal("not watched")
	}
}

// A promoted replica may have missed an extension. A lease counts as verified only
// when the new server keeps it at least until its deadline.
func TestFailoverOfExtended(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		in(t, func(r *rig) {
			r.d.Watch(r.w.Suspect)
			c, user := r.guard("a", renewed)
			r.extend(c, 5*time.Minute)
			time.Sleep(time.Second)
			r.d.Expire("a", 5*time.Second) // the replica has not received the extension
			r.d.FailOver()
			time.Sleep(time.Millisecond)
			if why := user.reason(); why != 0 {
				t.Fatalf("renewed %v: told %v", renewed, why)
			}
			claimed, kept := c.Deadline()-clock.Now(), r.d.Remaining("a")
			if kept < claimed {
				t.Errorf("renewed %v: the deadline is in %v, but the server keeps the lease for %v", renewed, claimed, kept)
			}
			if most := 5*time.Minute - time.Second; kept > most {
				t.Errorf("renewed %v: verifying has prolonged the lease to %v, more than %v", renewed, kept, most)
			}
		})
	}
}

// The holder of a fixed lease is told within one period that the server no longer
// keeps the lease, as the holder of a renewed lease is.
func TestFixedLeaseTakenAway(t *testing.T) {
	in(t, func(r *rig) {
		c, user := r.guard("a", false)
		r.extend(c, time.Hour)
		other, neighbour := r.guard("b", false)
		r.extend(other, time.Hour)
		time.Sleep(25 * time.Second)
		r.d.Delete("a")
		start := time.Now()
		time.Sleep(time.Minute)
		if why, at := user.told(); why != NotOwner || at.Sub(start) > lease/3+time.Second {
			t.Errorf("told %v after %v", why, at.Sub(start))
		}
		if why := neighbour.reason(); why != 0 {
			t.Errorf("the other lease: told %v", why)
		}
		time.Sleep(time.Hour - 90*time.Second)
		if left := r.d.Remaining("b"); left > 5*time.Second {
			t.Errorf("the verification has prolonged a lease: %v are left", left)
		}
	})
}

// The verification of fixed leases costs as much as the renewal of others: one call
// per batch and period.
func TestFixedLeasesAreCheap(t *testing.T) {
	in(t, func(r *rig) {
		const n, periods = 2000, 12
		for i := range n {
			c, _ := r.guard(fmt.Sprint("a", i), false)
			r.extend(c, time.Hour+time.Duration(i)*time.Second)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		before := r.d.Renewals()
		time.Sleep(periods * lease / 3)
		calls := r.d.Renewals() - before
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

// Fixed read leases of different lengths are verified in the same calls.
func TestVariedFixedReads(t *testing.T) {
	in(t, func(r *rig) {
		d := &reading{Driver: r.d}
		r.w.Close()
		r.w = New(d, lease/3, slog.New(slog.DiscardHandler))
		const n = 2000
		for i := range n {
			length := 20*time.Second + time.Duration(i)*37*time.Millisecond
			h := script.LockRef{Key: fmt.Sprint("a", i), Owner: "me:1", Reads: fmt.Sprint("{a", i, "}:me:1")}
			r.w.Guard(&Watched{Ref: h, Handler: new(lossRecorder), Lease: length}, clock.Now(), 0)
		}
		time.Sleep(lease/3 + time.Second)
		d.mu.Lock()
		calls, most := d.calls, d.most
		d.mu.Unlock()
		if calls == 0 || calls > n/maxBatch+20 || most > 10 {
			t.Errorf("%d calls in up to %d concurrent pipelines, for %d leases", calls, most, n)
		}
		time.Sleep(time.Hour)
	})
}

// lateReplies delivers every reply 100 ms after the server has made it.
type lateReplies struct{ *fake.Driver }

func (d lateReplies) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	results := d.Driver.DoMany(ctx, calls)
	time.Sleep(100 * time.Millisecond)
	return results
}

// A renewal that was sent before Verify does not verify the lease: the server is asked
// again.
func TestVerifyDuringRenewal(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		in(t, func(r *rig) {
			r.w.Close()
			r.w = New(lateReplies{r.d}, lease/3, slog.New(slog.DiscardHandler))
			c, user := r.guard("a", renewed)
			r.extend(c, time.Hour)
			time.Sleep(lease/3 + 50*time.Millisecond) // a renewal is under way
			r.d.Delete("a")
			r.w.Verify("a")
			time.Sleep(time.Second)
			if why := user.reason(); why != NotOwner {
				t.Errorf("renewed %v: told %v", renewed, why)
			}
		})
	}
}

// refusing refuses calls with certain keys.
type refusing struct {
	*fake.Driver
	refuse map[string]string
}

func (d refusing) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
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

// If the server refuses calls with one key, no lease on another key is lost.
func TestBadKeys(t *testing.T) {
	for _, text := range []string{
		"NOPERM No permissions to access a key",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR value is not an integer or out of range script: f, on @user_script:10.",
		"TRYAGAIN Multiple keys request during rehashing of slot",
	} {
		in(t, func(r *rig) {
			r.w.Close()
			r.w = New(refusing{r.d, map[string]string{"a7": text, "a77": text}}, lease/3, slog.New(slog.DiscardHandler))
			users := make(map[string]*lossRecorder)
			for i := range 200 {
				name := fmt.Sprint("a", i)
				_, users[name] = r.guard(name, true)
			}
			before := r.d.Renewals()
			time.Sleep(time.Hour)
			for name, user := range users {
				bad := name == "a7" || name == "a77"
				if why := user.reason(); (why == Expired) != bad || why != 0 && !bad {
					t.Errorf("%s, %s: told %v", text, name, why)
				}
			}
			if n := r.d.Renewals() - before; n > 2*360+2000 {
				t.Errorf("%s: %d calls in an hour", text, n)
			}
		})
	}
}

// A server that refuses all calls is asked less and less often.
func TestRefusedEverything(t *testing.T) {
	in(t, func(r *rig) {
		const n = 256
		for i := range n {
			r.guard(fmt.Sprint("a", i), true)
		}
		r.d.Fail(func(driver.Call) error { return driver.ServerError("NOPERM this user has no permissions") })
		before := r.d.Renewals()
		time.Sleep(lease)
		if calls := r.d.Renewals() - before; calls > 15*2*n {
			t.Errorf("%d calls for %d leases", calls, n)
		}
	})
}

// Close ends every lease that was guarded before it. Guard fails after Close.
func TestCloseIsAtomic(t *testing.T) {
	for range 200 {
		w := New(fake.New(), lease/3, slog.New(slog.DiscardHandler))
		const n = 8
		var leases [n]Watched
		var guarded [n]bool
		var wg sync.WaitGroup
		for i := range n {
			leases[i] = Watched{Ref: script.LockRef{Key: "a", Owner: "me:1"}, Handler: new(lossRecorder), Lease: lease}
			guard := func() { guarded[i], _ = w.Guard(&leases[i], clock.Now(), lease) }
			if i == 0 {
				guard() // at least one lease is guarded before Close
				continue
			}
			wg.Go(guard)
		}
		ended := w.Close()
		wg.Wait()
		for i := range n {
			c := &leases[i]
			if slices.Contains(ended, c) != guarded[i] {
				t.Fatalf("guarded: %v, ended by Close: %v", guarded[i], !guarded[i])
			}
			if c.Valid() {
				t.Fatal("valid after Close")
			}
		}
	}
}

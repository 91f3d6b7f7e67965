package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// After a failover, all leases are verified at once and in batches, also the fixed
// ones. Leases that the new server knows are kept. The holders of the others are told
// the reason.
func TestFailover(t *testing.T) {
	in(t, func(r *rig) {
		r.d.Watch(r.w.Suspect)
		var kept, lost []*lossRecorder
		for i := range 20 {
			_, a := r.guard(fmt.Sprint("kept", i), i%2 == 0)
			_, b := r.guard(fmt.Sprint("lost", i), i%2 == 0)
			kept, lost = append(kept, a), append(lost, b)
		}
		fixed, _ := r.guard("fixed", false)
		ends := fixed.Deadline()
		time.Sleep(time.Second)
		calls := r.d.Renewals()
		var gone []string
		for i := range 20 {
			gone = append(gone, fmt.Sprint("lost", i))
		}
		failed := time.Now()
		r.d.FailOver(gone...)
		time.Sleep(time.Millisecond)
		for i, user := range lost {
			if why, at := user.told(); why != Failover || at.Sub(failed) > time.Millisecond {
				t.Errorf("lost%d: told %v after %v", i, why, at.Sub(failed))
			}
		}
		for i, user := range kept {
			if why := user.reason(); why != 0 {
				t.Errorf("kept%d: told %v", i, why)
			}
		}
		if n := r.d.Renewals() - calls; n > 2 { // one for renewed leases, one for fixed ones
			t.Errorf("%d calls to verify, want at most 2", n)
		}
		if fixed.Deadline() != ends || r.d.Remaining("fixed") > lease-time.Second {
			t.Errorf("the verification has prolonged a lease, to %v", r.d.Remaining("fixed"))
		}
		time.Sleep(time.Hour) // the failover has no later effect
		if why := kept[0].reason(); why != 0 {
			t.Errorf("told %v", why)
		}
		if why := kept[1].reason(); why != Expired {
			t.Errorf("a fixed lease: told %v", why)
		}
	})
}

// A lease that ends at the server without a change of the term was not lost by
// failover.
func TestNotFailover(t *testing.T) {
	in(t, func(r *rig) {
		r.d.Watch(r.w.Suspect)
		_, user := r.guard("a", true)
		r.d.FailOver()
		time.Sleep(time.Minute)
		r.d.Delete("a")
		time.Sleep(time.Minute)
		if why := user.reason(); why != NotOwner {
			t.Errorf("told %v", why)
		}
	})
}

// If renewals need replicas, a renewal that too few replicas have does not count.
func TestShortOfReplicas(t *testing.T) {
	in(t, func(r *rig) {
		r.w.Require(2, time.Second, 0)
		r.d.Replicas(2)
		c, user := r.guard("a", true)
		time.Sleep(time.Hour + time.Second) // no renewal is under way: they are sent every ten seconds
		if why := user.reason(); why != 0 {
			t.Fatalf("told %v although all replicas are connected", why)
		}
		r.d.Replicas(1)
		before := c.Deadline()
		time.Sleep(lease / 2) // at least one renewal
		if c.Deadline() != before {
			t.Error("a renewal counts that too few replicas have")
		}
		time.Sleep(lease)
		if why := user.reason(); why != Unacked || c.Valid() {
			t.Errorf("told %v", why)
		}
	})
}

// The skew of the servers' clocks shortens every lease.
func TestSkew(t *testing.T) {
	in(t, func(r *rig) {
		plain, _ := r.guard("a", false)
		r.w.Require(0, 0, time.Second)
		skewed, _ := r.guard("b", false)
		if d := plain.Deadline() - skewed.Deadline(); d != time.Second {
			t.Errorf("a skew of a second shortens a lease by %v", d)
		}
		if r.w.InTime(clock.Now(), clock.Now()-lease+2*time.Second, lease) {
			t.Error("InTime ignores the skew")
		}
	})
}

// halfMoved refuses calls with more than one key, as a server does while it moves a
// slot to another node.
type halfMoved struct{ *fake.Driver }

func (d halfMoved) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, c := range calls {
		if len(c.Keys) > 1 {
			results[i].Err = driver.ServerError("TRYAGAIN Multiple keys request during rehashing of slot")
			continue
		}
		results[i] = d.Driver.DoMany(ctx, calls[i:i+1])[0]
	}
	return results
}

// No lease is lost while a slot is half moved.
func TestHalfMovedSlot(t *testing.T) {
	in(t, func(r *rig) {
		r.w.Close()
		r.w = New(halfMoved{r.d}, lease/3, slog.New(slog.DiscardHandler))
		var users []*lossRecorder
		for i := range 5 {
			_, user := r.guard(fmt.Sprint("a", i), true)
			users = append(users, user)
		}
		time.Sleep(time.Hour)
		for i, user := range users {
			if why := user.reason(); why != 0 {
				t.Errorf("lease %d: told %v", i, why)
			}
		}
	})
}

// A lease whose server was replaced between the grant and Guard is verified, even if
// it is not renewed.
func TestFailoverBeforeGuard(t *testing.T) {
	in(t, func(r *rig) {
		r.d.Watch(r.w.Suspect)
		sent := clock.Now()
		if _, err := script.Acquire(context.Background(), r.d, script.NewMutex("a"), script.Claim{Owner: "me:1", Count: 1, Lease: lease}); err != nil {
			t.Fatal(err)
		}
		term := r.d.Place("a").Term
		r.d.FailOver("a")
		user := new(lossRecorder)
		c := &Watched{Ref: script.LockRef{Key: "a", Owner: "me:1"}, Handler: user, Lease: lease, Term: term}
		r.w.Guard(c, sent, 0)
		time.Sleep(time.Second)
		if why := user.reason(); why != Failover {
			t.Errorf("told %v, valid: %v", why, c.Valid())
		}
	})
}

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

// After a failover all leases are verified at once and in one batch, the fixed
// ones, too: those that the new server knows are kept, and the holders of the
// others are told why.
func TestFailover(t *testing.T) {
	in(t, func(k *rig) {
		k.d.Watch(k.w.Suspect)
		var kept, lost []*keeper
		for i := range 20 {
			_, a := k.guard(fmt.Sprint("kept", i), i%2 == 0)
			_, b := k.guard(fmt.Sprint("lost", i), i%2 == 0)
			kept, lost = append(kept, a), append(lost, b)
		}
		fixed, _ := k.guard("fixed", false)
		ends := fixed.Deadline()
		time.Sleep(time.Second)
		calls := k.d.Calls("renew")
		var gone []string
		for i := range 20 {
			gone = append(gone, fmt.Sprint("lost", i))
		}
		failed := time.Now()
		k.d.FailOver(gone...)
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
		if n := k.d.Calls("renew") - calls; n > 2 { // those that are renewed, and those that are not
			t.Errorf("%d calls to verify", n)
		}
		if fixed.Deadline() != ends || k.d.Remaining("fixed") > lease-time.Second {
			t.Errorf("to be verified has prolonged a lease, to %v", k.d.Remaining("fixed"))
		}
		time.Sleep(time.Hour) // and is of no consequence later
		if why := kept[0].reason(); why != 0 {
			t.Errorf("told %v", why)
		}
		if why := kept[1].reason(); why != Expired {
			t.Errorf("a fixed lease: told %v", why)
		}
	})
}

// A lease that another took away in the same term was lost to him.
func TestNotFailover(t *testing.T) {
	in(t, func(k *rig) {
		k.d.Watch(k.w.Suspect)
		_, user := k.guard("a", true)
		k.d.FailOver()
		time.Sleep(time.Minute)
		k.d.Delete("a")
		time.Sleep(time.Minute)
		if why := user.reason(); why != NotOwner {
			t.Errorf("told %v", why)
		}
	})
}

// Where renewals need replicas, one that too few have heard of does not count.
func TestShortOfReplicas(t *testing.T) {
	in(t, func(k *rig) {
		k.w.Require(2, time.Second, 0)
		k.d.Replicas(2)
		c, user := k.guard("a", true)
		time.Sleep(time.Hour)
		if why := user.reason(); why != 0 {
			t.Fatalf("told %v although all replicas are there", why)
		}
		k.d.Replicas(1)
		before := c.Deadline()
		time.Sleep(lease / 2) // at least one renewal
		if c.Deadline() != before {
			t.Error("renewed by too few")
		}
		time.Sleep(lease)
		if why := user.reason(); why != Unacked || c.Valid() {
			t.Errorf("told %v", why)
		}
	})
}

// The skew of the servers' clocks shortens every lease.
func TestSkew(t *testing.T) {
	in(t, func(k *rig) {
		plain, _ := k.guard("a", false)
		k.w.Require(0, 0, time.Second)
		skewed, _ := k.guard("b", false)
		if d := plain.Deadline() - skewed.Deadline(); d != time.Second {
			t.Errorf("a skew of a second shortens a lease by %v", d)
		}
		if k.w.InTime(clock.Now()-lease+2*time.Second, lease) {
			t.Error("in time, although the clock of a server may be ahead")
		}
	})
}

// halfMoved refuses calls with more than one key, as a slot does that is on its
// way to another node.
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

// A slot that stays half-moved costs no lease.
func TestHalfMovedSlot(t *testing.T) {
	in(t, func(k *rig) {
		k.w.Close()
		k.w = New(halfMoved{k.d}, lease/3, slog.New(slog.DiscardHandler))
		var users []*keeper
		for i := range 5 {
			_, user := k.guard(fmt.Sprint("a", i), true)
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

// A lease whose server was replaced while it was being granted is verified,
// too, also if nobody renews it.
func TestFailoverBeforeGuard(t *testing.T) {
	in(t, func(k *rig) {
		k.d.Watch(k.w.Suspect)
		sent := clock.Now()
		if _, err := script.Acquire(context.Background(), k.d, script.NewMutex("a"), script.Claim{Owner: "me:1", Count: 1, Lease: lease}); err != nil {
			t.Fatal(err)
		}
		term := k.d.Place("a").Term
		k.d.FailOver("a")
		user := new(keeper)
		c := &Watched{LockRef: script.LockRef{Key: "a", Owner: "me:1"}, Handler: user, Lease: lease, Term: term}
		k.w.Guard(c, sent, 0)
		time.Sleep(time.Second)
		if why := user.reason(); why != Failover {
			t.Errorf("told %v, valid: %v", why, c.Valid())
		}
	})
}

package holdfast_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The permits of a lease are renewed together, and told of together.
func TestPermitsOfALease(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := open(t, s.URL(), steady)
	sem := c.LeasedSemaphore(name(t))
	if ok, err := sem.TrySet(t.Context(), 3, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	lease, err := sem.Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if ids := lease.Permits(); len(ids) != 2 || len(ids[0]) != 32 || ids[0] == ids[1] {
		t.Fatalf("ids %q", ids)
	}
	if _, err := sem.TryAcquire(lease.Context(), 2); !errors.Is(err, holdfast.ErrNotAcquired) || holdfast.Remaining(err) <= 0 {
		t.Fatalf("taken twice: %v", err)
	}
	time.Sleep(steady.WatchdogTimeout + aWhile)
	if !lease.Valid() {
		t.Fatal("not renewed")
	}
	if st, err := sem.State(t.Context()); st != (holdfast.PermitState{Available: 1, Taken: 2}) || err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	if err := sem.ReleaseIDs(t.Context(), lease.Permits()[0]); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told that a permit is gone")
	}
	if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Fatal(err)
	}
	// What was left of it is not renewed any more.
	eventually(t, 10*time.Second, "the second permit", func() bool {
		n, err := sem.Available(t.Context())
		return err == nil && n == 3
	})
}

// A lease of which one permit is gone is lost as a whole: the others come back
// at once, not when they would have ended.
func TestPermitsRestComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	c := open(t, s.URL(), holdfast.Options{RenewEvery: 100 * time.Millisecond}) // they would last for half a minute
	sem := permitsOf(t, c, 4)
	l := obtain(t, sem, 3)
	if err := sem.ReleaseIDs(t.Context(), l.Permits()[1]); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("not told")
	}
	eventually(t, 10*time.Second, "all permits are back", func() bool {
		st, err := sem.State(t.Context())
		return err == nil && st == holdfast.PermitState{Available: 4}
	})
}

package holdfast_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Leases are renewed although the server has no memory left: to renew needs
// none, and a mutex is renewed as well.
func TestPermitsRenewedWithoutMemory(t *testing.T) {
	t.Parallel()
	o := holdfast.Options{WatchdogTimeout: 5 * time.Second, RenewEvery: steady.RenewEvery}
	r := newPermitRig(t, o)
	permits, mutex := obtain(t, r.sem, 2), lock(t, t.Context(), r.c.Mutex("mutex"))
	r.s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	time.Sleep(o.WatchdogTimeout + time.Second)
	for what, l := range map[string]*holdfast.Lease{"mutex": mutex, "permits": permits} {
		if !l.Valid() {
			t.Errorf("%s: %v", what, context.Cause(l.Context()))
		}
		_ = l.Release(t.Context())
	}
	r.s.Do(t, "CONFIG", "SET", "maxmemory", "0")
}

// A copier is a driver that can send the last request for permits once more, as
// happens to one that was sent twice and late on its way.
type copier struct {
	driver.Driver
	mu   sync.Mutex
	last driver.Call
}

func (c *copier) Do(ctx context.Context, call driver.Call) (driver.Reply, error) {
	if call.Script.Name == "leased_acquire" {
		c.mu.Lock()
		c.last = call
		c.mu.Unlock()
	}
	return c.Driver.Do(ctx, call)
}

func (c *copier) again(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	call := c.last
	c.mu.Unlock()
	if _, err := c.Driver.Do(t.Context(), call); err != nil {
		t.Fatal(err)
	}
}

func newCopier(t *testing.T, s *redistest.Server) (*copier, *holdfast.Client) {
	t.Helper()
	settings, err := rueidis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	d, err := rueidis.Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	twice := &copier{Driver: d}
	c, err := holdfast.New(twice, holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Async}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return twice, c
}

// A late copy of the request does not shorten a lease that was extended
// meanwhile, so that nobody else gets in while its holder is sure of it.
func TestPermitsLateCopyOfExtended(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	twice, c := newCopier(t, s)
	sem := permitsOf(t, c, 1)
	const lease = 3 * time.Second
	l := obtain(t, sem, 1, holdfast.LeaseTime(lease))
	if err := l.Extend(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	twice.again(t)
	got, err := open(t, s.URL()).LeasedSemaphore(sem.Name()).TryAcquire(t.Context(), 1, holdfast.Wait(lease+time.Second))
	if err == nil {
		t.Errorf("both are valid: %v and %v", l.Valid(), got.Valid())
		release(t, got)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A late copy of the request does not take a permit that was given back
// meanwhile without counting it.
func TestPermitsLateCopyOfDivided(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	twice, c := newCopier(t, s)
	for back := range 2 {
		sem := permitsOf(t, c, 3)
		l := obtain(t, sem, 2)
		if err := sem.ReleaseIDs(t.Context(), l.Permits()[back]); err != nil {
			t.Fatal(err)
		}
		twice.again(t)
		st, err := sem.State(t.Context())
		if st.Available+st.Taken != 3 || err != nil {
			t.Errorf("permit %d given back: %+v, %v; want three in all", back, st, err)
		}
		_ = l.Release(t.Context())
		wantPermits(t, sem, 3, 0)
	}
}

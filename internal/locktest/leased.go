package locktest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// NewLeasedSemaphore returns a semaphore with that many permits and a name that no
// other test uses.
func NewLeasedSemaphore(tb testing.TB, c *holdfast.Client, permits int) *holdfast.LeasedSemaphore {
	tb.Helper()
	sem := c.LeasedSemaphore(Name(tb))
	if set, err := sem.TrySet(context.Background(), permits, 0); !set || err != nil {
		tb.Fatalf("TrySet: %v, %v", set, err)
	}
	return sem
}

// Obtain acquires permits, or ends the test.
func Obtain(tb testing.TB, sem *holdfast.LeasedSemaphore, permits int, opts ...holdfast.LockOption) *holdfast.Lease {
	tb.Helper()
	return Lock(tb, context.Background(), sem.Locker(permits), opts...)
}

// WantPermits checks how many permits are available, and how many are taken.
func WantPermits(tb testing.TB, sem *holdfast.LeasedSemaphore, available, taken int) {
	tb.Helper()
	st, err := sem.State(context.Background())
	if want := (holdfast.PermitState{Available: available, Taken: taken}); st != want || err != nil {
		tb.Errorf("%+v, %v; want %+v", st, err, want)
	}
	if n, err := sem.Available(context.Background()); n != available || err != nil {
		tb.Errorf("%d available, %v; want %d", n, err, available)
	}
}

// AwaitPermits waits until as many permits are available and taken.
func AwaitPermits(tb testing.TB, sem *holdfast.LeasedSemaphore, available, taken int) {
	tb.Helper()
	Eventually(tb, 20*time.Second, fmt.Sprintf("%d permits are available, and %d taken", available, taken), func() bool {
		st, err := sem.State(context.Background())
		return err == nil && st == holdfast.PermitState{Available: available, Taken: taken}
	})
}

// PermitExpiry returns when the lease of a permit ends, in milliseconds of the
// server's clock. It returns 0 if the server does not know the permit.
func PermitExpiry(tb testing.TB, s *redistest.Server, sem *holdfast.LeasedSemaphore, id string) int64 {
	tb.Helper()
	raw := make([]byte, 16)
	for i := range raw {
		n, err := strconv.ParseUint(id[2*i:2*i+2], 16, 8)
		if err != nil {
			tb.Fatal(err)
		}
		raw[i] = byte(n)
	}
	score, ok := s.Do(tb, "ZSCORE", "{"+sem.Name()+"}:timeout", string(raw)).(string)
	if !ok {
		return 0
	}
	end, err := strconv.ParseInt(score, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return end
}

// JavaForever is the score of a permit that Redisson holds without a lease time.
const JavaForever = 922337203685477

// JavaTakes writes what Redisson writes when it acquires a permit.
func JavaTakes(tb testing.TB, s *redistest.Server, sem *holdfast.LeasedSemaphore, id string, ends int64) {
	tb.Helper()
	s.Do(tb, "DECRBY", sem.Name(), "1")
	s.Do(tb, "ZADD", "{"+sem.Name()+"}:timeout", fmt.Sprint(ends), id)
}

// A LeasedRig is a semaphore with three permits on a client whose replies can be
// lost.
type LeasedRig struct {
	Rig
	Sem *holdfast.LeasedSemaphore
	Far *holdfast.LeasedSemaphore // the same semaphore, in another client that bypasses the proxy
}

// NewLeasedRig returns a rig whose server knows the scripts.
func NewLeasedRig(t *testing.T, o ...holdfast.Options) *LeasedRig {
	t.Helper()
	r := &LeasedRig{Rig: NewRig(t, redistest.Start(t), "", o...)}
	r.Sem, r.Far = r.Client.LeasedSemaphore("rig"), Open(t, Enduring(r.Server.URL()), o...).LeasedSemaphore("rig")
	for range 2 { // so that the server knows the scripts
		if _, err := r.Sem.TrySet(t.Context(), 3, 0); err != nil {
			t.Fatal(err)
		}
		l := Obtain(t, r.Sem, 1, holdfast.LeaseTime(time.Minute))
		for _, err := range []error{
			l.Extend(t.Context(), time.Minute), r.Sem.Add(t.Context(), 0), r.Sem.Set(t.Context(), 3),
			r.Sem.ReleaseIDs(t.Context(), Obtain(t, r.Sem, 1).PermitIDs()...),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		Release(t, l)
	}
	r.Has(t, 3, 0)
	return r
}

// Has checks how many free permits and how many leases the server has. It reads
// the keys themselves, not what a client makes of them.
func (r *LeasedRig) Has(t *testing.T, free, leases int64) {
	t.Helper()
	if n := r.Server.Int(t, "GET", "rig"); n != free {
		t.Errorf("%d free, want %d", n, free)
	}
	if n := r.Server.Int(t, "ZCARD", "{rig}:timeout"); n != leases {
		t.Errorf("%d leases, want %d", n, leases)
	}
}

// Back waits until all permits are free and no lease is left.
func (r *LeasedRig) Back(t *testing.T) {
	t.Helper()
	Eventually(t, 10*time.Second, "all permits are back", func() bool {
		return r.Server.Int(t, "GET", "rig") == 3 && r.Server.Int(t, "EXISTS", "{rig}:timeout") == 0
	})
}

// Settled checks that exactly the three permits become free again.
func (r *LeasedRig) Settled(t *testing.T) {
	t.Helper()
	Eventually(t, 10*time.Second, "all are free", func() bool {
		st, err := r.Far.State(t.Context())
		return err == nil && st == holdfast.PermitState{Available: 3}
	})
	Release(t, Obtain(t, r.Far, 3, holdfast.LeaseTime(time.Minute))) // removes expired leases
	// A request that its caller gave up may arrive only now, and is undone then.
	r.Back(t)
}

// Awake waits until a waiter for permits of the rig has subscribed and has looked
// once more.
func (r *LeasedRig) Awake(t *testing.T) {
	t.Helper()
	AwaitListener(t, r.Server, "redisson_sc:{rig}")
	time.Sleep(100 * time.Millisecond)
}

// LastExpiry returns when the last lease ends, in milliseconds of the server's
// clock.
func (r *LeasedRig) LastExpiry(t *testing.T) int64 {
	t.Helper()
	return r.Server.Int(t, "EVAL", "return redis.call('zrange', KEYS[1], -1, -1, 'withscores')[2]", "1", "{rig}:timeout")
}

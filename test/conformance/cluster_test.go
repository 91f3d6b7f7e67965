package conformance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are those that Redisson runs in a cluster only. Like
// all of [redistest.Shared] they run in every topology.

// spread returns n names. In a cluster, different masters keep the first ones.
func spread(tb testing.TB, n int) []string {
	tb.Helper()
	var names []string
	for len(names) < n {
		next := locktest.Name(tb)
		if third := redistest.SlotOf(next) * 3 / (1 << 14); len(names) >= 3 || third == len(names) {
			names = append(names, next)
		}
	}
	return names
}

// everyReplica is what a client asks for whose locks must be on all replicas,
// if there are any.
func everyReplica() holdfast.Options {
	o := holdfast.Options{Replication: holdfast.Replication{Mode: holdfast.Async}}
	if redistest.Topology() != "single" {
		o.Replication = holdfast.Replication{Mode: holdfast.Strict, Replicas: redistest.Replicas, Timeout: 5 * time.Second}
	}
	return o
}

func TestCM20ThreeRounds(t *testing.T) {
	locktest.Each(t, "PFSGRW", func(t *testing.T, k locktest.Kind) {
		s := redistest.Shared(t)
		a, b := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
		for _, n := range spread(t, 3) {
			m, seen, rival := k.Make(a, n), k.Make(b, n), k.Rival(b, n)
			state := func(step string, isLocked bool, holders int) {
				t.Helper()
				_, count := look(t, seen)
				if locktest.Locked(t, m) != isLocked || locktest.Locked(t, seen) != isLocked || count != holders {
					t.Errorf("%s: locked %v, seen by others as locked %v with %d holds", step, locktest.Locked(t, m), locktest.Locked(t, seen), count)
				}
				if keys := s.Int(t, "EXISTS", n); (keys == 1) != isLocked {
					t.Errorf("%s: %d keys", step, keys)
				}
			}
			for range 3 {
				state("before Lock", false, 0)
				l := locktest.Lock(t, t.Context(), m)
				state("after Lock", true, 1)
				locktest.WantRefused(t, rival)
				locktest.Release(t, l)
				state("after Release", false, 0)
				locktest.WantFree(t, rival)
			}
		}
	})
}

func TestPL05QuickRounds(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL())
	for _, n := range spread(t, 5) {
		for range 30 {
			locktest.WantFree(t, c.Mutex(n))
		}
	}
}

func TestRW05BothSides(t *testing.T) {
	s := redistest.Shared(t)
	c, other := locktest.Open(t, s.URL()), locktest.Open(t, s.URL())
	for _, n := range spread(t, 3) {
		m, far := c.RWMutex(n), other.RWMutex(n)
		sides := func(step string, writing, reading bool) {
			t.Helper()
			if locktest.Locked(t, far) != writing || locktest.Locked(t, locktest.Readers(far)) != reading {
				t.Errorf("%s: locked for writing %v, for reading %v", step, locktest.Locked(t, far), locktest.Locked(t, locktest.Readers(far)))
			}
		}
		for range 3 {
			write := locktest.Lock(t, t.Context(), m)
			sides("written", true, false)
			read := locktest.Lock(t, write.Context(), m.RLocker())
			sides("written and read", true, true)
			locktest.WantRefused(t, far.RLocker())
			locktest.Release(t, write)
			sides("read", false, true)
			locktest.WantFree(t, far.RLocker())
			locktest.WantRefused(t, far)
			locktest.Release(t, read)
			sides("given back", false, false)
			locktest.WantFree(t, far)
		}
		if left := s.Int(t, "EXISTS", n, "{"+n+"}:rwlock_timeout"); left != 0 {
			t.Errorf("%d keys left", left)
		}
	}
}

// Redisson's test has a mapper of names; here names are what the caller makes
// of them.
func TestPE01OnEveryReplica(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Shared(t).URL(), everyReplica())
	for _, n := range spread(t, 3) {
		sem := c.LeasedSemaphore(fmt.Sprintf("Test:{%s}:permits", n))
		if set, err := sem.TrySet(t.Context(), 2, 0); !set || err != nil {
			t.Fatalf("TrySet: %v, %v", set, err)
		}
		for range 3 {
			l := locktest.Obtain(t, sem, 1)
			locktest.WantPermits(t, sem, 1, 1)
			locktest.Release(t, l)
			locktest.WantPermits(t, sem, 2, 0)
		}
	}
}

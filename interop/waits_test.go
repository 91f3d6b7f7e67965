package interop_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// A waiter for a lock of the other side acquires it with its lease time if the lock is free in
// time. Otherwise it stops waiting after its wait time.
func TestBoundedWaits(t *testing.T) {
	t.Parallel()
	eachOwned(t, func(t *testing.T, release interop.Release, k kind) {
		r := newFixture(t, release)
		r.bothWays(t, k, func(t *testing.T, name string, first, second party) {
			first.Lock(t, 0)
			const lease = 20 * time.Second
			entered := make(chan bool, 1)
			r.background(t, k, name, []party{second}, func(tb testing.TB, p party) { entered <- p.TryLock(tb, 20*time.Second, lease) })
			first.Unlock(t)
			select {
			case ok := <-entered:
				if ttl := r.ttl(t, name); !ok || ttl > lease || ttl < lease-slack {
					t.Fatalf("entered: %v, for %v", ok, ttl)
				}
				r.wantHolder(t, name, second.Owner(t), 1)
				second.Unlock(t)
			case <-time.After(2 * slack):
				t.Fatal("still waiting for a free lock")
			}

			first.Lock(t, 0)
			for _, wait := range []time.Duration{0, time.Second} {
				began := redistest.Now()
				if second.TryLock(t, wait, 0) {
					t.Fatal("both hold the lock")
				}
				// Redisson counts whole milliseconds of the wall clock.
				if took := time.Duration(redistest.Now() - began); took < wait-10*time.Millisecond || took > wait+slack {
					t.Errorf("it waited for %v, want %v", took, wait)
				}
			}
			if p, ok := second.(*javaParty); ok && p.lock.do(t, p.thread, "tryLock").Bool() {
				t.Fatal("both hold the lock")
			}
			r.wantHolder(t, name, first.Owner(t), 1)
			first.Unlock(t)
		})
	})
}

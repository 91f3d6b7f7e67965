package interop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
	goobject "github.com/holdfast-go/holdfast/object"
)

// move moves the slot of a name to another master and returns that master.
func (f *clusterFleet) move(tb testing.TB, name string) *redistest.Server {
	tb.Helper()
	f.moving.Lock()
	defer f.moving.Unlock()
	from := f.MasterOf(name)
	for _, to := range f.Masters() {
		if to != from {
			f.Migrate(redistest.SlotOf(name), to)
			return to
		}
	}
	tb.Fatal("there is no other master")
	return nil
}

// A slot moves while clients wait. The server then ends sharded subscriptions, and Redisson
// does not subscribe again: its waiters wake up at the end of the lease that they have
// seen, or never. All other waiters get the message. (Afterwards this client of Redisson is
// not reliable: later calls of lock may throw a RedisTimeoutException. Therefore the test
// uses its own client.)
func (f *clusterFleet) movedWaiters(t *testing.T) {
	t.Parallel()
	var all []*handover
	for _, c := range [][2]string{{"AUTO", "auto"}, {"OFF", "off"}, {"era", "off"}} {
		all = append(all, handovers(t, c[0], c[1], f.join(t, c[0], fleetLease), f.golang[c[1]])...)
	}
	beginAll(t, f.Nodes(), all)
	moved := make(map[*handover]*redistest.Server)
	for _, h := range all {
		moved[h] = f.move(t, h.name)
	}
	hears := func(h *handover) bool { return h.javaFirst || plain[h.java] }
	locktest.Eventually(t, 30*time.Second, "they subscribe to the new masters", func() bool {
		for _, h := range all {
			if hears(h) && !listening(t, moved[h])[h.name] {
				return false
			}
		}
		return true
	})
	pass(t, all)
	for _, h := range all {
		took, ok := h.took(t, fleetLease+slack)
		if ok != (hears(h) || h.looks) || hears(h) && took > told {
			t.Errorf("%v: after %v (%v)", h, took, ok)
		}
	}
}

// The slot moves back and forth while clients take turns.
func (f *clusterFleet) movedTurns(t *testing.T) {
	t.Parallel()
	for _, k := range []string{"mutex", "fair", "write"} {
		t.Run(k, func(t *testing.T) {
			t.Parallel()
			n := name(t)
			parties := count(f.party(t, "OFF", kindOf(k), n), f.party(t, "off", kindOf(k), n))
			t.Log(takeTurns(t, n, parties, func(parties []*counted) {
				for range 3 {
					f.move(t, n)
					awaitVisits(parties, 5, 50)
				}
			}))
		})
	}
}

// While a slot is migrating, Go can release its locks in it. Redisson cannot: the current
// release retries until it can, the release of 2020 throws the error.
func (f *clusterFleet) halfMoved(t *testing.T) {
	t.Parallel()
	f.moving.Lock()
	defer f.moving.Unlock()
	tag := "{" + name(t) + "}"
	mutex := kindOf("mutex")
	golang, java, era := newGo(f.golang["auto"], mutex, tag+"go"), f.party(t, "OFF", mutex, tag+"java"), f.java["era"].get(t, "getLock", tag+"era")
	golang.Lock(t, 0)
	java.Lock(t, 0)
	era.do(t, tag, "lock")
	to := f.Masters()[0]
	if to == f.MasterOf(tag) {
		to = f.Masters()[1]
	}
	migration := f.BeginMigration(redistest.SlotOf(tag), to)
	golang.Unlock(t)
	if err := era.Do(tag, "unlock").Err(); err == nil || !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("Redisson of 2020: %v", err)
	}
	unlocked := make(chan int64)
	go func() { unlocked <- java.Unlock(t) }()
	migration.Finish()
	era.do(t, tag, "unlock") // soon: it is not renewed after the exception
	<-unlocked
	for _, n := range []string{"go", "java", "era"} {
		if !newGo(f.golang["auto"], mutex, tag+n).TryLock(t, 0, time.Minute) {
			t.Errorf("%s is still locked", n)
		}
	}
}

// Both sides renew two hundred locks in many slots, also while some slots move. Redisson
// renews slot by slot, so the lease is long enough for that.
func (f *clusterFleet) many(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	ctx := context.Background()
	golang := open(t, f.URL(), holdfast.Options{WatchdogTimeout: lease})
	type side struct {
		client *redisson
		locks  []object
		names  []string
	}
	var java []*side
	for _, mode := range []string{"AUTO", "era"} {
		s := &side{client: f.join(t, mode, lease)}
		for range 50 {
			n := name(t)
			s.names, s.locks = append(s.names, n), append(s.locks, s.client.get(t, "getLock", n))
		}
		java = append(java, s)
	}
	all := func(s *side, method string, args ...any) {
		t.Helper()
		c := interop.Call{Thread: t.Name(), Times: 1}
		for _, l := range s.locks {
			c.Calls = append(c.Calls, l.Call("", method, args...))
		}
		good(t, s.client.Peer().Do(c))
	}
	var leases []*holdfast.Lease
	for range 100 {
		l, err := golang.Mutex(name(t)).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	for _, s := range java {
		all(s, "lock")
	}
	for _, n := range []string{leases[0].Name(), java[0].names[0], java[1].names[0]} {
		f.move(t, n)
	}
	names := slices.Concat(java[0].names, java[1].names)
	for _, l := range leases {
		names = append(names, l.Name())
	}
	// expiry returns when a lock expires, at least and at most.
	expiry := func(n string) (least, most time.Time) {
		t.Helper()
		before := time.Now()
		left, err := goobject.Of(golang.Mutex(n)).TTL(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return before.Add(left), time.Now().Add(left)
	}
	for range 2 {
		before := make([]time.Time, len(names))
		for i, n := range names {
			_, before[i] = expiry(n)
		}
		for i, n := range names {
			locktest.Eventually(t, 3*lease, n+" is renewed", func() bool {
				now, _ := expiry(n)
				return now.After(before[i].Add(lease / 9))
			})
		}
	}
	for _, s := range java {
		for _, n := range s.names {
			if _, err := golang.Mutex(n).TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("%s, which Java holds: %v", n, err)
			}
		}
	}
	for _, l := range leases {
		if err := l.Release(ctx); err != nil {
			t.Errorf("%s: %v", l.Name(), err)
		}
	}
	for _, s := range java {
		all(s, "unlock") // fails unless it holds them
	}
}

package topology_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A strict lock needs all replicas: with one of them cut off nothing is granted,
// and what was granted at the master only is released; what was held before
// is lost in time. All is well again as soon as the replica is.
func TestStrictRefusesAndGivesBack(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{strict(2)}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		master, replica := s.Master(), s.Replicas()[0]
		const lease = 10 * time.Second // which one of them is to lose
		c := w.open(leaseTime(lease))
		free := func() {
			l, err := c.Mutex("new").Lock(context.Background(), holdfast.Wait(20*time.Second))
			if err != nil {
				w.Fatal(err)
			}
			_ = l.Release(context.Background())
		}
		free()
		faults := []struct {
			name      string
			do, undo  func()
			holderToo bool
		}{
			{"paused", replica.Pause, replica.Resume, false},
			{"gone", func() {
				s.Refuse(side{master}, side{replica})
				w.eventually(10*time.Second, "the master misses it", func() bool {
					return strings.Contains(master.Do(w, "INFO", "replication").(string), "connected_slaves:1")
				})
			}, s.Heal, false},
			{"cut", func() { s.Partition(side{master}, side{replica}) }, s.Heal, true},
		}
		for _, fault := range faults {
			holding := c
			if !fault.holderToo {
				holding = w.open(long)
			}
			h := w.keep(holding, "held-"+fault.name)
			fault.do()
			r := w.rival(w.open(), "held-"+fault.name)
			w.notReplicated(c.Mutex("new"))
			w.notReplicated(w.open().Mutex("new"))
			w.eventually(slack, "the lock is released at the master", func() bool { return master.Int(w, "EXISTS", "new") == 0 })
			if fault.holderToo {
				h.lost(lease+slack, holdfast.LossUnreplicated)
				h.inTime()
				if r.in() {
					w.errorf("a strict lock was granted without all replicas")
				}
			}
			fault.undo()
			s.AwaitReplicas(2)
			back := time.Now()
			if !fault.holderToo {
				h.kept()
			}
			r.await(back.Add(time.Second))
			r.after(h)
			r.release()
			free()
		}
		empty(f[0], master)
	}, redistest.WithPartitions())
}

// A strict lease that an extension has prolonged at the master only is lost by
// its old deadline, also though its renewals find nothing to prolong there.
func TestStrictExtendedAtMasterOnly(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{strict(2)}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		master, replica := s.Master(), s.Replicas()[0]
		const lease = 6 * time.Second
		c := w.open(leaseTime(lease))
		var wg sync.WaitGroup
		for i := range 4 { // so that there are some connections to choose from
			wg.Go(func() {
				if l, err := c.Mutex(string(rune('a' + i))).Lock(context.Background()); err == nil {
					_ = l.Release(context.Background())
				}
			})
		}
		wg.Wait()
		h := w.keep(c, "held")
		s.Partition(side{master}, side{replica})
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := h.Extend(ctx, time.Minute); !errors.Is(err, holdfast.ErrUnavailable) {
			w.errorf("extended without all replicas: %v", err)
		}
		h.lost(lease+slack, holdfast.LossUnreplicated)
		h.inTime()
		s.Heal()
		empty(f[0], master)
	}, redistest.WithPartitions())
}

// kinds are locks of every kind, by their names.
func kinds(w *world, c *holdfast.Client) map[string]holdfast.Locker {
	w.Helper()
	permits := c.LeasedSemaphore("{k}permits")
	if _, err := permits.TrySet(w.Context(), 3, 0); err != nil {
		w.Fatal(err)
	}
	return map[string]holdfast.Locker{
		"mutex":   c.Mutex("{k}mutex"),
		"fenced":  c.FencedMutex("{k}fenced"),
		"fair":    c.FairMutex("{k}fair"),
		"write":   c.RWMutex("{k}write"),
		"read":    c.RWMutex("{k}read").RLocker(),
		"multi":   holdfast.MultiLocker(c.Mutex("{k}multi-1"), c.Mutex("{k}multi-2")),
		"sets":    holdfast.MultiLocker(c.Mutex("{k}set-1"), c.RWMutex("{k}set-2").RLocker()),
		"permits": permits.Locker(2),
	}
}

// What holds for a mutex holds for all kinds of locks: a grant that too few
// replicas have does not count and is released, and what the replicas have
// survives their master.
func TestStrictKinds(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{strict(2)}, func(f fleet) {
		f.patient()
		w, s, old := f[0], f.sentinels(), f.master()
		c := w.openAt(with(w.url, "timeout=10s"), lasting) // a try without an answer may hold its lock for a while
		locks := kinds(w, c)
		lead := c.Election("{k}election")
		base := old.Keys(w)

		s.Partition(side{old}, side{s.Replicas()[0]})
		for _, l := range locks {
			w.notReplicated(l)
		}
		redistest.MeterStalls(w, old).Rounds(w, 500*time.Millisecond, func() error {
			_, err := lead.TryCampaign(w.Context(), "me")
			if err == nil {
				w.Fatal("election: won without all replicas")
			}
			if !errors.Is(err, holdfast.ErrNotReplicated) {
				return fmt.Errorf("election: too few replicas have heard of it, and yet: %w", err)
			}
			return nil
		})
		var left []string
		w.eventually(3*slack, "all are released", func() bool {
			left = old.Keys(w)
			n := len(left)
			for _, key := range left {
				if strings.HasPrefix(key, "redisson_lock_token:") || strings.Contains(key, "permits") || strings.Contains(key, "term") {
					n--
				}
			}
			return n <= 0
		})
		w.Logf("keys before %q, after %q", base, left)
		s.Heal()
		s.AwaitReplicas(2)

		holders := make(map[string]*holder)
		for kind, l := range locks {
			lease, err := l.Lock(w.Context())
			if err != nil {
				w.Fatalf("%s: %v", kind, err)
			}
			holders[kind] = w.watch(lease)
		}
		f.watchful()
		old.Kill()
		master, _ := s.AwaitMaster(old)
		f.patient() // one failover is enough
		old.Restart()
		s.AwaitReplicas(2)
		w.follows(c, master)
		other := kinds(w, w.open())
		for kind, h := range holders {
			if _, err := other[kind].TryLock(w.Context()); kind != "read" && !errors.Is(err, holdfast.ErrNotAcquired) {
				w.errorf("%s: held, and another may have it: %v", kind, err)
			}
			before := h.Token()
			h.kept()
			next, err := other[kind].Lock(w.Context())
			if err != nil {
				w.Fatalf("%s: %v", kind, err)
			}
			if kind != "read" && kind != "permits" && before > 0 && next.Token() <= before {
				w.errorf("%s: the token went from %d to %d", kind, before, next.Token())
			}
			if err := next.Release(w.Context()); err != nil {
				w.errorf("%s: %v", kind, err)
			}
		}
	}, redistest.WithPartitions())
}

// To wait for replicas may take longer than a server normally has to answer.
func TestStrictPatience(t *testing.T) {
	t.Parallel()
	mode := holdfast.Replication{Mode: holdfast.Strict, Replicas: 2, Timeout: 8 * time.Second}
	inSentinels(t, []holdfast.Replication{mode}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		c := w.open(lasting)
		before := w.keep(c, "before")
		replica := s.Replicas()[0]
		redistest.Outage(4*time.Second, replica.Pause, replica.Resume)
		start := time.Now()
		l, err := c.Mutex("new").TryLock(context.Background())
		if err != nil {
			w.Fatalf("the replica was back after 4s, and after %v: %v", time.Since(start), err)
		}
		_ = l.Release(context.Background())
		before.kept()
	})
}

// The user may not wait for replicas: that is refused at once, and says what is
// missing.
func TestStrictWithoutWait(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{acked, strict(2)}, func(f fleet) {
		f.patient()
		for _, w := range f {
			start := time.Now()
			hasty := func(o *holdfast.Options) { o.RetryTimeout = 5 * time.Second }
			_, err := w.open(hasty).Mutex(w.key("new")).Lock(context.Background())
			if !errors.Is(err, holdfast.ErrRefused) || !strings.Contains(err.Error(), "wait") {
				w.errorf("after %v: %v", time.Since(start), err)
			}
		}
		empty(f[0], f.master())
	}, redistest.WithUser("app", "pw", "~*", "&*", "+@all", "-wait"))
}

// The server says that the owner does not hold the lock: its holder is told at
// once, also while replicas are missing.
func TestStrictNotOwnerWhileShort(t *testing.T) {
	t.Parallel()
	inSentinels(t, []holdfast.Replication{strict(2)}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		h := w.keep(w.open(leaseTime(30*time.Second)), "held")
		replica := s.Replicas()[0]
		replica.Pause()
		s.Master().Do(w, "DEL", h.Name())
		h.lost(500*time.Millisecond+2*slack, holdfast.LossNotOwner)
		replica.Resume()
	})
}

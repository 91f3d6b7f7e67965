package matrix_test

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

// notReplicated checks that a lock is refused for want of replicas. A try that
// the master has not answered says nothing about that.
func (w *world) notReplicated(m holdfast.Locker) {
	w.Helper()
	redistest.MeterStalls(w, w.master("")).Rounds(w, 500*time.Millisecond, func() error {
		l, err := m.TryLock(context.Background())
		if err == nil {
			_ = l.Release(context.Background())
			w.errorf("too few replicas have heard of %q, and yet it was granted", l.Name())
			return nil
		}
		if !errors.Is(err, holdfast.ErrNotReplicated) || !errors.Is(err, holdfast.ErrUnavailable) {
			return fmt.Errorf("%v: too few replicas have heard of it, and yet: %w", w.mode.Mode, err)
		}
		return nil
	})
}

// never has the Sentinels never promote a replica.
func (f fleet) never(replica *redistest.Server) {
	s := f.sentinels()
	replica.Do(f[0], "CONFIG", "SET", "replica-priority", "0")
	for _, watcher := range s.Sentinels() {
		f[0].eventually(30*time.Second, "the Sentinels know of the priority", func() bool {
			n := 0
			list, _ := watcher.Do(f[0], "SENTINEL", "REPLICAS", s.MasterName()).([]any)
			for _, e := range list {
				words, _ := e.([]any)
				for i := 0; i+1 < len(words); i += 2 {
					if words[i] == "slave-priority" && words[i+1] == "0" {
						n++
					}
				}
			}
			return n == 1
		})
	}
}

// The master is killed when the replica that will take over has not heard of a
// grant. In mode Strict that was none.
func TestRow18WriteNotOnPromoted(t *testing.T) {
	t.Parallel()
	inFleet(t, modes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		chosen, other := s.Replicas()[0], s.Replicas()[1]
		f.never(other)
		var before, cut []*holder
		for _, w := range f {
			before = append(before, w.keep(w.open(func(o *holdfast.Options) { o.WatchdogTimeout = time.Minute }), w.key("before")))
		}
		s.Partition(side{old}, side{chosen})
		for _, w := range f {
			c := w.open(func(o *holdfast.Options) { o.WatchdogTimeout = time.Minute })
			if w.strictly() {
				w.notReplicated(c.Mutex(w.key("cut")))
			} else {
				cut = append(cut, w.keep(c, w.key("cut")))
			}
		}
		f.watchful()
		old.Kill()
		master, took := s.AwaitMaster(old)
		f.patient() // one failover is enough
		if master != chosen {
			f[0].Fatal("another replica was promoted")
		}
		f[0].Logf("the failover took %v", took)
		for _, h := range cut {
			h.lost(slack, holdfast.LossFailover)
		}
		s.Heal()
		old.Restart()
		s.AwaitReplicas(2)
		attached := time.Now()
		for _, w := range f {
			r := w.rival(w.open(), w.key("cut"))
			r.await(attached.Add(time.Second))
			r.release()
		}
		for _, h := range before {
			h.kept()
		}
		empty(f[0], master)
	}, redistest.WithPartitions())
}

// A strict lock needs all replicas: with one of them cut off nothing is granted,
// and what was granted at the master only is given back; what was held before
// is lost in time. All is well again as soon as the replica is.
func TestStrictRefusesAndGivesBack(t *testing.T) {
	t.Parallel()
	inFleet(t, []holdfast.Replication{strict(2)}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		master, replica := s.Master(), s.Replicas()[0]
		const lease = 10 * time.Second // which one of them is to lose
		c := w.open(func(o *holdfast.Options) { o.WatchdogTimeout = lease })
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
			w.eventually(slack, "the lock is given back at the master", func() bool { return master.Int(w, "EXISTS", "new") == 0 })
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
	inFleet(t, []holdfast.Replication{strict(2)}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		master, replica := s.Master(), s.Replicas()[0]
		const lease = 6 * time.Second
		c := w.open(func(o *holdfast.Options) { o.WatchdogTimeout = lease })
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

// In mode Acked a replica that has come back after a failover is asked again.
func TestAckedAfterFailover(t *testing.T) {
	t.Parallel()
	inFleet(t, []holdfast.Replication{acked}, func(f fleet) {
		w, s := f[0], f.sentinels()
		f.patient()
		c := w.open(long)
		h := w.keep(c, "held")
		for _, r := range s.Replicas() { // one was enough for the grant, and any of them may take over
			w.eventually(10*time.Second, "a replica has it", func() bool { return r.Int(w, "EXISTS", "held") == 1 })
		}
		master := s.Failover()
		w.follows(c, master)
		for _, r := range s.Replicas() {
			r.Pause()
		}
		w.notReplicated(c.Mutex("new"))
		for _, r := range s.Nodes() {
			r.Resume()
		}
		h.kept()
		empty(f[0], master)
	})
}

package matrix_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master that only its clients and one of its replicas still see goes on
// serving when another was promoted in its place. In the modes Async and Acked,
// a lock is then in two hands: the hole is real, and only a resource that checks
// tokens closes it. In mode Strict nobody is let in.
func TestRow19StaleMaster(t *testing.T) {
	t.Parallel()
	inFleet(t, modes, func(f fleet) {
		f.patient()
		s, old := f.sentinels(), f.master()
		chosen, other := s.Replicas()[0], s.Replicas()[1]
		f.never(other)
		// These do not look around as long as the server answers that they know.
		stale := s.URL() + "&scan_interval=1m"
		crowds := f.crowds()
		var before *holder
		clients := make([]*holdfast.Client, len(f)) // at the old master, before there is another
		for i, w := range f {
			if w.strictly() { // its lease is to end
				clients[i] = w.openAt(stale)
				before = w.keep(clients[i], w.key("held"))
				continue
			}
			clients[i] = w.openAt(stale, long)
		}
		crowds.await()
		s.Partition(side{old, other}, append(s.Sentinels(), chosen))
		holders := make([]*holder, len(f))
		for i, w := range f {
			if w.strictly() {
				holders[i] = before
				w.notReplicated(clients[i].Mutex("new"))
				continue
			}
			holders[i] = w.keep(clients[i], w.key("held"))
		}
		f.watchful() // not before: nobody is to come too late
		master, took := s.AwaitMaster(old)
		f.patient() // one failover is enough
		f[0].Logf("the failover took %v", took)
		var waits *rival
		for i, w := range f {
			h, fresh := holders[i], w.open()
			if w.strictly() {
				waits = w.rival(fresh, w.key("held"))
				h.lost(lease+slack, holdfast.LossUnreplicated)
				h.inTime()
				w.notReplicated(w.open().Mutex("new"))
				continue
			}
			r := w.rival(fresh, w.key("held"))
			r.await(time.Now().Add(slack))
			if !h.Valid() || !r.lease.Valid() {
				w.errorf("the hole is closed: say so in the docs")
			}
			w.fenced(h, r)
			r.release()
		}
		if waits.in() {
			waits.w.errorf("a strict lock was granted without all replicas")
		}
		s.Heal()
		s.AwaitReplicas(2)
		for _, h := range holders {
			if !h.w.strictly() {
				h.lost(20*time.Second+slack, holdfast.LossFailover, holdfast.LossExpired)
			}
		}
		waits.await(time.Now().Add(time.Second))
		waits.after(before)
		waits.release()
		crowds.await()
		crowds.end(true)
		empty(f[0], master)
	}, redistest.WithPartitions())
}

// fenced has two holders of one lock write to a resource that checks tokens. The
// one whose token is stale is refused.
func (w *world) fenced(stale *holder, r *rival) {
	w.Helper()
	resource := redistest.Shared(w)
	name := w.key(w.Name())
	c := w.openAt(resource.URL(), func(o *holdfast.Options) { o.Replication = async })
	write := fence.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")
	put := func(l *holdfast.Lease, value string) error {
		_, err := write.Run(w.Context(), c.Driver(), name, l.Token(), []string{name}, []string{value})
		return err
	}
	if err := put(stale.Lease, "old"); err != nil {
		w.errorf("%v", err)
	}
	if err := put(r.lease, "new"); err != nil {
		w.errorf("%v", err)
	}
	if err := put(stale.Lease, "late"); !errors.Is(err, fence.ErrStale) {
		w.errorf("the resource took a write with a stale token: %v", err)
	}
	if got := resource.Do(w, "GET", name); got != "new" {
		w.errorf("the resource has %v", got)
	}
}

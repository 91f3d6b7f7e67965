package matrix_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The master is killed while fifty leases are held and a hundred others wait: for
// these, and for names that are free. Every holder keeps its lease, or is told
// before another gets in; whoever waits gets in soon after the failover; and
// nothing is left behind.
func TestMasterKilledUnderLoad(t *testing.T) {
	for _, mode := range modes {
		t.Run("sentinel/"+mode.Mode.String(), func(t *testing.T) {
			redistest.CheckGoroutines(t)
			s := redistest.StartSentinels(t)
			masterKilled(&world{T: t, name: "sentinel", url: s.URL(), mode: mode, sentinels: s})
		})
	}
}

func masterKilled(w *world) {
	const held = 50
	fleet{w}.patient()
	s, old := w.sentinels, w.sentinels.Master()
	holding := w.open(func(o *holdfast.Options) { o.WatchdogTimeout = time.Minute }) // longer than any failover
	waiting := w.open(long)
	holders, rivals := make([]*holder, held), make([]*rival, held)
	for i := range held {
		name := fmt.Sprint("held-", i)
		holders[i] = w.keep(holding, name)
		rivals[i] = w.rival(waiting, name)
	}
	free := newComers(w, 50)
	free.await(40 * time.Second)
	fleet{w}.watchful()
	killed := time.Now()
	old.Kill()
	master, took := s.AwaitMaster(old)
	ready := time.Now()
	fleet{w}.patient() // one failover is enough
	if w.strictly() {
		old.Restart()
		s.AwaitReplicas(2)
		ready = time.Now()
	}
	first := free.await(40 * time.Second)
	w.Logf("failover %v, all replicas attached %v, first acquisition %v after the kill", took, ready.Sub(killed), first.Sub(killed))
	if late := first.Sub(ready); late > time.Second+slack {
		w.errorf("the first acquisition came %v after the failover", late)
	}
	lost := 0
	for i, h := range holders {
		if h.Valid() && !rivals[i].in() {
			_ = h.Release(context.Background())
		} else {
			lost++
			h.lost(slack, holdfast.LossFailover, holdfast.LossExpired)
		}
	}
	released := time.Now()
	for i, r := range rivals {
		r.await(released.Add(2 * time.Second))
		switch {
		case w.strictly():
			r.after(holders[i])
		default:
			r.rises(holders[i])
		}
		r.release()
	}
	w.Logf("%d of %d leases were lost", lost, held)
	if lost > 0 && w.strictly() {
		w.errorf("%d strict leases were lost, although all replicas had them", lost)
	}
	free.end()
	empty(w, master)
}

// newComers take and release names of their own, one after the other.
type newcomers struct {
	w    *world
	stop context.CancelFunc
	wg   sync.WaitGroup
	got  chan time.Time
}

func newComers(w *world, n int) *newcomers {
	ctx, stop := context.WithCancel(context.Background())
	nc := &newcomers{w: w, stop: stop, got: make(chan time.Time)}
	c := w.open()
	for i := range n {
		nc.wg.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Mutex(fmt.Sprint("free-", i)).Lock(ctx)
				if err != nil {
					continue
				}
				select {
				case nc.got <- time.Now():
				case <-time.After(100 * time.Millisecond):
				}
				_ = l.Release(context.Background())
			}
		})
	}
	w.Cleanup(nc.end)
	return nc
}

// await returns when the next acquisition was made.
func (nc *newcomers) await(within time.Duration) time.Time {
	nc.w.Helper()
	for asked := time.Now(); ; {
		select {
		case at := <-nc.got:
			if at.After(asked) {
				return at
			}
		case <-time.After(within):
			nc.w.Fatalf("nothing was granted within %v", within)
		}
	}
}

func (nc *newcomers) end() {
	nc.stop()
	nc.wg.Wait()
}

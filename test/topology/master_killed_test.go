package topology_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The master is killed while fifty leases are held and a hundred others wait: for
// these, and for names that are free. Every holder keeps its lease, or is told
// before another gets in; all that wait get in soon after the failover; and
// nothing is left behind.
func TestMasterKilledUnderLoad(t *testing.T) {
	for _, mode := range sentinelModes {
		t.Run("sentinel/"+mode.Mode.String(), func(t *testing.T) {
			redistest.CheckGoroutines(t)
			s := redistest.StartSentinels(t)
			masterKilled(&world{T: t, url: s.URL(), mode: mode, sentinels: s})
		})
	}
}

func masterKilled(w *world) {
	const held = 50
	fleet{w}.patient()
	s, old := w.sentinels, w.sentinels.Master()
	holding := w.open(lasting)
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
				default:
					locktest.Work(100 * time.Millisecond)
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

// A party holds many locks at one shard, each waited for, and some elsewhere.
type party struct {
	*world
	held, elsewhere []*holdfast.Lease
	waiting         *queue
	record          bytes.Buffer
	rec             *redistest.Recorder
	watch           sync.WaitGroup
}

// newParty has 50 locks held and waited for at the first shard, and 10 held at
// the others. What must survive belongs to a client with long leases, which holds
// some of the 50, too.
func (w *world) newParty() *party {
	p := &party{world: w}
	p.rec = redistest.NewRecorder(&p.record)
	holder, lasting, waiter := w.open(), w.open(long), w.open()
	about := w.mode.Mode.String()
	var waiters []holdfast.Locker
	for i := range 50 {
		c := holder
		if i%5 == 0 {
			c = lasting
		}
		m := c.Mutex(tag(0, fmt.Sprint(about, "-", i, "-")))
		p.held = append(p.held, p.lock(m))
		waiters = append(waiters, witness{waiter.Mutex(m.Name()), p})
	}
	for i := range 10 {
		p.elsewhere = append(p.elsewhere, p.lock(lasting.Mutex(tag(1+i%2, fmt.Sprint(about, "-", i, "-")))))
	}
	p.waiting = w.line(waiters...)
	return p
}

// lock takes a lock and notes for how long it is valid.
func (p *party) lock(m *holdfast.Mutex) *holdfast.Lease {
	p.Helper()
	l, err := m.Lock(p.Context())
	if err != nil {
		p.Fatalf("%v: %v", p.mode.Mode, err)
	}
	p.watch.Go(func() { p.note(l, -1) })
	return l
}

// note records while a lease is valid, and at most for that many looks.
func (p *party) note(l *holdfast.Lease, looks int) {
	iv := redistest.Interval{Name: l.Name(), Owner: l.Owner()}
	for ; looks != 0; looks-- {
		now := redistest.Now()
		if !l.Valid() {
			break
		}
		if iv.Enter == 0 {
			iv.Enter = now
		}
		iv.Leave = now
		locktest.Work(20 * time.Millisecond)
	}
	if iv.Enter != 0 {
		p.rec.Record(iv)
	}
}

// A witness is a lock whose leases are noted, too.
type witness struct {
	*holdfast.Mutex
	p *party
}

func (w witness) Lock(ctx context.Context, opts ...holdfast.LockOption) (*holdfast.Lease, error) {
	l, err := w.Mutex.Lock(ctx, opts...)
	if err == nil {
		w.p.note(l, 2)
	}
	return l, err
}

// A master is killed while 150 leases on it are held and 150 waiters wait for
// them, and comes back as a replica. Clients of the other shards do not notice.
func TestClusterMasterKilledUnderLoad(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		old := c.Nodes()[0]
		var parties []*party
		for _, w := range f {
			parties = append(parties, w.newParty())
		}
		steady := f[1].steady(tag(1, "steady"))
		replica := c.ReplicasOf(old)[0]
		f[0].eventually(2*slack, "the replica has all locks", func() bool {
			return replica.Int(t, "DBSIZE") == old.Int(t, "DBSIZE")
		})
		old.Kill()
		c.Watchful()
		first := make(map[*party]*queue)
		var elsewhere []*holdfast.Lease
		for _, p := range parties {
			first[p] = p.line(p.open().Mutex(p.key("first")))
			elsewhere = append(elsewhere, p.elsewhere...)
		}
		f[0].renewedTwice(elsewhere...)
		next, took := c.AwaitFailover(old)
		replaced := time.Now()
		old.Restart()
		c.AwaitReplicas(next, 1)
		attached := time.Now()
		t.Logf("replaced after %v, with a replica %v later", took, attached.Sub(replaced))
		for _, p := range parties {
			if first[p].end(20 * time.Second); len(first[p].times) == 0 {
				continue
			}
			from, limit := replaced, time.Second
			if p.mode.Mode != holdfast.Async { // one may just be waiting for the replica that is to come
				from, limit = attached, time.Second+max(p.mode.Timeout, time.Second)
			}
			if late := first[p].times[0].Sub(from); late > limit+slack {
				p.errorf("the first new lock was granted %v too late", late-limit)
			}
		}
		if slowest, err := steady(); err != nil || slowest > slack {
			t.Errorf("at another shard, a lock took %v: %v", slowest, err)
		}
		for _, p := range parties {
			p.settle()
		}
	}, redistest.Args("--cluster-require-full-coverage", "no"))
}

// settle checks that each holder has kept its lock or was told, releases what is
// held, and checks that the waiters get it.
func (p *party) settle() {
	p.Helper()
	ends := make(map[holdfast.LossReason]int)
	for _, l := range p.held {
		if l.Valid() {
			p.kept(l)
			ends["kept"]++
			continue
		}
		_, why := loss(l, slack)
		if ends[why]++; why != holdfast.LossFailover && why != holdfast.LossUnreplicated && why != holdfast.LossExpired {
			p.errorf("a holder was told %q", why)
		}
	}
	p.Logf("%v: %v", p.mode.Mode, ends)
	p.kept(p.elsewhere...)
	p.waiting.end(lease + 10*time.Second)
	p.watch.Wait()
	ivs, err := redistest.ReadIntervals(&p.record)
	if err != nil {
		p.Fatal(err)
	}
	if len(ivs) != len(p.held)+len(p.elsewhere)+len(p.waiting.times) {
		p.errorf("%d intervals of %d leases", len(ivs), len(p.held)+len(p.elsewhere)+len(p.waiting.times))
	}
	if err := redistest.CheckExclusive(ivs); err != nil {
		p.errorf("%v", err)
	}
}

// steady locks and unlocks a name until the function it returns is called, which
// says how long the slowest lock took.
func (w *world) steady(name string) func() (time.Duration, error) {
	client := w.open()
	var stopped atomic.Bool
	var slowest time.Duration
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		locktest.Repeat(10*time.Millisecond, 10*time.Millisecond, func() bool { return !stopped.Load() }, func(int) {
			begin := time.Now()
			l, err := client.Mutex(name).Lock(w.Context())
			if err == nil {
				err = l.Release(w.Context())
			}
			slowest = max(slowest, time.Since(begin))
			if err != nil {
				failed = err
			}
		})
	})
	return func() (time.Duration, error) {
		stopped.Store(true)
		wg.Wait()
		return slowest, failed
	}
}

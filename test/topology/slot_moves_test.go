package topology_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A move is a slot on its way from one master to another.
type move interface {
	Finish()
	Cancel()
}

// A mover begins to move a slot. If its keys move one by one, those that are
// given have moved.
type mover func(c *redistest.Cluster, slot int, to *redistest.Server, keys ...string) move

// eachMover runs a test once for each way to move a slot.
func eachMover(t *testing.T, test func(t *testing.T, begin mover)) {
	t.Run("by key", func(t *testing.T) {
		test(t, func(c *redistest.Cluster, slot int, to *redistest.Server, keys ...string) move {
			m := c.BeginMigration(slot, to)
			m.Move(keys...)
			return m
		})
	})
	t.Run("atomic", func(t *testing.T) {
		redistest.NeedAtomicMigration(t)
		test(t, func(c *redistest.Cluster, slot int, to *redistest.Server, _ ...string) move {
			return c.BeginAtomicMigration(slot, to)
		})
	})
}

// An awaited is something that a client holds and others wait for.
type awaited struct {
	name string
	hold func(ctx context.Context, c *holdfast.Client, name string) (free func(context.Context) error, err error)
	wait func(ctx context.Context, c *holdfast.Client, name string) error
}

// locked returns the awaited of a lock that is held and one that is wanted.
func locked(name string, held, wanted func(c *holdfast.Client, name string) holdfast.Locker) awaited {
	return awaited{name, func(ctx context.Context, c *holdfast.Client, name string) (func(context.Context) error, error) {
		l, err := held(c, name).Lock(ctx)
		return l.Release, err
	}, func(ctx context.Context, c *holdfast.Client, name string) error {
		l, err := wanted(c, name).Lock(ctx)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}}
}

// everything is one awaited for each way to wait.
func everything() []awaited {
	mutex := func(c *holdfast.Client, name string) holdfast.Locker { return c.Mutex(name) }
	fenced := func(c *holdfast.Client, name string) holdfast.Locker { return c.FencedMutex(name) }
	fair := func(c *holdfast.Client, name string) holdfast.Locker { return c.FairMutex(name) }
	read := func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name).RLocker() }
	write := func(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name) }
	permit := func(c *holdfast.Client, name string) holdfast.Locker {
		return c.LeasedSemaphore(name, holdfast.WithPermits(1)).Locker(1)
	}
	return []awaited{
		locked("mutex", mutex, mutex), locked("fenced", fenced, fenced), locked("fair", fair, fair),
		locked("writers", read, write), locked("readers", write, read), locked("permit", permit, permit),
		{"semaphore", func(ctx context.Context, c *holdfast.Client, name string) (func(context.Context) error, error) {
			s := c.Semaphore(name)
			_, err := s.TrySet(ctx, 1, 0)
			return func(ctx context.Context) error { return s.Release(ctx, 1) }, errors.Join(err, s.Acquire(ctx, 1))
		}, func(ctx context.Context, c *holdfast.Client, name string) error {
			if err := c.Semaphore(name).Acquire(ctx, 1); err != nil {
				return err
			}
			return c.Semaphore(name).Release(ctx, 1)
		}},
		{"latch", func(ctx context.Context, c *holdfast.Client, name string) (func(context.Context) error, error) {
			_, err := c.Latch(name).TrySet(ctx, 1)
			return func(ctx context.Context) error {
				_, err := c.Latch(name).CountDown(ctx)
				return err
			}, err
		}, func(ctx context.Context, c *holdfast.Client, name string) error { return c.Latch(name).Wait(ctx) }},
	}
}

// seldom makes a client poll so seldom that a waiter relies on messages.
func seldom(o *holdfast.Options) { o.PollInterval = time.Minute }

// moveOn begins to move the slot of the world to the next master. Of the names
// that are given, those that move key by key have moved.
func (w *world) moveOn(begin mover, names ...string) move {
	w.Helper()
	slot, masters := redistest.SlotOf(w.prefix), w.cluster.Masters()
	for i, name := range names {
		names[i] = w.key(name)
	}
	at := slices.Index(masters, w.cluster.MasterOfSlot(slot))
	return begin(w.cluster, slot, masters[(at+1)%len(masters)], names...)
}

// Everything that can be waited for is held while its slot moves, or fails to
// move. The waiters hardly ever poll: their subscriptions follow the slot.
func TestMovedWaiters(t *testing.T) { eachMover(t, movedWaiters) }

func movedWaiters(t *testing.T, begin mover) {
	t.Parallel()
	c := redistest.StartCluster(t, patient)
	for _, w := range clusterFleet(t, c) {
		holder, waiters := w.open(lasting), []*holdfast.Client{w.open(lasting, seldom), w.open(lasting, seldom)}
		round := func(what string, fault func(m move, release func()), moved ...string) {
			w.awaited(what, holder, waiters, func(release func()) { fault(w.moveOn(begin, moved...), release) })
		}
		round("moved", func(m move, release func()) { m.Finish(); release() })
		round("half moved", func(m move, release func()) { release(); m.Finish() }, "mutex", "fair", "readers", "permit", "semaphore")
		round("cancelled", func(m move, release func()) { m.Cancel(); release() })
		m, ok := w.moveOn(begin).(*redistest.AtomicMigration)
		if !ok {
			continue
		}
		m.Cancel()
		round("failed", func(m move, release func()) { m.(*redistest.AtomicMigration).Fail(); release() })
		round("released and cancelled", func(m move, release func()) { release(); m.Cancel() })
		round("blocked", func(m move, release func()) {
			m.(*redistest.AtomicMigration).BlockWrites()
			release()
			m.(*redistest.AtomicMigration).AwaitBlocked()
			m.Finish()
		})
		round("blocked and cancelled", func(m move, release func()) {
			m.(*redistest.AtomicMigration).BlockWrites()
			release()
			m.(*redistest.AtomicMigration).AwaitBlocked()
			m.Cancel()
		})
		round("blocked until it fails", func(m move, release func()) { // ten seconds: requests are not answered in time
			m.(*redistest.AtomicMigration).BlockWrites()
			release()
			m.(*redistest.AtomicMigration).AwaitEnd()
		})
	}
}

// awaited has the holder hold everything, the waiters wait for it, and a fault
// release it. The waiters are then served at once.
func (w *world) awaited(what string, holder *holdfast.Client, waiters []*holdfast.Client, fault func(release func())) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	type event struct {
		name string
		at   time.Time
		err  error
	}
	all := everything()
	var frees []func(context.Context) error
	freed, served := make(chan event, len(all)), make(chan event)
	for _, a := range all {
		free, err := a.hold(ctx, holder, w.key(a.name))
		if err != nil {
			w.Fatalf("%v: %s: %s: %v", w.mode.Mode, what, a.name, err)
		}
		frees = append(frees, free)
		for _, c := range waiters {
			go func() {
				err := a.wait(ctx, c, w.key(a.name))
				served <- event{a.name, time.Now(), err}
			}()
		}
	}
	for _, c := range waiters {
		w.eventually(4*slack, "all wait and listen", func() bool {
			s := c.Stats()
			return s.Waiting == len(all) && s.Silent == 0
		})
	}
	fault(func() {
		for i, a := range all {
			go func() {
				err := frees[i](ctx)
				freed <- event{a.name, time.Now(), err}
			}()
		}
	})
	over := time.Now()
	free := make(map[string]time.Time)
	for range all {
		e := <-freed
		if e.err != nil && !errors.Is(e.err, holdfast.ErrUnavailable) { // the release goes on in the background
			w.errorf("%s: release of %s: %v", what, e.name, e.err)
		}
		free[e.name] = e.at
	}
	released, last := time.Now(), time.Duration(0)
	for range len(all) * len(waiters) {
		e := <-served
		if e.err != nil {
			w.errorf("%s: a waiter of %s: %v", what, e.name, e.err)
		}
		last = max(last, min(e.at.Sub(over), e.at.Sub(free[e.name])))
	}
	w.Logf("%v: %s: released after %v, and the last waiter was served after %v", w.mode.Mode, what, released.Sub(over), last)
	if took := locktest.Took(released); took > 4*slack { // a third of the poll interval
		w.errorf("%s: the last waiter was served after %v", what, took)
	}
}

// Many clients contend for locks whose slot moves to and fro, sometimes after it
// has failed to: never do two hold a lock, and tokens rise.
func TestSlotToAndFro(t *testing.T) { eachMover(t, slotToAndFro) }

func slotToAndFro(t *testing.T, begin mover) { slotToAndFroAt(t, begin, "") }

// The same, where each node of the cluster publishes for all, and counts only its own clients.
func TestSlotToAndFroUnsharded(t *testing.T) {
	eachMover(t, func(t *testing.T, begin mover) { slotToAndFroAt(t, begin, "?sharded=off") })
}

func slotToAndFroAt(t *testing.T, begin mover, query string) {
	inCluster(t, func(_ *redistest.Cluster, f fleet) {
		for _, w := range f {
			w.url += query
		}
		load := f.crowds(3)
		for i := range 6 {
			load.await(5)
			for _, w := range f {
				m := w.moveOn(begin)
				if m, ok := m.(*redistest.AtomicMigration); ok {
					switch i {
					case 1:
						m.Cancel()
						continue
					case 2:
						m.BlockWrites()
						m.AwaitBlocked()
						m.Cancel()
						continue
					case 3:
						m.BlockWrites()
						m.AwaitEnd() // after ten seconds, longer than a lease
						continue
					}
				}
				m.Finish()
			}
		}
		load.await(5)
		load.end()
	}, patient)
}

// received returns what was sent on a channel that is closed.
func received(ch <-chan string) (all []string) {
	for s := range ch {
		all = append(all, s)
	}
	return all
}

// The slot of a long queue moves. Meanwhile the server cannot serve the queue, for
// longer than a heartbeat lasts. No waiter is lost, and those of a fair lock keep
// their order.
func TestMovedQueue(t *testing.T) { eachMover(t, movedQueue) }

func movedQueue(t *testing.T, begin mover) {
	inCluster(t, func(_ *redistest.Cluster, f fleet) {
		const clients, each, silence = 8, 25, 3 * time.Second
		w := f[1]
		holder := w.open(lasting)
		mutex := w.hold(holder, "mutex")
		fair, err := holder.FairMutex(w.key("fair")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		served := make(chan string, clients*each)
		var wg sync.WaitGroup
		for range clients {
			c := w.open(lasting, seldom)
			wg.Go(func() {
				if err := c.Mutex(w.key("mutex")).Do(ctx, func(context.Context) error { return nil }); err != nil {
					w.errorf("%v", err)
				}
			})
			for range each {
				wg.Go(func() {
					l, err := c.FairMutex(w.key("fair")).Lock(ctx)
					if err != nil {
						w.errorf("%v", err)
						return
					}
					served <- l.Owner()
					if err := l.Release(ctx); err != nil {
						w.errorf("%v", err)
					}
				})
			}
		}
		list, queue := "redisson_lock_queue:"+w.key("fair"), "holdfast:queue:"+w.key("mutex")
		master := w.master(list)
		w.eventually(4*slack, "all are in the queues", func() bool {
			return master.Int(t, "LLEN", list) == clients*each && master.Int(t, "ZCARD", queue) == clients
		})
		want := master.Strings(t, "LRANGE", list, "0", "-1")
		stalls, start := redistest.MeterStalls(t), time.Now()
		m := w.moveOn(begin, "mutex", "fair")
		<-redistest.Outage(silence, func() {
			if m, ok := m.(*redistest.AtomicMigration); ok {
				m.BlockWrites()
			}
		}, nil)
		m.Finish()
		moved := time.Now()
		w.kept(mutex, fair)
		wg.Wait()
		t.Logf("all were served %v after the move", time.Since(moved))
		close(served)
		if got := received(served); !slices.Equal(got, want) && stalls.Since(start) < time.Second { // else heartbeats were late
			t.Errorf("served in the order %q, want %q", got, want)
		}
	}, patient)
}

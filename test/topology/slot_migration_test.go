package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A slot moves while its locks are held and waited for, and stays on its way. If
// its keys move one by one, it is half moved: what has one key is renewed on
// either side, also where it was renewed together with others so far; new locks
// are granted; the rest is kept, or told.
func TestSlotMigration(t *testing.T) { eachMover(t, slotMigration) }

func slotMigration(t *testing.T, begin mover) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		from, to := c.Nodes()[0], c.Nodes()[1]
		leases := make(map[*world][]*holdfast.Lease)
		readers := make(map[*world]*holdfast.Lease)
		queues := make(map[*world]*queue)
		for _, w := range f {
			client, rival := w.open(long), w.open()
			names := []string{"m0", "m1", "m2", "m3", "m4", "m5"} // renewed in one call
			for _, name := range names {
				leases[w] = append(leases[w], w.hold(client, name))
			}
			for _, m := range []holdfast.Locker{client.FairMutex(w.key("fair")), client.FencedMutex(w.key("fenced")), client.RWMutex(w.key("write"))} {
				l, err := m.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				leases[w] = append(leases[w], l)
			}
			var err error
			if readers[w], err = client.RWMutex(w.key("read")).RLock(t.Context()); err != nil {
				t.Fatal(err)
			}
			queues[w] = w.line(rival.Mutex(w.key("m0")), rival.Mutex(w.key("m1")),
				rival.FairMutex(w.key("fair")), rival.FencedMutex(w.key("fenced")), rival.RWMutex(w.key("write")))
		}
		var moves []move
		for _, w := range f {
			moves = append(moves, begin(c, redistest.SlotOf(w.prefix), to,
				w.key("m0"), w.key("m2"), w.key("m4"), w.key("read"), w.key("fair"), w.key("fenced")))
			if from.Int(t, "EXISTS", w.key("m1")) != 1 {
				w.errorf("the slot is not half moved")
			}
		}
		for _, w := range f { // new locks, on whichever side
			client := w.clients[0]
			l, err := client.Mutex(w.key("new")).Lock(t.Context())
			if err != nil {
				w.errorf("a new lock: %v", err)
				continue
			}
			leases[w] = append(leases[w], l)
			if _, err := w.clients[1].Mutex(w.key("new")).TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
				w.errorf("a lock on the other side that is held: %v", err)
			}
		}
		for _, w := range f {
			w.renewedTwice(leases[w]...)
			for _, l := range leases[w] {
				if !l.Valid() {
					_, why := loss(l, slack)
					w.errorf("%q was lost while half moved: %s", l.Name(), why)
				}
			}
			if n := queues[w].turns(); n > 0 {
				w.errorf("%d were let in while others held the locks", n)
			}
		}
		for _, m := range moves {
			m.Finish()
		}
		for _, w := range f {
			leases[w] = slices.DeleteFunc(leases[w], func(l *holdfast.Lease) bool { return !l.Valid() })
			w.renewedTwice(leases[w]...)
			if to.Int(t, "EXISTS", w.key("m1")) != 1 {
				w.errorf("the slot has not moved")
			}
			w.kept(leases[w]...)
			if l := readers[w]; l.Valid() {
				w.kept(l)
			} else if _, why := loss(l, slack); why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
				w.errorf("the reader was told %q", why)
			}
			queues[w].end(lease + 20*time.Second)
		}
	}, patient)
}

// While a slot is on its way, a mutex can be released, and its waiter gets it. In
// a half moved slot this works because nothing that exists has two keys.
func TestReleaseDuringMigration(t *testing.T) { eachMover(t, releaseDuringMigration) }

func releaseDuringMigration(t *testing.T, begin mover) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		to := c.Nodes()[1]
		for _, w := range f {
			holder, waiter := w.open(), w.open()
			leases := []*holdfast.Lease{w.hold(holder, "here"), w.hold(holder, "there")}
			q := w.line(waiter.Mutex(w.key("here")), waiter.Mutex(w.key("there")))
			m := begin(c, redistest.SlotOf(w.prefix), to, w.key("there"))
			for _, l := range leases {
				if err := l.Release(t.Context()); err != nil {
					w.errorf("release while half moved: %v", err)
				}
			}
			q.end(6 * slack)
			m.Finish()
		}
	}, patient)
}

// In a half moved slot, a script may find that another key of its lock has moved.
// The release of a read lock does, if the key of the hold has moved: it goes on
// in the background, and succeeds when the slot has moved.
func TestReleaseOfMovedHold(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		to := c.Nodes()[1]
		for _, w := range f {
			holder, waiter := w.open(lasting), w.open(lasting, seldom)
			l, err := holder.RWMutex(w.key("read")).RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			q := w.line(waiter.RWMutex(l.Name()))
			w.eventually(2*slack, "the writer waits", func() bool { return waiter.Stats().Waiting == 1 && waiter.Stats().Silent == 0 })
			m := c.BeginMigration(redistest.SlotOf(w.prefix), to)
			m.Move(m.From().Strings(t, "KEYS", w.key("read:*:rwlock_timeout:1"))...)
			if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) {
				w.errorf("release: %v", err)
			}
			m.Finish()
			q.end(4 * slack)
		}
	}, patient)
}

// A slot moves to a master that dies before its replica has the slot. The lock is
// lost, also in mode Strict, because Redis does not wait for replicas of the new
// master. The holder is told, and tokens rise.
func TestMovedToDyingMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, patient, redistest.WithPartitions())
	w, to := clusterFleet(t, c)[2], c.Nodes()[1]
	if !w.strictly() {
		t.Fatal("not strict")
	}
	h := w.keep(w.open(lasting), "lock")
	replica, slot := c.ReplicasOf(to)[0], redistest.SlotOf(w.prefix)
	c.Partition(side{to}, side{replica})
	if _, err := to.Try("CLUSTER", "SETSLOT", strconv.Itoa(slot), "STABLE"); err != nil {
		t.Skip("the server moves no slot to a master without its replicas:", err)
	}
	c.Migrate(slot, to)
	to.Kill()
	next, _ := c.AwaitFailover(to)
	c.Heal() // not before: what is held back would arrive
	if next.Int(t, "EXISTS", h.Name()) != 0 {
		t.Error("the promoted replica has the lock")
	}
	to.Restart() // without a replica, nothing is granted
	h.lost(4*slack, holdfast.LossFailover)
	r := w.rival(w.open(lasting), "lock")
	r.await(time.Now().Add(2 * slack))
	r.rises(h)
}

// A latch is opened while its slot is on its way. Its waiters hear of it on a
// channel of another slot.
func TestLatchDuringMigration(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, patient)
	w, i := clusterFleet(t, c)[0], 0
	name := "{0}"
	for c.MasterOf("redisson_countdownlatch__channel__{"+name+"}") != c.MasterOf(name) {
		i++
		name = fmt.Sprint("{", i, "}")
	}
	latch := w.open().Latch(name)
	if _, err := latch.TrySet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	to := slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == c.MasterOf(name) })[0]
	m := c.BeginMigration(redistest.SlotOf(name), to)
	if n, err := latch.CountDown(t.Context()); n != 0 || err != nil {
		t.Errorf("count down: %d, %v", n, err)
	}
	m.Finish()
}

// One hundred locks of all kinds are held, and each is waited for, while all
// their slots move and move back under load: no client notices.
func TestReshard(t *testing.T) { eachMover(t, reshard) }

func reshard(t *testing.T, begin mover) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		var holders, rivals []*holdfast.Client
		for _, w := range f {
			w.prefix = "reshard-"
			holders, rivals = append(holders, w.open(long)), append(rivals, w.open())
		}
		w := f[0]
		loaded := &world{T: t, url: w.url, mode: acked, cluster: c, prefix: "reshard-load-"}
		load := loaded.crowd(2, 4)
		var leases []*holdfast.Lease
		var waiters []holdfast.Locker
		slots := make(map[int]bool)
		for i := range 100 {
			name := fmt.Sprint(w.prefix, i%8, ":{", i%25, "}", i)
			slots[redistest.SlotOf(name)] = true
			kind := []func(*holdfast.Client) holdfast.Locker{
				func(c *holdfast.Client) holdfast.Locker { return c.Mutex(name) },
				func(c *holdfast.Client) holdfast.Locker { return c.FairMutex(name) },
				func(c *holdfast.Client) holdfast.Locker { return c.FencedMutex(name) },
				func(c *holdfast.Client) holdfast.Locker { return c.RWMutex(name) },
				func(c *holdfast.Client) holdfast.Locker { return c.RWMutex(name).RLocker() },
			}[i%5]
			l, err := kind(holders[i%3]).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
			if i%5 == 4 {
				kind = func(c *holdfast.Client) holdfast.Locker { return c.RWMutex(name) } // readers keep out writers
			}
			waiters = append(waiters, kind(rivals[i%3]))
		}
		for _, name := range load.names {
			slots[redistest.SlotOf(name)] = true
		}
		q := w.line(waiters...)
		another := func(master *redistest.Server) *redistest.Server {
			return slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == master })[0]
		}
		for range 2 { // there and back
			for slot := range slots {
				m := begin(c, slot, another(c.MasterOfSlot(slot)))
				if m, ok := m.(*redistest.Migration); ok {
					for m.MoveSome(1) > 0 { // as slowly as it gets
					}
				}
				m.Finish()
			}
			load.await(20)
		}
		if n := q.turns(); n > 0 {
			t.Errorf("%d were let in while others held the locks", n)
		}
		w.kept(leases...)
		q.end(40 * time.Second)
		load.end(true)
		loaded.leavesNothing()
	}, patient)
}

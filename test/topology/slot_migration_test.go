package topology_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A slot moves while its locks are held and waited for, and stays half moved.
// What has one key is renewed on either side, also where it was renewed together
// with others so far; new locks are granted; the rest is kept, or told.
func TestSlotMigration(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		from, to := c.Nodes()[0], c.Nodes()[1]
		leases := make(map[*world][]*holdfast.Lease)
		readers := make(map[*world]*holdfast.Lease)
		queues := make(map[*world]*queue)
		for _, w := range ws {
			client, rival := w.open(long), w.open()
			names := []string{"m0", "m1", "m2", "m3", "m4", "m5"} // renewed in one call
			leases[w] = w.hold(client, names...)
			for _, m := range []holdfast.Locker{client.FairMutex(w.prefix + "fair"), client.FencedMutex(w.prefix + "fenced"), client.RWMutex(w.prefix + "write")} {
				l, err := m.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				leases[w] = append(leases[w], l)
			}
			var err error
			if readers[w], err = client.RWMutex(w.prefix + "read").RLock(t.Context()); err != nil {
				t.Fatal(err)
			}
			queues[w] = w.line(rival.Mutex(w.prefix+"m0"), rival.Mutex(w.prefix+"m1"),
				rival.FairMutex(w.prefix+"fair"), rival.FencedMutex(w.prefix+"fenced"), rival.RWMutex(w.prefix+"write"))
		}
		var moves []*redistest.Migration
		for _, w := range ws {
			m := c.BeginMigration(redistest.SlotOf(w.prefix), to)
			for _, name := range []string{"m0", "m2", "m4", "read", "fair", "fenced"} {
				m.Move(w.prefix + name)
			}
			moves = append(moves, m)
			if from.Int(t, "EXISTS", w.prefix+"m1") != 1 {
				w.errorf("the slot is not half moved")
			}
		}
		for _, w := range ws { // new locks, on whichever side
			client := w.clients[0]
			l, err := client.Mutex(w.prefix + "new").Lock(t.Context())
			if err != nil {
				w.errorf("a new lock: %v", err)
				continue
			}
			leases[w] = append(leases[w], l)
			if _, err := w.clients[1].Mutex(w.prefix + "new").TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
				w.errorf("a lock on the other side that is held: %v", err)
			}
		}
		for _, w := range ws {
			w.renewedTwice(leases[w])
			for _, l := range leases[w] {
				if !l.Valid() {
					_, why := loss(l, soon)
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
		for _, w := range ws {
			leases[w] = slices.DeleteFunc(leases[w], func(l *holdfast.Lease) bool { return !l.Valid() })
			w.kept(leases[w])
			if l := readers[w]; l.Valid() {
				w.kept([]*holdfast.Lease{l})
			} else if _, why := loss(l, soon); why != holdfast.LossExpired && why != holdfast.LossUnreplicated {
				w.errorf("the reader was told %q", why)
			}
			queues[w].end(lease + 20*time.Second)
		}
	}, patient)
}

// While a slot is half moved, a mutex can be given back, and who waits for it
// gets it: nothing that exists has two keys.
func TestReleaseDuringMigration(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		to := c.Nodes()[1]
		for _, w := range ws {
			holder, waiter := w.open(), w.open()
			leases := w.hold(holder, "here", "there")
			q := w.line(waiter.Mutex(w.prefix+"here"), waiter.Mutex(w.prefix+"there"))
			m := c.BeginMigration(redistest.SlotOf(w.prefix), to)
			m.Move(w.prefix + "there")
			for _, l := range leases {
				if err := l.Release(t.Context()); err != nil {
					w.errorf("release while half moved: %v", err)
				}
			}
			q.end(6 * soon)
			m.Finish()
		}
	}, patient)
}

// One hundred locks of all kinds are held, and each is waited for, while all
// their slots move and move back under load: nobody notices.
func TestReshard(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		var holders, rivals []*holdfast.Client
		for _, w := range ws {
			w.prefix = "reshard-"
			holders, rivals = append(holders, w.open(long)), append(rivals, w.open())
		}
		w := ws[0]
		loaded := &world{T: t, name: w.name, url: w.url, mode: acked, cluster: c, prefix: "reshard-load-"}
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
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		for range 2 { // there and back
			for slot := range slots {
				m := c.BeginMigration(slot, others(c, c.MasterOfSlot(slot))[0])
				for m.MoveSome(1) > 0 { // as slowly as it gets
				}
				m.Finish()
				if ctx.Err() != nil {
					t.Fatal("moving takes too long")
				}
			}
			load.await(20)
		}
		if n := q.turns(); n > 0 {
			t.Errorf("%d were let in while others held the locks", n)
		}
		for _, l := range leases {
			w.kept([]*holdfast.Lease{l})
		}
		q.end(40 * time.Second)
		load.end(true)
		loaded.leavesNothing()
	}, patient)
}

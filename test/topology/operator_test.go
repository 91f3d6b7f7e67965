package topology_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An operator acts on a server that works: no client is cut off, and nothing
// fails over.
func TestOperatorActions(t *testing.T) {
	t.Parallel()
	test := func(f fleet) {
		f.patient()
		f.run("scripts flushed", scriptsFlushed)
		f.run("keys deleted", keysDeleted)
		f.run("keys evicted", keysEvicted)
		f.run("out of memory", outOfMemory)
		f.run("message lost", messageLost)
		empty(f[0], f.master())
	}
	inSingle(t, test)
	inSentinels(t, sentinelModes, test)
}

// The server forgets all scripts, at any moment. No client notices.
func scriptsFlushed(f fleet) {
	crowds := f.crowds(2)
	holders := f.keep(usual, "held")
	for range 3 {
		crowds.await(10)
		f.master().Do(f[0], "SCRIPT", "FLUSH")
	}
	crowds.await(10)
	crowds.end()
	holders.kept()
}

// The holder learns of it with the next renewal, and tokens go on
// rising.
func keysDeleted(f fleet) {
	faults := []struct {
		name string
		do   func(w *world, name string)
	}{
		{"DEL", func(w *world, name string) { w.master(name).Do(w, "DEL", name) }},
		{"ForceUnlock", func(w *world, name string) {
			if ok, err := w.open().Mutex(name).ForceUnlock(w.Context()); err != nil || !ok {
				w.errorf("ForceUnlock: %v, %v", ok, err)
			}
		}},
		{"FLUSHALL", func(w *world, name string) { w.master(name).Do(w, "FLUSHALL") }},
	}
	for _, fault := range faults {
		for _, w := range f {
			h := w.keep(w.open(long), fault.name)
			r := w.rival(w.open(), fault.name)
			r.waits()
			start := time.Now()
			fault.do(w, h.Name())
			told := h.lost(10*time.Second, holdfast.LossNotOwner)
			if took := told.Sub(start); took > 500*time.Millisecond+slack {
				w.errorf("%s: told after %v", fault.name, took)
			}
			r.await(start.Add(time.Second))
			r.rises(h)
			r.release()
		}
	}
}

// The same happens when the server evicts a lock to have room.
func keysEvicted(f fleet) {
	s := f.master()
	for _, w := range f {
		h := w.keep(w.open(long), "evicted")
		s.Do(w, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
		s.Do(w, "CONFIG", "SET", "maxmemory", "1")
		start := time.Now()
		_, _ = s.Try("SET", "more", "x") // has the server evict; it is refused all the same
		told := h.lost(10*time.Second, holdfast.LossNotOwner)
		if took := told.Sub(start); took > 500*time.Millisecond+slack {
			w.errorf("told after %v", took)
		}
		s.Do(w, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		s.Do(w, "CONFIG", "SET", "maxmemory", "0")
		s.Do(w, "DEL", "more")
	}
}

// A full server refuses to grant, at once and with a clear error, but lets leases
// be renewed and released.
func outOfMemory(f fleet) {
	s := f.master()
	for _, w := range f {
		c := w.open()
		h := w.keep(c, "before")
		again, err := c.Mutex(w.key("before")).Lock(h.Context())
		if err != nil {
			w.Fatal(err)
		}
		s.Do(w, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		s.Do(w, "CONFIG", "SET", "maxmemory", "1")
		start := time.Now()
		if _, err := c.Mutex(w.key("more")).Lock(w.Context()); !errors.Is(err, holdfast.ErrRefused) {
			w.errorf("granted by a full server: %v", err)
		} else if time.Since(start) > time.Second+slack {
			w.errorf("refused after %v", time.Since(start))
		}
		_, before := h.last()
		w.eventually(slack, "a renewal on a full server", func() bool {
			_, now := h.last()
			return now.After(before.Add(100 * time.Millisecond))
		})
		if err := again.Release(context.Background()); err != nil {
			w.errorf("the inner release on a full server: %v", err)
		}
		h.kept()
		if n := s.Int(w, "EXISTS", w.key("before")); n != 0 {
			w.errorf("released, and still there")
		}
		s.Do(w, "CONFIG", "SET", "maxmemory", "0")
	}
}

// The servers forget all scripts, again and again: no client notices.
func TestClusterScriptFlush(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		holders := f.keep(lasting, "a", "b")
		crowds := f.crowds(2)
		for range 10 {
			for _, s := range c.Nodes() {
				s.Do(t, "SCRIPT", "FLUSH")
			}
			crowds.await(5)
		}
		holders.renewed()
		c.Failover(c.ReplicasOf(c.Nodes()[0])[0]) // which has never run any
		crowds.await(5)
		crowds.end()
		holders.renewed()
		holders.kept()
	}, patient)
}

// Locks vanish: deleted, flushed, freed by force, evicted. Holders hear of it
// with the next renewal, and tokens go on rising.
func TestClusterKeysVanish(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		master := c.Nodes()[0]
		config := func(name, value string) { master.Do(t, "CONFIG", "SET", name, value) }
		for what, vanish := range map[string]func(){
			"deleted": func() {
				for _, w := range f {
					master.Do(t, "DEL", w.key("held"))
				}
			},
			"flushed": func() { master.Do(t, "FLUSHALL") },
			"forced": func() {
				for _, w := range f {
					if _, err := w.open().Mutex(w.key("held")).ForceUnlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			},
			"evicted": func() {
				config("maxmemory-policy", "volatile-lru")
				config("maxmemory", "1")
				_, _ = master.Try("SET", "{evict}", "x") // wherever that is, memory is looked at
				_, _ = master.Try("EVAL", "return 1", "0")
				f[0].eventually(2*slack, "the locks are evicted", func() bool {
					_, _ = master.Try("SET", f[0].prefix, "x")
					return master.Int(t, "DBSIZE") == 0
				})
				config("maxmemory", "0")
				config("maxmemory-policy", "noeviction")
			},
		} {
			leases := make(map[*world]*holdfast.Lease)
			for _, w := range f {
				leases[w] = w.hold(w.open(long), "held")
			}
			vanish()
			at := time.Now()
			var wg sync.WaitGroup
			for _, w := range f {
				wg.Go(func() {
					told, why := loss(leases[w], 2*slack)
					if why != holdfast.LossNotOwner || told.Sub(at) > slack {
						w.errorf("%s: the holder was told %q after %v", what, why, told.Sub(at))
					}
				})
			}
			wg.Wait()
			for _, w := range f {
				next := w.hold(w.open(), "held")
				if next.Token() <= leases[w].Token() {
					w.errorf("%s: token %d after %d", what, next.Token(), leases[w].Token())
				}
				w.kept(next)
			}
		}
	}, patient)
}

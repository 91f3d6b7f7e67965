package matrix_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The servers forget all scripts, again and again: nobody notices.
func TestRow28ClusterScriptFlush(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		var crowds []*crowd
		leases := make(map[*world][]*holdfast.Lease)
		for _, w := range ws {
			leases[w] = w.hold(w.open(long), "a", "b")
			crowds = append(crowds, w.crowd(2, 2))
		}
		for range 10 {
			for _, s := range c.Nodes() {
				s.Do(t, "SCRIPT", "FLUSH")
			}
			for _, c := range crowds {
				c.await(5)
			}
		}
		for _, w := range ws {
			w.renewed(leases[w])
		}
		c.Failover(c.ReplicasOf(c.Nodes()[0])[0]) // who has never run any
		for i, w := range ws {
			crowds[i].await(5)
			crowds[i].end(true)
			w.renewed(leases[w])
			w.kept(leases[w])
		}
	}, patient)
}

// Locks vanish: deleted, flushed, freed by force, evicted. Holders hear of it
// with the next renewal, and tokens go on rising.
func TestRow29ClusterVanished(t *testing.T) {
	inOneCluster(t, func(c *redistest.Cluster, ws []*world) {
		master := c.Nodes()[0]
		config := func(name, value string) { master.Do(t, "CONFIG", "SET", name, value) }
		for what, vanish := range map[string]func(){
			"deleted": func() {
				for _, w := range ws {
					master.Do(t, "DEL", w.prefix+"held")
				}
			},
			"flushed": func() { master.Do(t, "FLUSHALL") },
			"forced": func() {
				for _, w := range ws {
					if _, err := w.open().Mutex(w.prefix + "held").ForceUnlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			},
			"evicted": func() { // row 30
				config("maxmemory-policy", "volatile-lru")
				config("maxmemory", "1")
				_, _ = master.Try("SET", "{evict}", "x") // wherever that is, memory is looked at
				_, _ = master.Try("EVAL", "return 1", "0")
				ws[0].eventually(2*soon, "the locks are evicted", func() bool {
					_, _ = master.Try("SET", ws[0].prefix, "x")
					return master.Int(t, "DBSIZE") == 0
				})
				config("maxmemory", "0")
				config("maxmemory-policy", "noeviction")
			},
		} {
			leases := make(map[*world]*holdfast.Lease)
			for _, w := range ws {
				leases[w] = w.hold(w.open(long), "held")[0]
			}
			vanish()
			at := time.Now()
			var wg sync.WaitGroup
			for _, w := range ws {
				wg.Go(func() {
					told, why := loss(leases[w], 2*soon)
					if why != holdfast.LossNotOwner || told.Sub(at) > soon {
						w.errorf("%s: the holder was told %q after %v", what, why, told.Sub(at))
					}
				})
			}
			wg.Wait()
			for _, w := range ws {
				next := w.hold(w.open(), "held")
				if next[0].Token() <= leases[w].Token() {
					w.errorf("%s: token %d after %d", what, next[0].Token(), leases[w].Token())
				}
				w.kept(next)
			}
		}
	}, patient)
}

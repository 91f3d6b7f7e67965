package topology_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Subscriptions break, or their slot moves, while a client waits that hardly ever
// polls: it learns of the release all the same.
func TestClusterLostMessage(t *testing.T) {
	inCluster(t, func(c *redistest.Cluster, f fleet) {
		for _, w := range f {
			holder := w.open(long)
			waiter := w.open(func(o *holdfast.Options) { o.PollInterval = time.Minute })
			slot := redistest.SlotOf(w.prefix)
			wait := func(what string, wrong func(), after func()) {
				t.Helper()
				l := w.hold(holder, "waited")
				q := w.line(waiter.Mutex(l.Name()))
				home := w.master(l.Name())
				w.eventually(10*time.Second, "the waiter listens", func() bool {
					if !redistest.HasSharded() {
						return len(home.Channels(t)) > 0
					}
					return len(home.ShardChannels(t)) > 0
				})
				wrong()
				if err := l.Release(t.Context()); err != nil {
					w.errorf("%s: %v", what, err)
				}
				released := time.Now()
				after()
				q.end(20 * time.Second)
				if took := locktest.Took(released); took > 4*slack { // a third of its poll interval
					w.errorf("%s: the waiter woke up after %v", what, took)
				}
			}
			nothing := func() {}
			kill := func() { w.master(w.prefix).Do(t, "CLIENT", "KILL", "TYPE", "pubsub") }
			wait("cut, then released", kill, nothing)
			wait("released, then cut", nothing, kill)
			wait("moved, then released", func() { c.Migrate(slot, c.Nodes()[1]) }, nothing)
			wait("released, then moved", nothing, func() { c.Migrate(slot, c.Nodes()[0]) })
			wait("moved and cut", func() { c.Migrate(slot, c.Nodes()[2]); kill() }, kill)
			wait("moved back", func() { c.Migrate(slot, c.Nodes()[0]) }, nothing)
		}
	}, patient)
}

// A lock becomes free without a message, and the connection for messages is cut
// just before there is one.
func messageLost(f fleet) {
	s := f.master()
	for _, w := range f {
		name := w.key("silent") // of the lock that another process holds
		s.Do(w, "HSET", name, "other:1", "1")
		s.Do(w, "PEXPIRE", name, "60000")
		r := w.rival(w.open(), "silent")
		r.waits()
		s.Do(w, "DEL", name)
		r.await(time.Now().Add(time.Second))
		h, again := w.watch(r.lease), w.rival(w.open(), "silent")
		again.waits()
		s.Do(w, "CLIENT", "KILL", "TYPE", "pubsub")
		h.kept()
		again.await(time.Now().Add(time.Second))
		again.after(h)
		again.release()
	}
}

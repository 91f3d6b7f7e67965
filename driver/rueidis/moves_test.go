package rueidis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A moving is a driver with a listener and a watcher. Keys move meanwhile.
type moving struct {
	d       *rueidis.Driver
	h       *drivertest.Recorder
	calls   atomic.Int64 // of Watch
	channel string
}

func newMoving(t *testing.T, url, key string) *moving {
	m := &moving{d: connect(t, url), h: drivertest.NewRecorder(), channel: "talk:{" + key + "}"}
	t.Cleanup(m.d.Watch(func() { m.calls.Add(1) }))
	l := m.d.Listen(m.h)
	t.Cleanup(func() { _ = l.Close() })
	l.Subscribe(m.channel)
	m.h.Want(t, "+"+m.channel)
	return m
}

// moved checks that a driver notices the move without a call, and receives what
// is published at the new server.
func (m *moving) moved(t *testing.T, key string, before driver.Place, to *redistest.Server, publish ...string) {
	t.Helper()
	locktest.Eventually(t, patience, "another term for "+key, func() bool { return m.d.Place(key).Term != before.Term })
	locktest.Eventually(t, patience, "the key lives at the new server", func() bool { return m.d.Place(key).Node == to.Addr() })
	locktest.Eventually(t, soon, "the watcher is called for the new term", func() bool { return m.calls.Load() > 0 }) // a moment after the change
	m.h.Want(t, "-"+m.channel)
	m.h.Want(t, "+"+m.channel)
	for _, command := range publish { // more than once: the channel may be lost again on its way
		heard := m.h.More(m.channel + ":" + command)
		locktest.Eventually(t, patience, command+" is heard", func() bool {
			_, _ = to.Try(command, m.channel, command)
			return heard()
		})
	}
	locktest.Eventually(t, patience, "the new server answers", func() bool {
		r, err := m.d.Do(t.Context(), addOne(key))
		return err == nil && r.Int > 0
	})
}

// both runs a test in both protocols at once.
func both(t *testing.T, url, key string, test func(t *testing.T, ms []*moving)) {
	test(t, []*moving{newMoving(t, url, key), newMoving(t, with(t, url, "protocol", "2"), key)})
}

// A slot moves. No call and no scan shows that to the driver. The server ends the
// sharded subscription, and the driver follows.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	if !redistest.HasSharded() {
		t.Skip("without sharded channels, a subscription does not end when its slot moves, and needs not: messages reach all nodes")
	}
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	const key = "k"
	both(t, with(t, c.URL(), "scan_interval", "1h"), key, func(t *testing.T, ms []*moving) {
		from := c.MasterOf(key)
		to := c.Masters()[0]
		if to == from {
			to = c.Masters()[1]
		}
		for _, migrate := range c.Migrations() {
			for range 2 { // there and back
				var before []driver.Place
				for _, m := range ms {
					if _, err := m.d.Do(t.Context(), addOne(key)); err != nil {
						t.Fatal(err)
					}
					before = append(before, m.d.Place(key))
					m.calls.Store(0)
				}
				migrate(redistest.SlotOf(key), to)
				for i, m := range ms {
					m.moved(t, key, before[i], to, redistest.PublishCommands()...)
				}
				from, to = to, from
			}
		}
	})
}

// A slot is half moved: calls find their key, on either side.
func TestSlotHalfMoved(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, calm)
	from := c.MasterOf("{k}")
	to := slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == from })[0]
	ds := []*rueidis.Driver{connect(t, c.URL()), connect(t, with(t, c.URL(), "protocol", "2"))}
	keys := []string{"{k}here", "{k}there"}
	for _, key := range keys {
		from.Do(t, "SET", key, "0")
	}
	m := c.BeginMigration(redistest.SlotOf("{k}"), to)
	m.Move("{k}there")
	want := int64(0)
	check := func(what string, d *rueidis.Driver) {
		t.Helper()
		want++
		for _, key := range keys {
			if r, err := d.Do(t.Context(), addOne(key)); err != nil || r.Int != want {
				t.Errorf("%s: %s: %v, %v, want %d", what, key, r.Int, err, want)
			}
		}
		want++
		for i, r := range d.DoMany(t.Context(), []driver.Call{addOne(keys[0]), addOne(keys[1])}) {
			if r.Err != nil || r.Reply.Int != want {
				t.Errorf("%s: %s among many: %v, want %d", what, keys[i], r, want)
			}
		}
		want++
		for i, r := range d.DoAcked(t.Context(), []driver.Call{addOne(keys[0]), addOne(keys[1])}, 1, 5*time.Second) {
			if r.Err != nil || r.Reply.Int != want || r.Acked != 1 {
				t.Errorf("%s: %s to be acknowledged: %+v, want %d", what, keys[i], r, want)
			}
		}
	}
	for _, d := range ds {
		check("half moved", d)
		if d.Place("{k}").Node != from.Addr() {
			t.Error("a slot that is on its way counts as moved")
		}
		_, err := d.Do(t.Context(), driver.Call{Script: total, Keys: keys})
		if driver.CodeOf(err) != "TRYAGAIN" || driver.ClassOf(err) != driver.Definite {
			t.Errorf("keys on both sides: %v", err)
		}
	}
	for _, s := range c.Masters() { // who has forgotten the scripts
		s.Do(t, "SCRIPT", "FLUSH")
	}
	check("scripts forgotten", ds[0])
	m.Finish()
	for _, d := range ds {
		check("moved", d)
		r, err := d.Do(t.Context(), driver.Call{Script: total, Keys: keys})
		if err != nil || r.Int != 2*want {
			t.Errorf("keys on one side again: %v, %v", r, err)
		}
	}
}

// movedErrors is how many calls a server has sent elsewhere.
func movedErrors(t *testing.T, s *redistest.Server) string {
	for line := range strings.Lines(s.Do(t, "INFO", "errorstats").(string)) {
		if strings.HasPrefix(line, "errorstat_MOVED:") {
			return line
		}
	}
	return ""
}

// A driver that never looks by itself learns from being sent elsewhere, once,
// and the first call does not fail.
func TestStaleTable(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	d := connect(t, with(t, c.URL(), "scan_interval", "1h"))
	const key = "k"
	from := c.MasterOf(key)
	to := slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == from })[0]
	if _, err := d.Do(t.Context(), addOne(key)); err != nil {
		t.Fatal(err)
	}
	c.Migrate(redistest.SlotOf(key), to)
	if p := d.Place(key); p.Node != from.Addr() {
		t.Fatalf("the driver knows already: %+v", p)
	}
	if r, err := d.Do(t.Context(), addOne(key)); err != nil || r.Int != 2 {
		t.Fatalf("first call after the move: %v, %v", r, err)
	}
	if p := d.Place(key); p.Node != to.Addr() {
		t.Errorf("nothing was learned: %+v", p)
	}
	sent := movedErrors(t, from)
	if sent == "" {
		t.Error("the old node has not redirected any call")
	}
	for i := range 3 {
		if r, err := d.Do(t.Context(), addOne(key)); err != nil || r.Int != int64(3+i) {
			t.Errorf("%v, %v", r, err)
		}
	}
	if now := movedErrors(t, from); now != sent {
		t.Errorf("redirected again: %s after %s", now, sent)
	}
}

// A replica takes over. The driver notices it without a call.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		failover(t, c.URL(), redistest.PublishCommands(), func() *redistest.Server { return c.MasterOf("k") }, func(kind string) *redistest.Server {
			old := c.MasterOf("k")
			next := c.ReplicasOf(old)[0]
			switch kind {
			case "planned":
				c.Failover(next)
			case "crash":
				// Redis lets a replica count the votes of its last election again,
				// with the epoch of that, for four times the node timeout.
				time.Sleep(5 * time.Second)
				old.Kill()
				c.AwaitFailover(old)
				old.Restart()
			}
			return next
		})
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinels(t)
		failover(t, s.URL(), []string{"PUBLISH"}, s.Master, func(kind string) *redistest.Server {
			if kind == "planned" {
				return s.Failover()
			}
			old := s.Master()
			old.Kill()
			next, _ := s.AwaitMaster(old)
			old.Restart()
			return next
		})
	})
	t.Run("replicated", func(t *testing.T) {
		t.Parallel()
		r := redistest.StartReplicated(t, 1)
		url := "redis://" + strings.Join(addrs(r.Nodes()), ",")
		failover(t, url, []string{"PUBLISH"}, r.Master, func(string) *redistest.Server {
			old, next := r.Master(), r.Replicas()[0]
			host, port, _ := strings.Cut(next.Addr(), ":")
			old.Do(t, "REPLICAOF", host, port)
			next.Do(t, "REPLICAOF", "NO", "ONE")
			r.AwaitReplicas(1)
			return next
		})
	})
}

func failover(t *testing.T, url string, publish []string, master func() *redistest.Server, do func(kind string) *redistest.Server) {
	both(t, url, "k", func(t *testing.T, ms []*moving) {
		terms := make(map[string]bool)
		for _, kind := range []string{"planned", "planned", "crash"} {
			var before []driver.Place
			for i, m := range ms {
				if r := m.d.DoAcked(t.Context(), []driver.Call{addOne("k")}, 1, 10*time.Second)[0]; r.Err != nil || r.Acked == 0 {
					t.Fatalf("%s: %+v", kind, r)
				}
				before = append(before, m.d.Place("k"))
				terms[fmt.Sprint(i, before[i].Term)] = true
				m.calls.Store(0)
			}
			old := master()
			next := do(kind)
			if next == old {
				t.Fatal("nothing happened")
			}
			for i, m := range ms {
				m.moved(t, "k", before[i], next, publish...)
				if now := fmt.Sprint(i, m.d.Place("k").Term); terms[now] {
					t.Errorf("%s: the term was there before", kind)
				}
			}
		}
	})
}

// A server is restarted and stays the master: that is another term, too.
func TestRestartIsATerm(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0))
	const key = "k"
	both(t, c.URL(), key, func(t *testing.T, ms []*moving) {
		s := c.MasterOf(key)
		var before []driver.Place
		for _, m := range ms {
			if _, err := m.d.Do(t.Context(), addOne(key)); err != nil {
				t.Fatal(err)
			}
			before = append(before, m.d.Place(key))
			m.calls.Store(0)
		}
		s.Restart()
		for i, m := range ms {
			m.moved(t, key, before[i], s, redistest.PublishCommands()...)
		}
	})
}

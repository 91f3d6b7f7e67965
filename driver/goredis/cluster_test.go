package goredis_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/goredis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, calm)
	d := connect(t, cluster(c))
	var calls []driver.Call
	nodes := make(map[string]bool)
	for i := range 50 {
		key := fmt.Sprint("k", i)
		calls = append(calls, addOne(key))
		if r, err := d.Do(t.Context(), calls[i]); err != nil || r.Int != 1 {
			t.Fatalf("%s: %v, %v", key, r, err)
		}
		p := d.Place(key)
		nodes[p.Node] = true
		if p.Node != c.MasterOf(key).Addr() || p.Slot != redistest.SlotOf(key) || p.Replicas != 1 {
			t.Errorf("%s: %+v", key, p)
		}
	}
	if len(nodes) != 3 {
		t.Errorf("nodes: %v", nodes)
	}
	for i, r := range d.DoMany(t.Context(), calls) {
		if r.Err != nil || r.Reply.Int != 2 {
			t.Errorf("%d of many: %+v", i, r)
		}
	}
	for i, r := range d.DoAcked(t.Context(), calls[:2], 1, 5*time.Second) {
		if r.Err != nil || r.Reply.Int != 3 || r.Acked != 1 {
			t.Errorf("%d to be acknowledged: %+v", i, r)
		}
	}
	facts := d.Facts(t.Context())
	if len(facts) != 3 {
		t.Fatalf("facts: %+v", facts)
	}
	for _, f := range facts {
		if f.Err != nil || !nodes[f.Node] || !f.Cluster || f.Role != "master" || f.Replicas != 1 || len(f.RunID) != 40 {
			t.Errorf("facts: %+v", f)
		}
	}
}

// A listener receives messages of PUBLISH and of SPUBLISH. It also receives
// keyspace events, which nodes do not forward. Scripts use SPUBLISH, if the server has
// it.
func TestClusterChannels(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.Args("--notify-keyspace-events", "KEA"), calm)
	d := connect(t, cluster(c))
	h := drivertest.NewRecorder()
	l := d.Listen(h)
	shout := driver.NewScript("shout", `redis.call(ARGV[2], KEYS[1], ARGV[1]) return ARGV[2]`)
	shout.Publish = 2
	var channels []string
	for i := range 30 {
		key := fmt.Sprint("{k", i, "}")
		channels = append(channels, "talk:"+key, "__keyspace@0__:"+key)
	}
	l.Subscribe(channels...)
	for _, name := range channels {
		locktest.Eventually(t, soon, name, func() bool { return h.Seen("+"+name) == 1 })
	}
	commands := redistest.PublishCommands()
	last := commands[len(commands)-1]
	for i := range 30 {
		key := fmt.Sprint("{k", i, "}")
		at, name := c.MasterOf(key), "talk:"+key
		c.Nodes()[i%3].Do(t, "PUBLISH", name, "plain")
		at.Do(t, last, name, "home")
		at.Do(t, "SET", key, "x")
		r, err := d.Do(t.Context(), driver.Call{Script: shout, Keys: []string{name}, Args: []string{"script", "PUBLISH"}})
		if err != nil || r.Str != last {
			t.Fatal(r, err)
		}
		for _, want := range []string{name + ":plain", name + ":home", name + ":script", "__keyspace@0__:" + key + ":set"} {
			locktest.Eventually(t, soon, want, func() bool { return h.Seen(want) == 1 })
		}
	}
	l.Unsubscribe(channels...)
	for _, s := range c.Nodes() {
		locktest.Eventually(t, soon, "no channels left", func() bool {
			return len(s.Channels(t)) == 0 && len(s.ShardChannels(t)) == 0
		})
	}
	h.Check(t)
}

// A watched is a driver with a listener and a watcher. Keys move meanwhile.
type watched struct {
	d    *goredis.Driver
	h    *drivertest.Recorder
	told atomic.Int64
}

// What moves: a key, and channels where it lives, one that is published on in
// both families and one of the key's events.
const (
	key  = "{k}"
	talk = "talk:{k}"
	life = "__keyspace@0__:{k}"
)

func watch(t *testing.T, client redis.UniversalClient) *watched {
	t.Helper()
	w := &watched{d: connect(t, client), h: drivertest.NewRecorder()}
	t.Cleanup(w.d.Watch(func() { w.told.Add(1) }))
	l := w.d.Listen(w.h)
	l.Subscribe(talk, life)
	for _, c := range []string{talk, life} {
		locktest.Eventually(t, soon, c, func() bool { return w.h.Seen("+"+c) > 0 })
	}
	return w
}

// moves checks that a driver follows a key that moves, both with its calls and
// with its subscriptions. No call redirects the driver before that.
func (w *watched) moves(t *testing.T, limit time.Duration, move func() (to *redistest.Server)) {
	t.Helper()
	if _, err := w.d.Do(t.Context(), addOne(key)); err != nil {
		t.Fatal(err)
	}
	before := w.d.Place(key)
	w.told.Store(0)
	var again []func() bool
	for _, c := range []string{talk, life} {
		again = append(again, w.h.More("-"+c), w.h.More("+"+c))
	}
	to := move()
	start := time.Now()
	locktest.Eventually(t, limit, "another term", func() bool { return w.d.Place(key).Term > before.Term })
	locktest.Eventually(t, limit, "a call", func() bool {
		_, err := w.d.Do(t.Context(), addOne(key))
		return err == nil
	})
	for _, cond := range again {
		locktest.Eventually(t, limit, "channels lost and found", cond)
	}
	locktest.Eventually(t, limit, "the watcher is called", func() bool { return w.told.Load() > 0 })
	heard := []func() bool{w.h.More(talk + ":plain"), w.h.More(life + ":set")}
	if w.d.Facts(t.Context())[0].Cluster && redistest.HasSharded() {
		heard = append(heard, w.h.More(talk+":sharded"))
	}
	locktest.Eventually(t, limit, "messages", func() bool {
		_, _ = to.Try("PUBLISH", talk, "plain")
		_, _ = to.Try("SPUBLISH", talk, "sharded")
		_, _ = to.Try("SET", key, "1")
		return !slices.ContainsFunc(heard, func(f func() bool) bool { return !f() })
	})
	t.Logf("followed within %v", time.Since(start))
	w.h.Check(t)
}

func TestSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.Args("--notify-keyspace-events", "KEA"), calm)
	w := watch(t, cluster(c))
	from := c.MasterOf(key)
	to := other(c, from)
	for _, migrate := range c.Migrations() {
		for range 2 { // there and back
			w.moves(t, soon, func() *redistest.Server {
				migrate(redistest.SlotOf(key), to)
				return to
			})
			locktest.Eventually(t, soon, "the key lives at the new node", func() bool { return w.d.Place(key).Node == to.Addr() })
			from, to = to, from
		}
	}
}

// other returns a master that is not the one given.
func other(c *redistest.Cluster, not *redistest.Server) *redistest.Server {
	return slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == not })[0]
}

// A slot is half moved: calls find their key, on either side.
func TestSlotHalfMoved(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, calm)
	d := connect(t, cluster(c))
	keys := []string{"{k}here", "{k}there"}
	calls := []driver.Call{addOne(keys[0]), addOne(keys[1])}
	d.DoMany(t.Context(), calls)
	m := c.BeginMigration(redistest.SlotOf("{k}"), other(c, c.MasterOf("{k}")))
	m.Move("{k}there")
	want := int64(1)
	check := func(what string) {
		t.Helper()
		want++
		for _, call := range calls {
			if r, err := d.Do(t.Context(), call); err != nil || r.Int != want {
				t.Errorf("%s: %v, %v, want %d", what, r, err, want)
			}
		}
		want++
		for _, r := range d.DoMany(t.Context(), calls) {
			if r.Err != nil || r.Reply.Int != want {
				t.Errorf("%s, many: %+v, want %d", what, r, want)
			}
		}
		want++
		for _, r := range d.DoAcked(t.Context(), calls, 1, 5*time.Second) {
			if r.Err != nil || r.Reply.Int != want || r.Acked != 1 {
				t.Errorf("%s, acked: %+v, want %d", what, r, want)
			}
		}
	}
	check("half moved")
	for _, s := range c.Masters() {
		s.Do(t, "SCRIPT", "FLUSH")
	}
	check("scripts forgotten")
	m.Finish()
	check("moved")
}

// go-redis by itself needs up to a minute to look for a new master.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redistest.Server){
		"killed": (*redistest.Server).Kill,
		"paused": (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, redistest.Args("--notify-keyspace-events", "KEA"))
			w := watch(t, cluster(c))
			w.moves(t, 30*time.Second, func() *redistest.Server {
				old := c.MasterOf(key)
				end(old)
				to, _ := c.AwaitFailover(old)
				return to
			})
		})
	}
}

// In a cluster a refused channel costs no other channel its messages either,
// in both families of channels.
func TestForbiddenInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), calm)
	drivertest.Limit(t, c.Nodes()...)
	o := redis.ClusterOptions{Username: "limited", Password: "secret", ReadTimeout: silence, MaintNotificationsConfig: unannounced()}
	for _, s := range c.Nodes() {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	drivertest.Forbidden(t, connect(t, redis.NewClusterClient(&o)), c.MasterOf("x"), redistest.PublishCommands()...)
}

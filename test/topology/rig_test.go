package topology_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// lease is the usual lease time of renewed leases.
const lease = 4 * time.Second

// slack is the delay that a busy machine may add to any time. A broken promise
// is late by more.
const slack = 5 * time.Second

var (
	async = holdfast.Replication{Mode: holdfast.Async}
	acked = holdfast.Replication{Mode: holdfast.Acked}

	// sentinelModes are the modes of clients whose master has two replicas.
	sentinelModes = []holdfast.Replication{async, acked, strict(2)}

	// clusterModes are the modes of clients whose masters have one replica each.
	clusterModes = []holdfast.Replication{async, acked, strict(1)}
)

func strict(replicas int) holdfast.Replication {
	return holdfast.Replication{Mode: holdfast.Strict, Replicas: replicas, Timeout: 500 * time.Millisecond}
}

// side is one of two groups of servers that a partition separates.
type side = redistest.Side

// patient makes the nodes of a cluster wait for each other longer than any of
// these tests pauses one.
var patient = redistest.Args("--cluster-node-timeout", "15000")

// A world is a deployment, seen by clients of one replication mode.
type world struct {
	*testing.T
	url    string
	mode   holdfast.Replication
	prefix string // of the names of its locks

	clients []*holdfast.Client
	stalls  *redistest.StallMeter // of the master; see holder.lost

	single    *redistest.Server    // nil in other deployments
	sentinels *redistest.Sentinels // nil in other deployments
	cluster   *redistest.Cluster   // nil in other deployments
}

// A fleet is several worlds on the same servers, one for each mode. A fault is
// a fault for all of them.
type fleet []*world

// inSingle runs a test with one server and one world.
func inSingle(t *testing.T, test func(fleet), opts ...redistest.Option) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartWith(t, opts...)
		test(fleet{{T: t, url: s.URL(), mode: async, single: s}})
	})
}

// inSentinels runs a test with a master and two replicas under three Sentinels.
func inSentinels(t *testing.T, modes []holdfast.Replication, test func(fleet), opts ...redistest.Option) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinels(t, opts...)
		var f fleet
		for _, mode := range modes {
			f = append(f, &world{T: t, prefix: mode.Mode.String() + "-", url: s.URL(), mode: mode, sentinels: s})
		}
		test(f)
	})
}

// inCluster runs a test in a cluster with three masters and a replica for each.
// The names of all worlds belong to the first master.
func inCluster(t *testing.T, test func(*redistest.Cluster, fleet), opts ...redistest.Option) {
	t.Parallel()
	c := redistest.StartCluster(t, opts...)
	f := clusterFleet(t, c)
	test(c, f)
	for _, w := range f {
		w.leavesNothing()
	}
}

// clusterFleet returns a world for each mode of clients of a cluster.
func clusterFleet(t *testing.T, c *redistest.Cluster) fleet {
	var f fleet
	for _, mode := range clusterModes {
		f = append(f, &world{T: t, url: c.URL(), mode: mode, cluster: c, prefix: tag(0, mode.Mode.String())})
	}
	return f
}

// tag returns a hash tag that belongs to one of three shards while no slot has
// moved.
func tag(shard int, about string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("{", about, i, "}"); (3*redistest.SlotOf(name)+2)/16384 == shard {
			return name
		}
	}
}

// leaseTime sets the lease time of renewed leases.
func leaseTime(d time.Duration) func(*holdfast.Options) {
	return func(o *holdfast.Options) { o.WatchdogTimeout = d }
}

// usual leaves the options as they are.
func usual(*holdfast.Options) {}

// long gives renewed leases so much time that a loss at their end is told from
// a loss at a renewal.
func long(o *holdfast.Options) { o.WatchdogTimeout = 20 * time.Second }

// lasting gives renewed leases more time than any failover or a busy machine takes.
func lasting(o *holdfast.Options) { o.WatchdogTimeout = 5 * time.Minute }

// open returns a client of the world.
func (w *world) open(change ...func(*holdfast.Options)) *holdfast.Client {
	w.Helper()
	return w.openAt(w.url, change...)
}

// openAt returns a client with another URL.
func (w *world) openAt(url string, change ...func(*holdfast.Options)) *holdfast.Client {
	w.Helper()
	o := holdfast.Options{
		WatchdogTimeout: lease, RenewEvery: 500 * time.Millisecond,
		PollInterval: time.Second, RetryTimeout: 60 * time.Second, Replication: w.mode, Anonymous: true,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := holdfast.Open(w.Context(), url, &o)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(end); {
		c, err = holdfast.Open(w.Context(), url, &o) // a server did not answer in time
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	w.clients = append(w.clients, c)
	return c
}

// with adds parameters to a URL.
func with(url, params string) string {
	if strings.Contains(url, "?") {
		return url + "&" + params
	}
	return url + "?" + params
}

// key returns a name of this world alone.
func (w *world) key(name string) string { return w.prefix + name }

// strictly reports whether exclusion is promised across failovers.
func (w *world) strictly() bool { return w.mode.Mode == holdfast.Strict }

// errorf fails the test and names the mode of the world.
func (w *world) errorf(format string, args ...any) {
	w.Helper()
	w.Errorf("%v: "+format, append([]any{w.mode.Mode}, args...)...)
}

// master returns the server that stores a name.
func (w *world) master(name string) *redistest.Server {
	w.Helper()
	switch {
	case w.sentinels != nil:
		return w.sentinels.Master()
	case w.cluster != nil:
		return w.cluster.MasterOf(name)
	}
	return w.single
}

// eventually waits until a condition is true.
func (w *world) eventually(limit time.Duration, what string, cond func() bool) {
	w.Helper()
	locktest.Eventually(w, limit, fmt.Sprint(w.mode.Mode, ": ", what), cond)
}

// follows waits until a client uses a master.
func (w *world) follows(c *holdfast.Client, master *redistest.Server) {
	w.Helper()
	w.eventually(30*time.Second, "the client uses the new master "+master.Addr(), func() bool {
		return c.Driver().Place("").Node == master.Addr()
	})
}

// notReplicated checks that a lock is refused because replicas are missing. A
// try that the master has not answered proves nothing.
func (w *world) notReplicated(m holdfast.Locker) {
	w.Helper()
	redistest.MeterStalls(w, w.master("")).Rounds(w, 500*time.Millisecond, func() error {
		l, err := m.TryLock(context.Background())
		if err == nil {
			_ = l.Release(context.Background())
			w.errorf("too few replicas have %q, and yet it was granted", l.Name())
			return nil
		}
		if !errors.Is(err, holdfast.ErrNotReplicated) || !errors.Is(err, holdfast.ErrUnavailable) {
			return fmt.Errorf("%v: too few replicas have it, and yet: %w", w.mode.Mode, err)
		}
		return nil
	})
}

// leavesNothing closes the clients and checks that no node keeps anything of
// theirs: no key but the counters of fenced locks, no subscription.
func (w *world) leavesNothing() {
	w.Helper()
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.errorf("close: %v", err)
		}
	}
	lists := [][]string{{"KEYS"}, {"PUBSUB", "CHANNELS"}}
	if redistest.HasSharded() {
		lists = append(lists, []string{"PUBSUB", "SHARDCHANNELS"})
	}
	var left []string
	nothing := func() bool {
		left = nil
		for _, s := range w.cluster.Masters() {
			for _, args := range lists {
				reply, err := s.Try(append(args, "*"+w.prefix+"*")...)
				if err != nil {
					left = append(left, err.Error())
				}
				list, _ := reply.([]any)
				for _, e := range list {
					if name := fmt.Sprint(e); !strings.HasPrefix(name, "redisson_lock_token:") {
						left = append(left, args[0]+" "+name)
					}
				}
			}
		}
		return len(left) == 0
	}
	if !redistest.Poll(lease+slack, nothing) {
		w.errorf("left behind: %q", left)
	}
}

// master returns the server that stores all names.
func (f fleet) master() *redistest.Server { return f[0].master(f[0].prefix) }

// sentinels returns the deployment, or nil if there are no Sentinels.
func (f fleet) sentinels() *redistest.Sentinels { return f[0].sentinels }

// patient keeps the Sentinels, if there are any, from replacing a slow server.
func (f fleet) patient() { f.downAfter("60000") }

// patientBut keeps a cluster from replacing a slow node. The time of one node, which may not
// answer, stays as it is.
func (f fleet) patientBut(node *redistest.Server) {
	for _, n := range f[0].cluster.Others(node) {
		n.Do(f[0], "CONFIG", "SET", "cluster-node-timeout", "15000")
	}
}

// watchful ends patient. A test calls it when a server is about to fail.
func (f fleet) watchful() { f.downAfter("1000") }

// downAfter sets how many milliseconds of silence the Sentinels tolerate.
func (f fleet) downAfter(ms string) {
	if f.sentinels() == nil {
		return
	}
	for _, s := range f.sentinels().Sentinels() {
		s.Do(f[0], "SENTINEL", "SET", f.sentinels().MasterName(), "down-after-milliseconds", ms)
	}
}

// never makes sure that the Sentinels do not promote a replica.
func (f fleet) never(replica *redistest.Server) {
	s := f.sentinels()
	replica.Do(f[0], "CONFIG", "SET", "replica-priority", "0")
	for _, watcher := range s.Sentinels() {
		f[0].eventually(30*time.Second, "the Sentinels know of the priority", func() bool {
			n := 0
			list, _ := watcher.Do(f[0], "SENTINEL", "REPLICAS", s.MasterName()).([]any)
			for _, e := range list {
				words, _ := e.([]any)
				for i := 0; i+1 < len(words); i += 2 {
					if words[i] == "slave-priority" && words[i+1] == "0" {
						n++
					}
				}
			}
			return n == 1
		})
	}
}

// run runs a part of the test for all worlds as a subtest.
func (f fleet) run(name string, part func(fleet)) {
	f[0].Run(name, func(t *testing.T) {
		var sub fleet
		for _, w := range f {
			same := *w
			same.T = t
			sub = append(sub, &same)
		}
		part(sub)
	})
}

// empty checks that a server has no key and no subscription, soon after all
// locks were released.
func empty(t testing.TB, s *redistest.Server) {
	t.Helper()
	var keys, channels []string
	empty := redistest.Poll(10*time.Second, func() bool {
		keys = s.Keys(t)
		channels = slices.DeleteFunc(s.Channels(t), func(c string) bool { return strings.HasPrefix(c, "__sentinel__") })
		return len(keys) == 0 && len(channels) == 0
	})
	if empty {
		return
	}
	t.Errorf("left behind: %d keys: %.500q, %d channels: %.500q", len(keys), keys, len(channels), channels)
}

// A logbook collects what clients log and the errors that they return.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// add notes an error.
func (b *logbook) add(err error) { fmt.Fprintln(b, err) }

// of makes a client log here.
func (b *logbook) of(o *holdfast.Options) {
	o.Logger = slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// mustNotSay checks that a secret is not in the log.
func (b *logbook) mustNotSay(t testing.TB, secret string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.Contains(b.text.String(), secret) {
		t.Errorf("the password is in a log or an error:\n%s", b.text.String())
	}
}

package interop_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

const (
	// fleetLease is the lease time in a fleet. It is long enough to distinguish a waiter
	// that got a message from one that waited for the end of the lease.
	fleetLease = 10 * time.Second
	told       = 5 * time.Second
)

// clusterFleet is a cluster with Java clients of all subscription modes and Go clients of
// all publishing modes.
type clusterFleet struct {
	*redistest.Cluster
	java   map[string]*redisson
	golang map[string]*holdfast.Client
	moving sync.Mutex // allows one slot migration at a time
}

// plain lists the clients that publish with PUBLISH. The others use SPUBLISH.
var plain = map[string]bool{"OFF": true, "era": true, "off": true}

func startClusterFleet(t *testing.T) *clusterFleet {
	f := &clusterFleet{Cluster: redistest.StartCluster(t), java: make(map[string]*redisson), golang: make(map[string]*holdfast.Client)}
	for _, mode := range []string{"era", "AUTO", "ON", "OFF"} {
		f.java[mode] = f.join(t, mode, fleetLease)
	}
	for _, mode := range []string{"auto", "on", "off"} {
		f.golang[mode] = open(t, f.URL()+"?sharded="+mode, holdfast.Options{WatchdogTimeout: fleetLease})
	}
	return f
}

// join returns a Java client of a mode.
func (f *clusterFleet) join(tb testing.TB, mode string, lease time.Duration) *redisson {
	config := interop.Cluster(addrs(f.Nodes())...).With("lockWatchdogTimeout", lease.Milliseconds())
	if mode == "era" {
		return join(tb, peer(tb, interop.Era), config)
	}
	return join(tb, peer(tb, interop.Current), config.With("clusterServersConfig.shardedSubscriptionMode", mode))
}

func addrs(servers []*redistest.Server) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// party returns a party of the side that has a client with this mode.
func (f *clusterFleet) party(tb testing.TB, mode string, k kind, name string) party {
	if r := f.java[mode]; r != nil {
		return newJava(tb, r, k, name, name+mode)
	}
	return newGo(f.golang[mode], k, name)
}

func TestClusterFleet(t *testing.T) {
	t.Parallel()
	f := startClusterFleet(t)
	t.Run("wake-up", f.wakeUp)
	t.Run("side by side", func(t *testing.T) {
		t.Run("exclusion", f.exclusion)
		t.Run("moved while they wait", f.movedWaiters)
		t.Run("moved while they take turns", f.movedTurns)
		t.Run("half moved", f.halfMoved)
		t.Run("many", f.many)
	})
}

// Go receives the messages of Java in every mode. Java receives the messages of Go if both
// publish in the same way. Otherwise a Java waiter checks at the end of the lease that it
// has seen. For a semaphore or a latch it waits for the next message in its own mode.
func (f *clusterFleet) wakeUp(t *testing.T) {
	var all, deaf []*handover
	for _, c := range [][2]string{
		{"AUTO", "auto"},
		{"AUTO", "on"},
		{"AUTO", "off"},
		{"ON", "auto"},
		{"ON", "off"},
		{"OFF", "auto"},
		{"OFF", "off"},
		{"era", "auto"},
		{"era", "off"},
	} {
		all = append(all, handovers(t, c[0], c[1], f.java[c[0]], f.golang[c[1]])...)
	}
	beginAll(t, f.Nodes(), all)
	pass(t, all)
	var heard, looked time.Duration // the longest times
	for _, h := range all {
		hears := h.javaFirst || plain[h.java] == plain[h.golang]
		if !hears && !h.looks {
			deaf = append(deaf, h)
			continue
		}
		took, ok := h.took(t, fleetLease+slack)
		if !ok || hears && took > told {
			t.Errorf("%v: after %v (%v)", h, took, ok)
		}
		if hears {
			heard = max(heard, took)
		} else {
			looked = max(looked, took)
		}
	}
	t.Logf("%d handovers; longest time with a message %v, without %v", len(all), heard, looked)
	if looked < told {
		t.Error("waiters that cannot receive the message were woken by it")
	}
	for _, h := range deaf { // the waiters that check by themselves have arrived by now
		if _, ok := h.took(t, 0); ok {
			t.Errorf("%v: the waiter got a message", h)
			continue
		}
		mode := "on"
		if plain[h.java] {
			mode = "off"
		}
		other := h.relay.golang(f.golang[mode], h.name)
		other.Hold(t)
		h.passed = other.Pass(t)
		if _, ok := h.took(t, 10*time.Second); !ok {
			t.Errorf("%v: the waiter got no message from Go %s, either", h, mode)
		}
	}
}

// Clients that receive each other's messages take turns with locks on all masters. So do
// clients that do not, but some of them sleep until the end of a lease.
func (f *clusterFleet) exclusion(t *testing.T) {
	t.Parallel()
	for _, fleet := range []struct {
		name  string
		kinds []string
		modes []string
		least int // minimum number of visits of each client
	}{
		{"sharded", []string{"mutex", "fair", "write"}, []string{"AUTO", "ON", "auto", "on"}, 5},
		{"plain", []string{"mutex", "fair", "write"}, []string{"OFF", "era", "off", "off"}, 5},
		{"mixed", []string{"mutex", "write"}, []string{"AUTO", "OFF", "era", "auto", "off"}, 1},
	} {
		for _, k := range fleet.kinds {
			t.Run(fleet.name+" "+k, func(t *testing.T) {
				t.Parallel()
				n := name(t)
				var parties []party
				for _, mode := range fleet.modes {
					parties = append(parties, f.party(t, mode, kindOf(k), n))
				}
				visits := takeTurns(t, n, count(parties...), func(parties []*counted) { awaitVisits(parties, fleet.least, 200) })
				t.Log(fleet.modes, visits)
				for i, v := range visits {
					if v < fleet.least {
						t.Errorf("%s was inside %d times", fleet.modes[i], v)
					}
				}
			})
		}
	}
}

// A counted party counts its entries.
type counted struct {
	party
	visits atomic.Int64
}

func (c *counted) Lock(tb testing.TB, lease time.Duration) int64 {
	tb.Helper()
	defer c.visits.Add(1)
	return c.party.Lock(tb, lease)
}

// count makes parties count their entries.
func count(parties ...party) (all []*counted) {
	for _, p := range parties {
		all = append(all, &counted{party: p})
	}
	return all
}

// awaitVisits waits until each party has entered that often from now on, and all together have
// entered so many times. It gives up after a minute.
func awaitVisits(parties []*counted, least, together int) {
	before := make([]int, len(parties))
	for i, p := range parties {
		before[i] = int(p.visits.Load())
	}
	redistest.Poll(time.Minute, func() bool {
		total, some := 0, false
		for i, p := range parties {
			n := int(p.visits.Load()) - before[i]
			total, some = total+n, some || n < least
		}
		return !some && total >= together
	})
}

// takeTurns makes parties acquire and release a lock until the function during returns, and then
// once more. It checks that they held the lock one at a time, and returns the number of visits
// of each.
func takeTurns(t *testing.T, name string, parties []*counted, during func(parties []*counted)) []int {
	t.Helper()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		during(parties)
	}()
	var mu sync.Mutex
	var all []redistest.Interval
	visits := make([]int, len(parties))
	var wg sync.WaitGroup
	for i, p := range parties {
		wg.Go(func() {
			for last := false; !last; visits[i]++ {
				select {
				case <-stop:
					last = true
				default:
				}
				entered := p.Lock(t, 0)
				locktest.Work(time.Millisecond)
				left := p.Unlock(t)
				mu.Lock()
				all = append(all, redistest.Interval{Name: name, Owner: fmt.Sprint(i), Enter: entered, Leave: left})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := redistest.CheckExclusive(all); err != nil {
		t.Error(err)
	}
	return visits
}

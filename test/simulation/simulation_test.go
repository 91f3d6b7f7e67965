// Package simulation_test runs clients of all kinds on the real scripts in faked time, under
// random faults. A profile says which kinds, clients and faults a schedule has, and a seed
// decides what is random:
//
//	HOLDFAST_SEED=fair:17 go test -run TestSeed -v ./test/simulation
//
// runs that schedule alone and prints its timeline.
//
// What is promised depends on the setting of a profile:
//
//   - steady: the server keeps its memory and its clock. A replica that replaces it has
//     everything. P1, P2 and P3 hold.
//   - strict: the mode is Strict. A replica lacks what it has not acknowledged, a master
//     that was replaced may still answer, clocks differ by less than ClockSkew, and
//     clients free locks by force. P1 and P2 hold, except for what was freed by force.
//   - weak: the mode is Async or Acked. The same faults, and clocks that are set by
//     seconds. A holder is told in time after its server has lost the lock. Until then
//     another may hold it.
//
// In each of them no lease is valid for longer than a server has promised, nor after the server has
// said that its owner does not hold the lock. P5 to P8 hold at each call, while the client can reach
// the server. In the profiles named "quiet" there are no faults and no looks: messages alone must
// grant within 100 ms. At the end only lasting keys are left, and no goroutine runs.
//
// These faults occur:
//
//   - Requests, replies and messages are lost, delayed, reordered and repeated. Links freeze, and
//     subscriptions break.
//   - Clients crash, are closed, give up within milliseconds, and lack the rights to the queue. Their
//     machine is suspended.
//   - The master stops for seconds, for longer than a lease, or just after a grant. It forgets its
//     scripts. It is replaced by its replica, which clients notice at different times. A server of a
//     Redlock loses its data.
//   - The replica receives nothing for seconds, and lacks the last writes when it is promoted.
//   - Clocks are set forward or back by up to 5 s.
//   - Other programs publish forged grants, and free locks by force.
//
// TestSchedules prints its plan, such as fair:17, and for the first failure a smaller plan, such as
// fair:17/1,0,2/3,5#3f81a0: the users of each client, the numbers of the faults, and a fingerprint
// of the timeline. A plan with a fingerprint replays exactly that run, again and again if Go's
// scheduler decided otherwise.
package simulation_test

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

func init() {
	clock.Fake()
	cryptorand.Reader = randomBytes
}

const poll = 2300 * time.Millisecond

func one(name string, kinds ...kind) *object { return &object{name: name, kinds: kinds} }

func all(os ...*object) []*object { return os }

// many returns n objects, each of one of the kinds.
func many(n int, kinds ...kind) (all []*object) {
	for i := range n {
		all = append(all, one(fmt.Sprintf("o%d", i), kinds[i%len(kinds)]))
	}
	return all
}

var clientFaults = []*fault{freeze, disconnect, crash, delay, delay, lossy, lossy, deaf}

// silent turns looks off: what is granted is granted by messages.
func silent(o *holdfast.Options) { o.PollInterval = time.Hour }

// noQueue is a user without rights to the queue, of every other client.
func noQueue(client int) func(string) bool {
	if client%2 == 1 {
		return nil
	}
	return func(key string) bool { return !strings.HasPrefix(key, "holdfast:queue:") }
}

var profiles = []profile{
	{name: "mutex", clients: [2]int{2, 5}, users: 3, objects: all(one("a", mutex)), faults: append([]*fault{pause, suspend, shutdown}, clientFaults...)},
	{name: "fenced", clients: [2]int{2, 5}, users: 3, objects: all(one("a", fenced)), faults: append([]*fault{pause, suspend, shutdown}, clientFaults...)},
	{name: "fair", clients: [2]int{2, 6}, users: 3, objects: all(one("a", fair)), faults: append([]*fault{pause, suspend, shutdown}, clientFaults...)},
	{name: "rw", clients: [2]int{2, 6}, users: 4, objects: all(one("a", read, read, write, first)), faults: append([]*fault{pause, suspend, shutdown}, clientFaults...)},
	{name: "readers", clients: [2]int{1, 3}, users: 12, objects: all(one("a", read, read, read, read, write)), faults: append([]*fault{pause, suspend, shutdown}, clientFaults...)},
	{name: "permits", clients: [2]int{2, 20}, users: 2, objects: all(&object{name: "a", capacity: 6, kinds: []kind{permits(1, 6), permits(2, 6), permits(5, 6)}}), faults: append([]*fault{pause, shutdown}, clientFaults...)},
	{name: "election", clients: [2]int{2, 6}, users: 1, objects: all(one("a", elects)), faults: append([]*fault{pause, shutdown}, clientFaults...)},
	{name: "mixed", clients: [2]int{2, 6}, users: 3, objects: all(one("a", mutex, fair, fenced, read, write)), faults: append([]*fault{pause, shutdown}, clientFaults...)},
	{name: "sets", clients: [2]int{2, 6}, users: 2, sets: true, objects: all(one("a", mutex), one("b", mutex, write), one("c", mutex, mutex, first, fair)), faults: append([]*fault{flush, pause, shutdown}, clientFaults...)},
	{name: "crowd", clients: [2]int{20, 60}, users: 1, objects: all(one("a", mutex)), faults: append([]*fault{pause, shutdown, crash, crash}, clientFaults...)},
	{name: "quiet", clients: [2]int{2, 12}, users: 3, objects: all(one("a", mutex), one("b", fenced)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet fair", clients: [2]int{2, 12}, users: 3, objects: all(one("a", fair)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet renewed fair", clients: [2]int{2, 12}, users: 3, renewed: true, objects: all(one("a", fair)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet rw", clients: [2]int{2, 12}, users: 3, objects: all(one("a", read, write, first)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet permits", clients: [2]int{2, 30}, users: 2, objects: all(&object{name: "a", capacity: 6, kinds: []kind{permits(1, 6), permits(2, 6), permits(5, 6)}}), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet mixed", clients: [2]int{2, 12}, users: 3, objects: all(one("a", mutex, fenced, read, write)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet mixed fair", clients: [2]int{2, 12}, users: 3, objects: all(one("a", mutex, fair, write)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet sets", clients: [2]int{2, 8}, users: 2, sets: true, objects: all(one("a", mutex), one("b", mutex), one("c", mutex)), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "quiet few permits", clients: [2]int{2, 5}, users: 2, objects: all(&object{name: "a", capacity: 3, kinds: []kind{permits(1, 3), permits(2, 3), permits(3, 3)}}), options: silent, kept: true, bound: 100 * time.Millisecond},
	{name: "hasty", clients: [2]int{2, 8}, users: 4, hasty: true, kept: true, objects: all(one("a", fair), one("b", mutex), one("c", fenced), one("d", write, first, read))},
	{name: "fair sets", clients: [2]int{2, 6}, users: 2, sets: true, kept: true, objects: all(one("a", fair), one("b", mutex, mutex, write), one("c", fair, mutex))},
	{name: "rights", clients: [2]int{2, 5}, users: 3, objects: all(one("a", mutex, fenced, write)), rights: noQueue, faults: append([]*fault{shutdown, shutdown}, clientFaults...)},
	{name: "full", clients: [2]int{1, 12}, users: 8, long: true, options: func(o *holdfast.Options) { o.MaxQueue = 4 }, objects: all(one("a", mutex), one("b", fair)), faults: []*fault{crash, crash, delay, lossy, freeze}},
	{name: "stays", clients: [2]int{2, 5}, users: 2, stays: true, objects: all(one("a", mutex, fenced)), faults: append([]*fault{pause, shutdown}, clientFaults...)},
	{name: "forged", clients: [2]int{2, 5}, users: 2, objects: all(one("a", mutex)), faults: []*fault{forge, delay, freeze}},
	{name: "outage", clients: [2]int{4, 16}, users: 2, objects: all(one("a", mutex)), faults: []*fault{outage, delay, freeze, lossy}},
	{name: "redlock", servers: 3, clients: [2]int{2, 6}, users: 1, objects: all(&object{name: "a", kinds: []kind{quorum}, votes: true}), faults: append([]*fault{flush, pause, wipe, wipe}, clientFaults...)},
	{name: "pauses", clients: [2]int{2, 6}, users: 3, kept: true, long: true, objects: all(one("a", mutex)), options: func(o *holdfast.Options) { o.WatchdogTimeout, o.RenewEvery = 20*time.Second, 6*time.Second }, faults: []*fault{short, atGrant, atGrant, atGrant}},
	{name: "combined", clients: [2]int{1, 2}, users: 60, bursts: 4 * time.Second, objects: many(40, mutex, mutex, mutex, fenced), faults: []*fault{slow, slow, flush}, bound: 1200 * time.Millisecond},
	{name: "various", various: true, clients: [2]int{2, 4}, users: 3, objects: all(one("a", mutex)), faults: append([]*fault{pause, failover, failover, suspend, shutdown}, clientFaults...)},
	{name: "strict", setting: strict, clients: [2]int{2, 5}, users: 3, objects: all(one("a", mutex)), faults: append([]*fault{pause, failover, failover, isolate, setClock, force, suspend}, clientFaults...)},
	{name: "strict kinds", setting: strict, clients: [2]int{2, 5}, users: 3, objects: all(one("a", fenced, mutex), one("b", fair), one("c", read, write)), faults: append([]*fault{flush, pause, failover, failover, isolate, force, suspend}, clientFaults...)},
	{name: "weak kinds", setting: weak, clients: [2]int{2, 5}, users: 3, objects: all(one("a", fenced), one("b", fair), one("c", read, write), &object{name: "d", capacity: 3, kinds: []kind{permits(1, 3), permits(2, 3)}}), faults: append([]*fault{flush, pause, failover, failover, isolate, force, suspend}, clientFaults...)},
	{name: "weak", setting: weak, clients: [2]int{2, 5}, users: 3, objects: all(one("a", mutex)), faults: append([]*fault{pause, failover, failover, isolate, setClock, force, suspend}, clientFaults...)},
}

// profileOf returns the profile with a name, or nil.
func profileOf(name string) *profile {
	for i := range profiles {
		if profiles[i].name == name {
			return &profiles[i]
		}
	}
	return nil
}

// planNumber returns the plan of schedule n: the profiles take turns, all or those that
// HOLDFAST_PROFILE names, separated by commas.
func planNumber(t *testing.T, n uint64) plan {
	t.Helper()
	names := os.Getenv("HOLDFAST_PROFILE")
	if names == "" {
		return planOf(n, &profiles[n%uint64(len(profiles))])
	}
	some := strings.Split(names, ",")
	p := profileOf(some[n%uint64(len(some))])
	if p == nil {
		t.Fatalf("HOLDFAST_PROFILE is %q, which is not a list of profiles", names)
	}
	return planOf(n, p)
}

// schedule runs one schedule and returns the world at its end.
func schedule(t *testing.T, p plan) (w *world) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector changes the order of goroutines
	clock.Seed(p.seed)
	randomBytes.Seed([32]byte{byte(p.seed), byte(p.seed >> 8), byte(p.seed >> 16), byte(p.seed >> 24)})
	synctest.Test(t, func(t *testing.T) {
		w = &world{
			plan: p, begun: time.Now(),
			owners: make(map[key]*owner), clients: make(map[string]place), tokens: make(map[string]int64), before: make(map[*object]before), permitted: make(map[key]bool), uses: make(map[*object]*use),
			stale: make(map[*process]time.Time), queued: make(map[string]bool), free: make(map[*call]time.Time),
		}
		if err := w.begin(); err != nil {
			t.Fatal(err)
		}
		w.run()
	})
	return w
}

// randomBytes replaces the random bytes of the machine, so that a seed replays.
var randomBytes = rand.NewChaCha8([32]byte{})

func (w *world) run() {
	defer func() { clock.Skip(-w.slept) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var users sync.WaitGroup
	var stops []func()
	for i, p := range w.processes {
		for g := range w.plan.users[i] {
			one, cancel := context.WithCancel(ctx)
			stops = append(stops, cancel)
			users.Go(func() { w.use(one, p, g) })
		}
	}
	users.Go(func() { w.look(ctx) })
	for _, f := range w.plan.faults {
		time.Sleep(f.after)
		if f.fault != nil {
			f.fault.do(w, w.processes[f.client], w.plan.random(ofFaults+uint64(f.number)), f.span)
		}
	}
	before := make([]int, len(w.processes))
	w.mu.Lock()
	for i, p := range w.processes {
		before[i] = p.served
	}
	w.mu.Unlock()
	if len(w.plan.profile.faults) > 0 && w.plan.profile.bound == 0 {
		w.quiet(faults{loseMessage: 100, delay: time.Millisecond})
	}
	w.quiet(faults{delay: time.Millisecond})
	w.judgeServed(before)
	for _, cancel := range stops { // one after the other, so that a seed replays
		cancel()
		time.Sleep(time.Microsecond)
	}
	stop()
	users.Wait()
	time.Sleep(65 * time.Second) // what the dead have left is over
	w.judgeEnd()
	for _, n := range w.nets {
		close(n.down)
	}
	for _, p := range w.processes {
		for _, c := range p.clients {
			if err := c.Close(); err != nil && !errors.Is(err, driver.ErrClosed) {
				w.failf("P7", "Close returns %v", err)
			}
		}
	}
	scripted = w.net.master.data.Copy()
	_, _ = scripted.Do("FLUSHALL")
	scripted.SetClock(0)
}

// quiet sets the same faults for all clients, for some time.
func (w *world) quiet(f faults) {
	w.note("from now on: %v", f)
	for _, p := range w.processes {
		for _, l := range p.links {
			l.set(f) // a link that is cut off stays so: what was sent before is not overtaken
		}
	}
	time.Sleep(30 * time.Second)
}

// text returns the timeline.
func (w *world) text() []string {
	lines := make([]string, len(w.trace))
	for i, e := range w.trace {
		lines[i] = fmt.Sprintf("%12v %s", e.at.Round(time.Microsecond), w.readable(fmt.Sprintf(e.format, e.args...)))
	}
	return lines
}

// String returns which promises were broken.
func (w *world) String() string {
	var b strings.Builder
	failed := slices.Clone(w.failed)
	slices.SortStableFunc(failed, func(f, g failure) int { // what is not known comes first
		return cmp.Compare(w.explained(f), w.explained(g))
	})
	for i, f := range failed {
		if i == 3 {
			fmt.Fprintf(&b, "\n  and %d more", len(w.failed)-i)
			break
		}
		fmt.Fprintf(&b, "\n  after %v, %s: %s", f.at.Round(time.Millisecond), f.promise, f.text)
	}
	p := w.plan
	p.print = w.fingerprint()
	return fmt.Sprintf("HOLDFAST_SEED=%v%s", p, b.String())
}

// TestSeed replays the schedule that HOLDFAST_SEED names, makes it as small as it can, and
// prints its timeline. HOLDFAST_PROMISE chooses the promise that it must break, such as P5.
func TestSeed(t *testing.T) {
	text := os.Getenv("HOLDFAST_SEED")
	if text == "" {
		t.Skip("set HOLDFAST_SEED to a schedule such as fair:17")
	}
	oneProcessor(t)
	p, err := parsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	w, runs := replay(t, p)
	if w == nil {
		t.Fatalf("%d runs differ from the one of %v", runs, p)
	}
	if len(w.failed) > 0 {
		w = shrink(t, w, cmp.Or(os.Getenv("HOLDFAST_PROMISE"), w.failed[0].promise), 200)
		t.Error(w)
	}
	t.Logf("%v, after %d runs\n%s", w.plan, runs, strings.Join(w.text(), "\n"))
}

// oneProcessor makes seeds replay.
func oneProcessor(t *testing.T) {
	t.Helper()
	n := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(n) })
}

// number returns the number in an environment variable.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, want a number", variable, text)
	}
	return n
}

// Random schedules break no promise, except as the table known says. `make simulate` runs many.
func TestSchedules(t *testing.T) {
	oneProcessor(t)
	const enough = 45 * time.Second // without HOLDFAST_SCHEDULES
	n := number(t, "HOLDFAST_SCHEDULES", 0)
	first, step := number(t, "HOLDFAST_FIRST", 0), number(t, "HOLDFAST_STEP", 1)
	var s stats
	s.begin()
	s.next = first
	for i := first; i < n || n == 0 && i < uint64(4*len(profiles)) && s.spent() < enough; i += step {
		s.next = i + step
		w := s.schedule(t, planNumber(t, i))
		fresh := w.unknown()
		if fresh == nil {
			continue
		}
		t.Error(w)
		if os.Getenv("HOLDFAST_SHRINK") == "off" {
			break
		}
		if s.findings++; s.findings == 1 && os.Getenv("HOLDFAST_SHRINK") != "no" {
			small := shrink(t, w, fresh.promise, 60)
			t.Errorf("made smaller: %v\n%s", small, strings.Join(small.text(), "\n"))
		}
	}
	t.Log(&s)
}

// stats say how far the schedules came.
type stats struct {
	begun, told      time.Time
	counts           map[string]int           // by the number of clients
	times            map[string]time.Duration // by the number of clients
	schedules        int
	grants           int
	knowns, findings int
	next             uint64 // the next seed
}

func (s *stats) begin() {
	s.begun, s.told = time.Now(), time.Now()
	s.counts, s.times = make(map[string]int), make(map[string]time.Duration)
}

func (s *stats) spent() time.Duration { return time.Since(s.begun) }

// schedule runs a schedule and counts it.
func (s *stats) schedule(t *testing.T, p plan) *world {
	t.Helper()
	begun := time.Now()
	w := schedule(t, p)
	size := "1 to 9 clients"
	if n := len(p.users); n >= 40 {
		size = "40 to 60 clients"
	} else if n >= 10 {
		size = "10 to 39 clients"
	}
	s.counts[size]++
	s.times[size] += time.Since(begun)
	s.schedules++
	s.grants += w.grants
	if len(w.failed) > 0 && w.unknown() == nil {
		s.knowns++
	}
	if time.Since(s.told) > time.Minute {
		s.told = time.Now()
		fmt.Println(s)
	}
	return w
}

func (s *stats) String() string {
	text := fmt.Sprintf("%d schedules with %d grants in %v: %d with findings, %d with what is known;", s.schedules, s.grants, s.spent().Round(time.Second), s.findings, s.knowns)
	for _, size := range slices.Sorted(maps.Keys(s.counts)) {
		text += fmt.Sprintf(" %d with %s, %.1f per second;", s.counts[size], size, float64(s.counts[size])/s.times[size].Seconds())
	}
	return fmt.Sprintf("%s the next seed is %d", text, s.next)
}

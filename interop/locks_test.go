package interop_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// slack is the tolerance for delays on a busy machine. Times that a test must
// distinguish differ by more.
const slack = 5 * time.Second

// owned returns the kinds that store one owner at a time in one hash.
func owned(release interop.Release, but ...string) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return k.name == "read" || k.name == "multi" || slices.Contains(but, k.name) ||
			release == interop.Era && k.since != interop.Era
	})
}

// eachOwned runs a test with each release for each of the owned kinds.
func eachOwned(t *testing.T, f func(t *testing.T, release interop.Release, k kind), but ...string) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		for _, k := range owned(release, but...) {
			t.Run(k.name, func(t *testing.T) { t.Parallel(); f(t, release, k) })
		}
	})
}

// newFixtureWith returns a fixture with options. Both sides have the same watchdog time.
func newFixtureWith(tb testing.TB, release interop.Release, o holdfast.Options) *fixture {
	tb.Helper()
	s := redistest.One(tb)
	c := interop.Single(s.Addr())
	if o.WatchdogTimeout > 0 {
		c = c.With("lockWatchdogTimeout", o.WatchdogTimeout.Milliseconds())
	}
	return &fixture{s, join(tb, peer(tb, release), c), open(tb, s.URL(), o)}
}

// A meeting has two parties, one of each side, that use one lock.
type meeting struct {
	title, name   string
	kind          kind
	first, second party
}

// meetings returns the meetings of some kinds in both orders. Tests that have to wait
// use it to wait for all of them at once.
func (r *fixture) meetings(tb testing.TB, kinds []kind) (all []meeting) {
	tb.Helper()
	for _, k := range kinds {
		for _, order := range []string{"Java first", "Go first"} {
			m := meeting{title: k.name + ", " + order, name: name(tb) + k.name, kind: k}
			m.first, m.second = newJava(tb, r.java, k, m.name, m.name), newGo(r.golang, k, m.name)
			if order == "Go first" {
				m.first, m.second = m.second, m.first
			}
			all = append(all, m)
		}
	}
	return all
}

// holders returns the owners of a lock and their hold counts, as stored on the server.
func (r *fixture) holders(tb testing.TB, name string) map[string]int {
	tb.Helper()
	fields := r.server.Strings(tb, "HGETALL", name)
	all := make(map[string]int)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "mode" { // of a read/write lock
			continue
		}
		n, err := strconv.Atoi(fields[i+1])
		if err != nil {
			tb.Errorf("the count of %s is %q", fields[i], fields[i+1])
		}
		all[strings.TrimSuffix(fields[i], ":write")] = n
	}
	return all
}

// wantHolder checks that an owner holds the lock so many times and that no other owner
// holds it. With 0 holds the lock must be free.
func (r *fixture) wantHolder(tb testing.TB, name, owner string, holds int) {
	tb.Helper()
	want := map[string]int{}
	if holds > 0 {
		want[owner] = holds
	}
	if got := r.holders(tb, name); !maps.Equal(got, want) {
		tb.Errorf("%s is held by %v, want %v", name, got, want)
	}
}

// ttl returns the remaining time of a lock.
func (r *fixture) ttl(tb testing.TB, name string) time.Duration {
	tb.Helper()
	return time.Duration(r.server.Int(tb, "PTTL", name)) * time.Millisecond
}

// A visible lock is a Holdfast lock that can be inspected and broken.
type visible interface {
	holdfast.Locker
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// must returns the value of a call and fails the test on an error.
func must[T any](tb testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// background calls wait for each party in the background and returns when all wait. It
// also waits until the threads sleep: the message of a write lock wakes only threads
// that sleep, not those that have only subscribed.
func (r *fixture) background(tb testing.TB, k kind, name string, ps []party, wait func(tb testing.TB, p party)) {
	tb.Helper()
	goroutineTB := newGoroutineTB(tb)
	before := r.listeners(tb, name)
	for _, p := range ps {
		if p, ok := p.(*javaParty); ok {
			keepThread(tb, p.lock.Peer(), p.thread)
		}
		go wait(goroutineTB, p)
	}
	if k.name == "spin" {
		return // a spin lock polls and does not subscribe
	}
	locktest.Eventually(tb, 30*time.Second, "they wait for "+name, func() bool { return r.listeners(tb, name) >= before+int64(len(ps)) })
	for _, p := range ps {
		if p, ok := p.(*javaParty); ok {
			locktest.Eventually(tb, 30*time.Second, "a thread sleeps for "+name, func() bool { return p.asleep(tb) })
		}
	}
}

// goroutineTB is the testing.TB for goroutines of a test. Fatal ends the goroutine. It fails
// the test only while the test runs: after a failure, the goroutines may wait for
// something that does not happen any more.
type goroutineTB struct {
	testing.TB
	mu   sync.Mutex
	over bool
}

func newGoroutineTB(tb testing.TB) *goroutineTB {
	a := &goroutineTB{TB: tb}
	tb.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.over = true
	})
	return a
}

func (a *goroutineTB) Fatal(args ...any) {
	a.mu.Lock()
	if !a.over {
		a.Helper()
		a.Error(args...)
	}
	a.mu.Unlock()
	runtime.Goexit()
}

// asleep reports whether the thread, which is kept, sleeps until a message arrives.
func (p *javaParty) asleep(tb testing.TB) bool {
	tb.Helper()
	return blocked(tb, p.lock.Peer(), p.thread, inQueue)
}

// The classes of the objects that block a thread until a message arrives.
const (
	inQueue = "Semaphore"       // of one that waits for a lock or for permits
	atLatch = "ReclosableLatch" // of one that waits for a latch
)

// keepThread keeps a thread under its name.
func keepThread(tb testing.TB, p *interop.Peer, thread string) {
	tb.Helper()
	good(tb, p.Do(interop.Call{Thread: thread, On: "java.lang.Thread", Method: "currentThread", As: thread}))
}

// threadWaits returns a function that reports whether a thread is blocked by an object of such a
// class.
func threadWaits(tb testing.TB, p *interop.Peer, thread, by string) (waits func() bool) {
	tb.Helper()
	keepThread(tb, p, thread)
	return func() bool { return blocked(tb, p, thread, by) }
}

// goroutineWaits returns a function that reports whether more calls of a client wait than now,
// and their messages arrive. No other call of the client may end meanwhile.
func goroutineWaits(c *holdfast.Client) (waits func() bool) {
	n := c.Stats().Waiting
	return func() bool {
		s := c.Stats()
		return s.Waiting > n && s.Silent == 0
	}
}

// partyWaits returns a function that reports whether the next call of a party waits until a
// message arrives.
func partyWaits(tb testing.TB, p party) (waits func() bool) {
	tb.Helper()
	if p, ok := p.(*javaParty); ok {
		return threadWaits(tb, p.lock.Peer(), p.thread, inQueue)
	}
	return goroutineWaits(p.(*goParty).client)
}

// awaitWaiting waits until a call waits whose result ch receives, which has a buffer.
func awaitWaiting[T any](tb testing.TB, waits func() bool, ch <-chan T) {
	tb.Helper()
	locktest.Eventually(tb, 30*time.Second, "the call waits", func() bool { return len(ch) > 0 || waits() })
	if len(ch) > 0 {
		tb.Fatal("the call did not wait: ", <-ch)
	}
}

// blocked reports whether a thread, which is kept under its name, is blocked by an
// object of such a class.
func blocked(tb testing.TB, p *interop.Peer, thread, by string) bool {
	tb.Helper()
	return strings.Contains(good(tb, p.Do(interop.Call{
		On: "java.util.concurrent.locks.LockSupport", Method: "getBlocker", Args: []any{map[string]string{"ref": thread}},
	})).String(), by)
}

// listeners returns the number of subscribers of the channels of a lock.
func (r *fixture) listeners(tb testing.TB, name string) (n int64) {
	tb.Helper()
	for _, c := range r.server.Channels(tb) {
		if strings.Contains(c, name) {
			n += r.server.Do(tb, "PUBSUB", "NUMSUB", c).([]any)[1].(int64)
		}
	}
	return n
}

// A visit is the entry of a party.
type visit struct {
	by party
	at int64
}

// crowd returns a thread and a goroutine. For a write lock it returns only the party of
// the side that does not free the lock, because a second waiter could miss the message.
func (r *fixture) crowd(tb testing.TB, k kind, name string, c *holdfast.Client, freedByJava bool) []party {
	tb.Helper()
	java, golang := newJava(tb, r.java, k, name, name+"waiter"), newGo(c, k, name)
	switch {
	case k.name != "write":
		return []party{java, golang}
	case freedByJava:
		return []party{golang}
	default:
		return []party{java}
	}
}

// visits starts parties that wait for the lock. The channel receives their entries.
func (r *fixture) visits(tb testing.TB, k kind, name string, ps ...party) <-chan visit {
	tb.Helper()
	ch := make(chan visit, len(ps))
	r.background(tb, k, name, ps, func(tb testing.TB, p party) { ch <- visit{p, p.Lock(tb, 0)} })
	return ch
}

// next waits for an entry and checks that it is not before the lock is free and not
// late.
func next(tb testing.TB, name string, ch <-chan visit, from int64) party {
	tb.Helper()
	select {
	case v := <-ch:
		if late := time.Duration(v.at - from); late < 0 || late > slack {
			tb.Errorf("%T entered %v after %s was free", v.by, late, name)
		}
		return v.by
	case <-time.After(max(0, time.Duration(from-redistest.Now())) + 2*slack):
		tb.Fatalf("no party entered %s within %v after it was free", name, 2*slack)
		panic("unreachable")
	}
}

// wantMonitorError checks the answer to a thread that does not hold the lock.
func wantMonitorError(tb testing.TB, a interop.Answer) {
	tb.Helper()
	if !strings.Contains(a.Error, "IllegalMonitorStateException") {
		tb.Errorf("Redisson returned %q and threw %q, want an IllegalMonitorStateException", fmt.Sprint(a.Value), a.Error)
	}
}

// thread converts the number of an owner to an argument for Redisson.
func thread(tb testing.TB, number string) int64 {
	tb.Helper()
	return must[int64](tb)(strconv.ParseInt(number, 10, 64))
}

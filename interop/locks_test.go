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
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// slack is how late something may come on a busy machine. What has to be told
// apart lies further apart.
const slack = 5 * time.Second

// owned are the kinds that have one hash, with one owner at a time in it.
func owned(release interop.Release, but ...string) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return k.name == "read" || k.name == "multi" || slices.Contains(but, k.name) ||
			release == interop.Era && k.since != interop.Era
	})
}

// eachOwned runs a test with each Redisson for each of these kinds.
func eachOwned(t *testing.T, f func(t *testing.T, release interop.Release, k kind), but ...string) {
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		for _, k := range owned(release, but...) {
			t.Run(k.name, func(t *testing.T) { t.Parallel(); f(t, release, k) })
		}
	})
}

// newRoomWith returns a room with other settings than the usual. Both sides have
// the same watchdog time.
func newRoomWith(tb testing.TB, release interop.Release, o holdfast.Options) *room {
	tb.Helper()
	s := redistest.One(tb)
	c := interop.Single(s.Addr())
	if o.WatchdogTimeout > 0 {
		c = c.With("lockWatchdogTimeout", o.WatchdogTimeout.Milliseconds())
	}
	return &room{s, join(tb, peer(tb, release), c), open(tb, s.URL(), o)}
}

// A meeting is of two parties, one of either side, that want one lock.
type meeting struct {
	title, name   string
	kind          kind
	first, second party
}

// meetings are those of some kinds, both ways, for tests that would have to
// wait for each: they wait for all at once.
func (r *room) meetings(tb testing.TB, kinds []kind) (all []meeting) {
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

// holders returns who holds a lock and how often, as the server has it.
func (r *room) holders(tb testing.TB, name string) map[string]int {
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

// wantHolder holds the server to a lock that an owner has so often, if at all.
func (r *room) wantHolder(tb testing.TB, name, owner string, holds int) {
	tb.Helper()
	want := map[string]int{}
	if holds > 0 {
		want[owner] = holds
	}
	if got := r.holders(tb, name); !maps.Equal(got, want) {
		tb.Errorf("%s is held by %v, want %v", name, got, want)
	}
}

// ttl returns how long a lock lasts if nobody renews it.
func (r *room) ttl(tb testing.TB, name string) time.Duration {
	tb.Helper()
	return time.Duration(r.server.Int(tb, "PTTL", name)) * time.Millisecond
}

// A visible lock is one of Holdfast that can be looked at, and freed by force.
type visible interface {
	holdfast.Locker
	IsLocked(ctx context.Context) (bool, error)
	HoldCount(ctx context.Context) (int, error)
	ForceUnlock(ctx context.Context) (bool, error)
	Object() *holdfast.Object
}

// must is for calls that fail only if everything does.
func must[T any](tb testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// background lets parties wait, each by its function, and returns once they do.
// A thread that listens has yet to fall asleep, and would miss the message of
// a write lock until then: that message wakes only those who sleep.
func (r *room) background(tb testing.TB, k kind, name string, ps []party, wait func(tb testing.TB, p party)) {
	tb.Helper()
	aside := newAside(tb)
	before := r.listeners(tb, name)
	for _, p := range ps {
		if p, ok := p.(*javaParty); ok {
			good(tb, p.client.Peer().Do(interop.Call{Thread: p.thread, On: "java.lang.Thread", Method: "currentThread", As: p.thread}))
		}
		go wait(aside, p)
	}
	if k.name == "spin" {
		return // which asks, and does not listen
	}
	eventually(tb, 30*time.Second, "they wait for "+name, func() bool { return r.listeners(tb, name) >= before+int64(len(ps)) })
	for _, p := range ps {
		if p, ok := p.(*javaParty); ok {
			eventually(tb, 30*time.Second, "a thread sleeps for "+name, func() bool { return p.asleep(tb) })
		}
	}
}

// aside is a test as its goroutines see it: their failures end themselves, and
// count only as long as the test runs. Once it has failed, what they wait for
// never comes.
type aside struct {
	testing.TB
	mu   sync.Mutex
	over bool
}

func newAside(tb testing.TB) *aside {
	a := &aside{TB: tb}
	tb.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.over = true
	})
	return a
}

func (a *aside) Fatal(args ...any) {
	a.mu.Lock()
	if !a.over {
		a.Helper()
		a.Error(args...)
	}
	a.mu.Unlock()
	runtime.Goexit()
}

// asleep reports whether the thread waits for a message.
func (p *javaParty) asleep(tb testing.TB) bool {
	tb.Helper()
	return blocked(tb, p.client.Peer(), p.thread, "Semaphore")
}

// blocked reports whether a thread, kept by its name, sleeps for such an object.
func blocked(tb testing.TB, p *interop.Peer, thread, by string) bool {
	tb.Helper()
	return strings.Contains(good(tb, p.Do(interop.Call{
		On: "java.util.concurrent.locks.LockSupport", Method: "getBlocker", Args: []any{map[string]string{"ref": thread}},
	})).String(), by)
}

// listeners is how many listen to the channels of a lock.
func (r *room) listeners(tb testing.TB, name string) (n int64) {
	tb.Helper()
	for _, c := range r.server.Channels(tb) {
		if strings.Contains(c, name) {
			n += r.server.Do(tb, "PUBSUB", "NUMSUB", c).([]any)[1].(int64)
		}
	}
	return n
}

// A visit is somebody's entry.
type visit struct {
	by party
	at int64
}

// crowd is a thread and a goroutine. Of a write lock it is one of them, of the
// side that does not free the lock: the second to come could miss the message.
func (r *room) crowd(tb testing.TB, k kind, name string, c *holdfast.Client, freedByJava bool) []party {
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

// visits delivers the entries of parties, which wait by now.
func (r *room) visits(tb testing.TB, k kind, name string, ps ...party) <-chan visit {
	tb.Helper()
	ch := make(chan visit, len(ps))
	r.background(tb, k, name, ps, func(tb testing.TB, p party) { ch <- visit{p, p.Lock(tb, 0)} })
	return ch
}

// next waits for somebody to enter what is free from a time on, and wants it
// neither earlier nor late.
func next(tb testing.TB, name string, ch <-chan visit, from int64) party {
	tb.Helper()
	select {
	case v := <-ch:
		if late := time.Duration(v.at - from); late < 0 || late > slack {
			tb.Errorf("%T came %v after %s was free", v.by, late, name)
		}
		return v.by
	case <-time.After(max(0, time.Duration(from-redistest.Now())) + 2*slack):
		tb.Fatalf("nobody came for %s, %v after it was free", name, 2*slack)
		panic("unreachable")
	}
}

// wantMonitorError is for calls of threads that do not hold the lock.
func wantMonitorError(tb testing.TB, a interop.Answer) {
	tb.Helper()
	if !strings.Contains(a.Error, "IllegalMonitorStateException") {
		tb.Errorf("Redisson says %q and throws %q, want an IllegalMonitorStateException", fmt.Sprint(a.Value), a.Error)
	}
}

// thread is the number of an owner as an argument for Redisson.
func thread(tb testing.TB, number string) int64 {
	tb.Helper()
	return must[int64](tb)(strconv.ParseInt(number, 10, 64))
}

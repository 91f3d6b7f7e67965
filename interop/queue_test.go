package interop_test

import (
	"cmp"
	"fmt"
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

// fair is the kind of lock whose queue these helpers inspect.
var fair = kindOf("fair")

// The additional keys of a fair lock.
func queueKey(name string) string  { return "redisson_lock_queue:{" + name + "}" }
func limitsKey(name string) string { return "redisson_lock_timeout:{" + name + "}" }
func signsKey(name string) string  { return "holdfast:waiting:{" + name + "}" }

// A line is the queue of a fair lock in a fixture.
type line struct {
	*fixture
	release interop.Release
	name    string
	places  []*place // in the order of arrival
}

// A place is a waiter in a line.
type place struct {
	party
	owner   string
	entered chan int64
}

// thread and goroutine return new parties for the lock.
func (l *line) thread(tb testing.TB) *javaParty {
	return newJava(tb, l.java, fair, l.name, fmt.Sprint(l.name, " ", len(l.places), " ", names.Add(1))).(*javaParty)
}

func (l *line) goroutine() *goParty { return newGo(l.golang, fair, l.name).(*goParty) }

// either returns a thread for even numbers and a goroutine for odd ones.
func (l *line) either(tb testing.TB, i int) party {
	if i%2 == 0 {
		return l.thread(tb)
	}
	return l.goroutine()
}

// join makes a party wait for the lock and returns when it is in the queue.
func (l *line) join(tb testing.TB, p party) *place {
	tb.Helper()
	return l.await(tb, p, func(entered chan<- int64) { entered <- p.Lock(silentTB{tb}, 0) })
}

// A silentTB is the testing.TB of a waiter that may outlive the test. It does not report
// failures.
type silentTB struct{ testing.TB }

func (silentTB) Helper()      {}
func (silentTB) Fatal(...any) { runtime.Goexit() }

// await calls a function and waits until the queue has one more waiter.
func (l *line) await(tb testing.TB, p party, begin func(entered chan<- int64)) *place {
	tb.Helper()
	before := append(l.queue(tb), "")
	at := &place{party: p, entered: make(chan int64, 1)}
	go begin(at.entered)
	locktest.Eventually(tb, 30*time.Second, "one more party waits for "+l.name, func() bool {
		at.owner = l.last(tb)
		return !slices.Contains(before, at.owner)
	})
	l.places = append(l.places, at)
	return at
}

// drop removes a place that has left the queue.
func (l *line) drop(p *place) {
	l.places = slices.DeleteFunc(l.places, func(q *place) bool { return p == q })
}

// queue returns the owners in the queue, the next one first.
func (l *line) queue(tb testing.TB) []string {
	tb.Helper()
	return l.server.Strings(tb, "LRANGE", queueKey(l.name), "0", "-1")
}

// last returns the last owner in the queue, or "".
func (l *line) last(tb testing.TB) string {
	tb.Helper()
	owner, _ := l.server.Do(tb, "LINDEX", queueKey(l.name), "-1").(string)
	return owner
}

// wantQueue checks that the queue contains exactly the places.
func (l *line) wantQueue(tb testing.TB) {
	tb.Helper()
	var want []string
	for _, p := range l.places {
		want = append(want, p.owner)
	}
	if got := l.queue(tb); !slices.Equal(got, want) {
		tb.Errorf("the queue is %q, want %q", got, want)
	}
}

// now returns the server's time in ms.
func (l *line) now(tb testing.TB) int64 {
	tb.Helper()
	t := l.server.Strings(tb, "TIME")
	s, _ := strconv.ParseInt(t[0], 10, 64)
	us, _ := strconv.ParseInt(t[1], 10, 64)
	return s*1000 + us/1000
}

// left returns the remaining time of an owner in a sorted set of time limits.
func (l *line) left(tb testing.TB, key, owner string) time.Duration {
	tb.Helper()
	return time.Duration(l.server.Int(tb, "ZSCORE", key, owner)-l.now(tb)) * time.Millisecond
}

// serve lets each waiter enter and leave. It checks that they do so in the order of arrival,
// one at a time, and soon after each other. begin is when the lock was released to them.
func (l *line) serve(tb testing.TB, begin int64, soon time.Duration) {
	tb.Helper()
	limit := time.Duration(begin-redistest.Now()) + soon*time.Duration(len(l.places))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []redistest.Interval
	for i, p := range l.places {
		wg.Go(func() {
			select {
			case entered := <-p.entered:
				locktest.Work(2 * time.Millisecond)
				left := p.Unlock(tb)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, redistest.Interval{Name: l.name, Owner: fmt.Sprint(i), Enter: entered, Leave: left})
			case <-time.After(limit):
				tb.Errorf("waiter %d of %d is still waiting", i, len(l.places))
			}
		})
	}
	wg.Wait()
	if tb.Failed() {
		tb.Fatalf("the queue is %q, the limits %q, the heartbeats %q, held by %q for another %d ms", l.queue(tb),
			l.server.Strings(tb, "ZRANGE", limitsKey(l.name), "0", "-1", "WITHSCORES"), l.server.Strings(tb, "ZRANGE", signsKey(l.name), "0", "-1", "WITHSCORES"),
			l.server.Strings(tb, "HGETALL", l.name), l.server.Int(tb, "PTTL", l.name))
	}
	if err := redistest.CheckExclusive(all); err != nil {
		tb.Error(err)
	}
	slices.SortFunc(all, func(a, b redistest.Interval) int { return cmp.Compare(a.Enter, b.Enter) })
	for i, iv := range all {
		if iv.Owner != fmt.Sprint(i) {
			tb.Errorf("waiter %s of the queue entered as number %d", iv.Owner, i)
		}
		if d := time.Duration(iv.Enter - begin); d > soon {
			tb.Errorf("waiter %d waited for %v", i, d)
		}
		begin = iv.Leave
	}
	l.places = nil
}

// wantNothingLeft checks that no key or channel contains a name.
func wantNothingLeft(tb testing.TB, s *redistest.Server, name string) {
	tb.Helper()
	wantNone(tb, name, func(tb testing.TB) []string {
		// Where the machine was busy, a late heartbeat has noted that no waiter is dropped for a moment. The note expires.
		late := func(key string) bool {
			return key == signsKey(name) && s.Int(tb, "ZCOUNT", key, "-inf", "+inf") == 1 && s.Do(tb, "ZSCORE", key, "") != nil
		}
		return slices.DeleteFunc(s.Keys(tb), late)
	})
	wantNone(tb, name, s.Channels)
}

// wantNothingOfOurs is wantNothingLeft, but Redisson may still be subscribed to the channel
// of a thread that no longer waits.
func (l *line) wantNothingOfOurs(tb testing.TB) {
	tb.Helper()
	wantNone(tb, l.name, l.server.Keys)
	wantNone(tb, l.name, func(tb testing.TB) []string {
		return slices.DeleteFunc(l.server.Channels(tb), func(s string) bool { return strings.Contains(s, l.java.ID) })
	})
}

// wantOnlySignsLeft is wantNothingLeft, but Redisson may have removed a Go waiter. It leaves
// the waiter's heartbeat key, which expires.
func (l *line) wantOnlySignsLeft(tb testing.TB) {
	tb.Helper()
	if ttl := l.server.Int(tb, "PTTL", signsKey(l.name)); ttl == -1 || ttl > 25_000 {
		tb.Errorf("the heartbeats expire in %d ms", ttl)
	}
	l.server.Do(tb, "DEL", signsKey(l.name))
	wantNothingLeft(tb, l.server, l.name)
}

func wantNone(tb testing.TB, name string, list func(testing.TB) []string) {
	tb.Helper()
	var left []string
	none := redistest.Poll(15*time.Second, func() bool {
		left = slices.DeleteFunc(list(tb), func(s string) bool { return !strings.Contains(s, name) })
		return len(left) == 0
	})
	if !none {
		tb.Fatalf("these are left: %q", left)
	}
}

// lines runs a test with a fair lock of each release.
func lines(t *testing.T, f func(t *testing.T, l *line)) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		f(t, &line{fixture: newFixture(t, release), release: release, name: name(t)})
	})
}

// watchdogTime is the watchdog time of both sides in a fixture with short leases.
const watchdogTime = 6 * time.Second

// newShortLeaseFixture returns a fixture whose clients have a short watchdog time.
func newShortLeaseFixture(tb testing.TB, p *interop.Peer, s *redistest.Server) *fixture {
	tb.Helper()
	return &fixture{
		s,
		join(tb, p, interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdogTime.Milliseconds())),
		open(tb, s.URL(), holdfast.Options{WatchdogTimeout: watchdogTime}),
	}
}

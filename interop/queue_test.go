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
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/interop"
)

// fair is the kind whose queue these helpers look at.
var fair = kindOf("fair")

// The keys of a fair lock beside its name.
func queueKey(name string) string  { return "redisson_lock_queue:{" + name + "}" }
func limitsKey(name string) string { return "redisson_lock_timeout:{" + name + "}" }
func signsKey(name string) string  { return "holdfast:waiting:{" + name + "}" }

// A line is the queue of one fair lock, in a room.
type line struct {
	*room
	release interop.Release
	name    string
	places  []*place // in the order of arrival
}

// A place is one in a line.
type place struct {
	party
	owner   string
	entered chan int64
}

// thread and goroutine are new parties that want the lock.
func (l *line) thread(tb testing.TB) *javaParty {
	return newJava(tb, l.java, fair, l.name, fmt.Sprint(l.name, " ", len(l.places), " ", names.Add(1))).(*javaParty)
}

func (l *line) goroutine() *goParty { return newGo(l.golang, fair, l.name).(*goParty) }

// either is a thread for even numbers, and a goroutine for odd ones.
func (l *line) either(tb testing.TB, i int) party {
	if i%2 == 0 {
		return l.thread(tb)
	}
	return l.goroutine()
}

// join lets a party wait for the lock, and returns when it is in the queue.
func (l *line) join(tb testing.TB, p party) *place {
	tb.Helper()
	return l.await(tb, p, func(entered chan<- int64) { entered <- p.Lock(bystander{tb}, 0) })
}

// A bystander is a test to somebody who may still wait when it is over, and
// then has nothing to say.
type bystander struct{ testing.TB }

func (bystander) Helper()      {}
func (bystander) Fatal(...any) { runtime.Goexit() }

// await lets something happen that adds one to the queue.
func (l *line) await(tb testing.TB, p party, begin func(entered chan<- int64)) *place {
	tb.Helper()
	before := append(l.queue(tb), "")
	at := &place{party: p, entered: make(chan int64, 1)}
	go begin(at.entered)
	eventually(tb, 30*time.Second, "another one waits for "+l.name, func() bool {
		at.owner = l.last(tb)
		return !slices.Contains(before, at.owner)
	})
	l.places = append(l.places, at)
	return at
}

// drop forgets somebody who has left the queue.
func (l *line) drop(p *place) {
	l.places = slices.DeleteFunc(l.places, func(q *place) bool { return p == q })
}

// queue returns the owners that wait, the next one first.
func (l *line) queue(tb testing.TB) []string {
	tb.Helper()
	return l.server.Strings(tb, "LRANGE", queueKey(l.name), "0", "-1")
}

// last returns who came last, or "".
func (l *line) last(tb testing.TB) string {
	tb.Helper()
	owner, _ := l.server.Do(tb, "LINDEX", queueKey(l.name), "-1").(string)
	return owner
}

// wantQueue checks that exactly those wait who have a place.
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

// now is the server's clock in ms.
func (l *line) now(tb testing.TB) int64 {
	tb.Helper()
	t := l.server.Strings(tb, "TIME")
	s, _ := strconv.ParseInt(t[0], 10, 64)
	us, _ := strconv.ParseInt(t[1], 10, 64)
	return s*1000 + us/1000
}

// left is how long an owner is waited for, by a sorted set of such times.
func (l *line) left(tb testing.TB, key, owner string) time.Duration {
	tb.Helper()
	return time.Duration(l.server.Int(tb, "ZSCORE", key, owner)-l.now(tb)) * time.Millisecond
}

// serve has everybody who waits enter, stay for a moment and leave, and checks
// that they do so in the order of arrival, one at a time, and soon after each
// other. Begin is when the lock was left to them.
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
				time.Sleep(2 * time.Millisecond)
				left := p.Unlock(tb)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, redistest.Interval{Name: l.name, Owner: fmt.Sprint(i), Enter: entered, Leave: left})
			case <-time.After(limit):
				tb.Errorf("number %d of %d is still waiting", i, len(l.places))
			}
		})
	}
	wg.Wait()
	if tb.Failed() {
		tb.Fatalf("the queue is %q, the limits %q, the signs %q, held by %q for another %d ms", l.queue(tb),
			l.server.Strings(tb, "ZRANGE", limitsKey(l.name), "0", "-1", "WITHSCORES"), l.server.Strings(tb, "ZRANGE", signsKey(l.name), "0", "-1", "WITHSCORES"),
			l.server.Strings(tb, "HGETALL", l.name), l.server.Int(tb, "PTTL", l.name))
	}
	if err := redistest.CheckExclusive(all); err != nil {
		tb.Error(err)
	}
	slices.SortFunc(all, func(a, b redistest.Interval) int { return cmp.Compare(a.Enter, b.Enter) })
	for i, iv := range all {
		if iv.Owner != fmt.Sprint(i) {
			tb.Errorf("number %s of the queue was let in as number %d", iv.Owner, i)
		}
		if d := time.Duration(iv.Enter - begin); d > soon {
			tb.Errorf("number %d had to wait for %v", i, d)
		}
		begin = iv.Leave
	}
	l.places = nil
}

// wantNothingLeft checks that no key or channel has a name in it.
func wantNothingLeft(tb testing.TB, s *redistest.Server, name string) {
	tb.Helper()
	wantNone(tb, name, s.Keys)
	wantNone(tb, name, s.Channels)
}

// wantNothingOfOurs is wantNothingLeft where Redisson may still listen to the
// channel of a thread that does not wait any more.
func (l *line) wantNothingOfOurs(tb testing.TB) {
	tb.Helper()
	wantNone(tb, l.name, l.server.Keys)
	wantNone(tb, l.name, func(tb testing.TB) []string {
		return slices.DeleteFunc(l.server.Channels(tb), func(s string) bool { return strings.Contains(s, l.java.ID) })
	})
}

// wantOnlySignsLeft is wantNothingLeft where Redisson may have swept somebody
// of ours. It leaves the sign of life, which is over by itself.
func (l *line) wantOnlySignsLeft(tb testing.TB) {
	tb.Helper()
	if ttl := l.server.Int(tb, "PTTL", signsKey(l.name)); ttl == -1 || ttl > 25_000 {
		tb.Errorf("signs of life stay for %d ms", ttl)
	}
	l.server.Do(tb, "DEL", signsKey(l.name))
	wantNothingLeft(tb, l.server, l.name)
}

func wantNone(tb testing.TB, name string, list func(testing.TB) []string) {
	tb.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := slices.DeleteFunc(list(tb), func(s string) bool { return !strings.Contains(s, name) })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("these are left: %q", left)
		}
	}
}

// lines runs a test with a fair lock of each Redisson.
func lines(t *testing.T, f func(t *testing.T, l *line)) {
	t.Parallel()
	releases(t, func(t *testing.T, release interop.Release) {
		t.Parallel()
		f(t, &line{room: newRoom(t, release), release: release, name: name(t)})
	})
}

// watchdogTime is that of clients in a brisk room, of either side.
const watchdogTime = 6 * time.Second

// newBriskRoom is a room whose clients have short watchdog times.
func newBriskRoom(tb testing.TB, p *interop.Peer, s *redistest.Server) *room {
	tb.Helper()
	return &room{
		s,
		join(tb, p, interop.Single(s.Addr()).With("lockWatchdogTimeout", watchdogTime.Milliseconds())),
		open(tb, s.URL(), holdfast.Options{WatchdogTimeout: watchdogTime}),
	}
}

package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// QueueKey returns the key of the queue of a fair lock.
func QueueKey(name string) string { return "redisson_lock_queue:{" + name + "}" }

// DeadlinesKey returns the key of the deadlines of those in the queue.
func DeadlinesKey(name string) string { return "redisson_lock_timeout:{" + name + "}" }

// signsKey returns the key of the signs of life of those in the queue.
func signsKey(name string) string { return "holdfast:waiting:{" + name + "}" }

// Queue returns the owners that wait for a name, the next one first.
func Queue(tb testing.TB, s *redistest.Server, name string) []string {
	tb.Helper()
	return s.Strings(tb, "LRANGE", QueueKey(name), "0", "-1")
}

// AwaitQueue waits until n owners wait for a name, and returns them.
func AwaitQueue(tb testing.TB, s *redistest.Server, name string, n int) []string {
	tb.Helper()
	Eventually(tb, 30*time.Second, fmt.Sprint(n, " wait for ", name), func() bool {
		return s.Int(tb, "LLEN", QueueKey(name)) == int64(n)
	})
	return Queue(tb, s, name)
}

// A Place is a waiter in a queue.
type Place struct {
	Owner string
	Got   <-chan Outcome
}

// Enqueue locks m in another goroutine, and returns when that is in the queue.
func Enqueue(tb testing.TB, ctx context.Context, s *redistest.Server, m holdfast.Locker, opts ...holdfast.LockOption) Place {
	tb.Helper()
	before := Queue(tb, s, m.Name())
	p := Place{Got: Background(ctx, m, opts...)}
	// Not by their number: others may leave meanwhile.
	Eventually(tb, 30*time.Second, "one more waits for "+m.Name(), func() bool {
		now := Queue(tb, s, m.Name())
		i := slices.IndexFunc(now, func(owner string) bool { return !slices.Contains(before, owner) })
		if i >= 0 {
			p.Owner = now[i]
		}
		return i >= 0
	})
	return p
}

// heartbeat returns the time at which an owner in a queue counts as dead, in milliseconds of the
// server's clock. It returns 0 if the owner has no heartbeat.
func heartbeat(tb testing.TB, s *redistest.Server, name, owner string) float64 {
	tb.Helper()
	score, _ := s.Do(tb, "ZSCORE", signsKey(name), owner).(string)
	till, _ := strconv.ParseFloat(score, 64)
	return till
}

// AwaitSilent waits until an owner in a queue counts as dead.
func AwaitSilent(tb testing.TB, s *redistest.Server, name, owner string) {
	tb.Helper()
	Eventually(tb, 20*time.Second, owner+" counts as dead", func() bool {
		return heartbeat(tb, s, name, owner) < float64(ServerTime(tb, s))
	})
}

// AwaitHeartbeats waits until each of some waiters in a queue has sent another heartbeat.
func AwaitHeartbeats(tb testing.TB, s *redistest.Server, name string, places ...Place) {
	tb.Helper()
	before := make([]float64, len(places))
	for i, p := range places {
		before[i] = heartbeat(tb, s, name, p.Owner)
	}
	for i, p := range places {
		Eventually(tb, 20*time.Second, "a heartbeat of "+p.Owner, func() bool { return heartbeat(tb, s, name, p.Owner) > before[i] })
	}
}

// WantQueue checks which owners wait for a name.
func WantQueue(tb testing.TB, s *redistest.Server, name string, places ...Place) {
	tb.Helper()
	want := make([]string, len(places))
	for i, p := range places {
		want[i] = p.Owner
	}
	if got := Queue(tb, s, name); !slices.Equal(got, want) {
		tb.Errorf("the queue is %q, want %q", got, want)
	}
}

// WantNoQueue checks that nothing is left of a queue, including its channels.
func WantNoQueue(tb testing.TB, s *redistest.Server, name string) {
	tb.Helper()
	Eventually(tb, 10*time.Second, "nothing is left of the queue of "+name, func() bool {
		return s.Int(tb, "EXISTS", QueueKey(name), DeadlinesKey(name), signsKey(name)) == 0
	})
	Eventually(tb, 10*time.Second, "no channel of "+name+" is left", func() bool {
		return len(s.Strings(tb, "PUBSUB", "CHANNELS", "redisson_lock__channel:{"+name+"}*")) == 0
	})
}

// EnterInOrder checks that the waiters enter one after the other, in this order,
// and releases each lease.
func EnterInOrder(tb testing.TB, places ...Place) {
	tb.Helper()
	for i, p := range places {
		l := Entered(tb, p.Got)
		if l.Owner() != p.Owner {
			tb.Errorf("number %d in the queue was %s, and is %s", i, p.Owner, l.Owner())
		}
		for j, q := range places[i+1:] {
			select {
			case o := <-q.Got:
				tb.Fatalf("number %d is in beside number %d: %v", i+1+j, i, o.Err)
			default:
			}
		}
		Release(tb, l)
	}
}

// WantDeadlines checks the deadlines by which Redisson finds dead waiters. Each lies
// in the future, and at most a lease and five minutes ahead.
func WantDeadlines(tb testing.TB, s *redistest.Server, name string, lease time.Duration) {
	tb.Helper()
	if err := CheckDeadlines(tb, s, name, lease); err != nil {
		tb.Error(err)
	}
}

// CheckDeadlines is [WantDeadlines] for a test that begins again after a stall.
func CheckDeadlines(tb testing.TB, s *redistest.Server, name string, lease time.Duration) (err error) {
	tb.Helper()
	reply := s.Do(tb, "EVAL", `
		local t, all = redis.call('time'), {}
		for _, owner in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
			table.insert(all, (redis.call('zscore', KEYS[2], owner) or 0) - t[1] * 1000 - math.floor(t[2] / 1000))
		end
		return all`, "2", QueueKey(name), DeadlinesKey(name))
	for i, ms := range reply.([]any) {
		left := time.Duration(ms.(int64)) * time.Millisecond
		if left <= 0 || left > lease+5*time.Minute {
			err = errors.Join(err, fmt.Errorf("number %d in the queue has %v left, want more than nothing and at most %v", i, left, lease+5*time.Minute))
		}
	}
	return err
}

// queueWorker locks a fair mutex once in each of some goroutines, and records the
// intervals.
func queueWorker() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, os.Getenv("TEST_URL"), &holdfast.Options{WatchdogTimeout: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	m := c.FairMutex(os.Getenv("TEST_NAME"))
	n, err := strconv.Atoi(os.Getenv("TEST_WAITERS"))
	if err != nil {
		panic(err)
	}
	rec := redistest.NewRecorder(os.Stdout)
	Parallel(n, func(int) {
		l, err := m.Lock(ctx)
		if err != nil {
			panic(err)
		}
		leave := rec.Enter(m.Name(), l.Owner())
		Work(time.Millisecond)
		leave()
		if err := l.Release(ctx); err != nil {
			panic(err)
		}
	})
}

// EnqueueProcess starts a process in which that many goroutines wait for a name, and
// returns when all are in the queue.
func EnqueueProcess(tb testing.TB, s *redistest.Server, name string, waiters int) *redistest.Process {
	tb.Helper()
	n := int(s.Int(tb, "LLEN", QueueKey(name)))
	w := redistest.Worker(tb, "queue", "TEST_URL="+Address(tb, s.URL()), "TEST_NAME="+name, fmt.Sprint("TEST_WAITERS=", waiters))
	AwaitQueue(tb, s, name, n+waiters)
	return w
}

// Visits returns the intervals that a worker has recorded, after its end.
func Visits(tb testing.TB, w *redistest.Process) []redistest.Interval {
	tb.Helper()
	var text strings.Builder
	for line := range w.Lines() {
		fmt.Fprintln(&text, line)
	}
	ivs, err := redistest.ReadIntervals(strings.NewReader(text.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return ivs
}

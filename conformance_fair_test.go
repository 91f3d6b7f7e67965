package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The tests in this file are what Redisson's tests ask of the fair lock beyond
// what all kinds share. The number in a test's name is its id. Times are
// shorter than in Redisson where nothing depends on their length.

// The keys of a queue.
func queueKey(name string) string     { return "redisson_lock_queue:{" + name + "}" }
func deadlinesKey(name string) string { return "redisson_lock_timeout:{" + name + "}" }
func signsKey(name string) string     { return "holdfast:waiting:{" + name + "}" }

// queue returns the owners that wait for a name, the next one first.
func queue(tb testing.TB, s *redistest.Server, name string) []string {
	tb.Helper()
	return s.Strings(tb, "LRANGE", queueKey(name), "0", "-1")
}

// queued waits until that many wait for a name, and returns them.
func queued(tb testing.TB, s *redistest.Server, name string, n int) []string {
	tb.Helper()
	eventually(tb, 30*time.Second, fmt.Sprint(n, " wait for ", name), func() bool {
		return s.Int(tb, "LLEN", queueKey(name)) == int64(n)
	})
	return queue(tb, s, name)
}

// A place is one in a queue.
type place struct {
	owner string
	got   <-chan outcome
}

// enqueue lets somebody wait for m, and returns when it does.
func enqueue(tb testing.TB, ctx context.Context, s *redistest.Server, m holdfast.Locker, opts ...holdfast.Option) place {
	tb.Helper()
	before := queue(tb, s, m.Name())
	p := place{got: background(ctx, m, opts...)}
	// Not by their number: others may leave meanwhile.
	eventually(tb, 30*time.Second, "one more waits for "+m.Name(), func() bool {
		now := queue(tb, s, m.Name())
		i := slices.IndexFunc(now, func(owner string) bool { return !slices.Contains(before, owner) })
		if i >= 0 {
			p.owner = now[i]
		}
		return i >= 0
	})
	return p
}

// wantQueue checks who waits for a name.
func wantQueue(tb testing.TB, s *redistest.Server, name string, places ...place) {
	tb.Helper()
	want := make([]string, len(places))
	for i, p := range places {
		want[i] = p.owner
	}
	if got := queue(tb, s, name); !slices.Equal(got, want) {
		tb.Errorf("the queue is %q, want %q", got, want)
	}
}

// wantNoQueue checks that nothing is left of a queue, also not a channel.
func wantNoQueue(tb testing.TB, s *redistest.Server, name string) {
	tb.Helper()
	eventually(tb, 10*time.Second, "nothing is left of the queue of "+name, func() bool {
		return s.Int(tb, "EXISTS", queueKey(name), deadlinesKey(name), signsKey(name)) == 0
	})
	eventually(tb, 10*time.Second, "no channel of "+name+" is left", func() bool {
		return len(s.Strings(tb, "PUBSUB", "CHANNELS", "redisson_lock__channel:{"+name+"}*")) == 0
	})
}

// inOrder checks that those in the queue get in one after the other.
func inOrder(tb testing.TB, places ...place) {
	tb.Helper()
	for i, p := range places {
		l := entered(tb, p.got)
		if l.Owner() != p.owner {
			tb.Errorf("number %d in the queue was %s, and is %s", i, p.owner, l.Owner())
		}
		for j, q := range places[i+1:] {
			select {
			case o := <-q.got:
				tb.Fatalf("number %d is in beside number %d: %v", i+1+j, i, o.err)
			default:
			}
		}
		release(tb, l)
	}
}

// enteredPastDead is entered for one who waits behind somebody that was killed,
// which shows after a few seconds.
func enteredPastDead(tb testing.TB, ch <-chan outcome) *holdfast.Lease {
	tb.Helper()
	return enteredAfter(tb, 11*time.Second, ch)
}

// wantDeadlines checks that the deadlines by which Redisson tells the living
// from the dead are neither over nor further ahead than a lease and five
// minutes.
func wantDeadlines(tb testing.TB, s *redistest.Server, name string, lease time.Duration) {
	tb.Helper()
	reply := s.Do(tb, "EVAL", `
		local t, all = redis.call('time'), {}
		for _, owner in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
			table.insert(all, (redis.call('zscore', KEYS[2], owner) or 0) - t[1] * 1000 - math.floor(t[2] / 1000))
		end
		return all`, "2", queueKey(name), deadlinesKey(name))
	for i, ms := range reply.([]any) {
		left := time.Duration(ms.(int64)) * time.Millisecond
		if left <= 0 || left > lease+5*time.Minute {
			tb.Errorf("number %d in the queue has %v left, want more than nothing and at most %v", i, left, lease+5*time.Minute)
		}
	}
}

func init() { workers["queue"] = queueWorker }

// queueWorker lets some goroutines lock a fair mutex once, and writes down when
// each was in.
func queueWorker() {
	ctx := context.Background()
	c, err := holdfast.Open(ctx, os.Getenv("TEST_URL"), holdfast.Options{WatchdogTimeout: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	m := c.FairMutex(os.Getenv("TEST_NAME"))
	n, err := strconv.Atoi(os.Getenv("TEST_WAITERS"))
	if err != nil {
		panic(err)
	}
	rec := redistest.NewRecorder(os.Stdout)
	parallel(n, func(int) {
		l, err := m.Lock(ctx)
		if err != nil {
			panic(err)
		}
		leave := rec.Enter(m.Name(), l.Owner())
		time.Sleep(time.Millisecond)
		leave()
		if err := l.Release(ctx); err != nil {
			panic(err)
		}
	})
}

// enqueueProcess lets a process wait for a name, with so many goroutines, and
// returns when all of them do.
func enqueueProcess(tb testing.TB, s *redistest.Server, name string, waiters int) *redistest.Process {
	tb.Helper()
	n := int(s.Int(tb, "LLEN", queueKey(name)))
	w := redistest.Worker(tb, "queue", "TEST_URL="+address(tb, s.URL()), "TEST_NAME="+name, fmt.Sprint("TEST_WAITERS=", waiters))
	queued(tb, s, name, n+waiters)
	return w
}

// visits returns what a worker has recorded until its end.
func visits(tb testing.TB, w *redistest.Process) []redistest.Interval {
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

func TestFA01LeasesRunOutInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	// The end of a lease that is shorter than the second between two looks may
	// be seen that much later, and what has ended when it comes is no lease: who
	// hears of it too late has to queue again, behind the others.
	const waiters, lease = 4, 5 * time.Second
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL())}
	var places []place
	for i := range waiters {
		places = append(places, enqueue(t, t.Context(), s, cs[i%2].FairMutex(n), holdfast.LeaseTime(lease)))
	}
	start := time.Now()
	release(t, l)
	var last *holdfast.Lease
	for i, p := range places {
		got := enteredAfter(t, lease, p.got) // and never released
		if got.Owner() != p.owner {
			t.Errorf("number %d in the queue was %s, and is %s", i, p.owner, got.Owner())
		}
		if last != nil && (last.Valid() || got.Token() <= last.Token()) {
			t.Errorf("number %d came before the lease of the one before it was over", i)
		}
		last = got
	}
	if took := time.Since(start); took < (waiters-1)*lease || took > (waiters-1)*(lease+late) {
		t.Errorf("all were in after %v, want about %v", took, (waiters-1)*lease)
	}
	eventually(t, lease+late, "the last lease is over", func() bool { return s.Int(t, "EXISTS", n) == 0 })
	wantNoQueue(t, s, n)
}

func TestFA02FiveHundredWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	waiters := often(500)
	first := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
	var cs [5]*holdfast.Client
	for i := range cs {
		cs[i] = open(t, s.URL())
	}
	var order []string // guarded by the lock under test
	sec := newSection(n)
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			l, err := cs[i%len(cs)].FairMutex(n).Lock(t.Context(), holdfast.LeaseTime(20*time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, l.Owner())
			sec.visit(l, 2*time.Millisecond)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	came := queued(t, s, n, waiters)
	start := time.Now()
	release(t, first)
	wg.Wait()
	// Those who hear nothing look once in a second.
	if took := time.Since(start); took > max(30*time.Second, time.Duration(waiters)*200*time.Millisecond) {
		t.Errorf("all were in after %v", took)
	}
	sec.check(t, waiters)
	if !slices.Equal(order, came) {
		t.Error("the order of entry is not that of arrival")
	}
	wantNoQueue(t, s, n)
}

// churn tries for a fair mutex again and again, three at a time.
func churn(t *testing.T, s *redistest.Server, name string, wait, lease time.Duration) (got int) {
	t.Helper()
	var mu sync.Mutex
	c := open(t, s.URL())
	parallel(3, func(int) {
		for range 50 {
			l, err := c.FairMutex(name).TryLock(t.Context(), holdfast.Wait(wait), holdfast.LeaseTime(lease))
			if errors.Is(err, holdfast.ErrNotAcquired) || wait < late && inVain(err) {
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			got++
			mu.Unlock()
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	return got
}

func TestFA03DeadlinesAfterRefusedTries(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	const lease = 2 * time.Minute
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	if got := churn(t, s, n, 10*time.Millisecond, lease); got != 0 {
		t.Errorf("%d tries have succeeded beside the holder", got)
	}
	wantNoQueue(t, s, n)
	enqueueProcess(t, s, n, 1).Kill()
	wantDeadlines(t, s, n, lease)
	release(t, l)
	release(t, enteredPastDead(t, background(t.Context(), open(t, s.URL()).FairMutex(n))))
	wantNoQueue(t, s, n)
}

func TestFA04DeadlinesAfterTries(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	const lease = 30 * time.Second
	if got := churn(t, s, n, 20*time.Second, lease); got != 150 {
		t.Errorf("%d of 150 tries have succeeded", got)
	}
	wantNoQueue(t, s, n)
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	enqueueProcess(t, s, n, 1).Kill()
	wantDeadlines(t, s, n, lease)
	release(t, l)
	release(t, enteredPastDead(t, background(t.Context(), open(t, s.URL()).FairMutex(n))))
	wantNoQueue(t, s, n)
}

func TestFA05DeadlinesBehindDeadWaiter(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	const lease = 2 * time.Minute
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	enqueueProcess(t, s, n, 1).Kill()
	if got := churn(t, s, n, 10*time.Millisecond, lease); got != 0 {
		t.Errorf("%d tries have succeeded beside the holder", got)
	}
	// Who could not leave the queue in time does so in the background.
	eventually(t, 10*time.Second, "the tries have left", func() bool { return s.Int(t, "LLEN", queueKey(n)) <= 1 })
	p := enqueue(t, t.Context(), s, open(t, s.URL()).FairMutex(n))
	wantDeadlines(t, s, n, lease)
	release(t, l)
	got := enteredPastDead(t, p.got)
	if got.Owner() != p.owner {
		t.Errorf("%s was in the queue, and %s is in", p.owner, got.Owner())
	}
	release(t, got)
	wantNoQueue(t, s, n)
}

// Redisson tells each waiter how long those before it may take, and has to
// correct that when one of them leaves. Here it is all the same to the others.
func TestFA06SecondGivesUp(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	const lease = time.Minute
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var places []place
	for i := range 4 {
		each := t.Context()
		if i == 1 {
			each = ctx
		}
		places = append(places, enqueue(t, each, s, open(t, s.URL()).FairMutex(n)))
		wantDeadlines(t, s, n, lease)
	}
	// Whoever listens has heard that the lock is held.
	listened(t, s, "redisson_lock__channel:{"+n+"}:"+places[1].owner)
	cancel()
	if err := await(t, places[1].got).err; !errors.Is(err, context.Canceled) || !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("the second gave up with %v", err)
	}
	places = slices.Delete(places, 1, 2)
	// Who cannot leave the queue in time does so in the background.
	eventually(t, 10*time.Second, "the second has left", func() bool { return s.Int(t, "LLEN", queueKey(n)) == int64(len(places)) })
	wantQueue(t, s, n, places...)
	wantDeadlines(t, s, n, lease)
	start := time.Now()
	release(t, l)
	first := entered(t, places[0].got)
	if took := time.Since(start); took > late {
		t.Errorf("the first got in after %v, want at once", took)
	}
	wantQueue(t, s, n, places[1:]...)
	release(t, first)
	inOrder(t, places[1:]...)
	wantNoQueue(t, s, n)
}

func TestFA07TriesRunOut(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	const wait, lease = 5 * time.Second, time.Minute
	var cs [4]*holdfast.Client
	for i := range cs {
		cs[i] = open(t, s.URL())
	}
	lock(t, t.Context(), open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease)) // and never released
	var places []place
	for _, c := range cs[:3] {
		places = append(places, enqueue(t, t.Context(), s, c.FairMutex(n), holdfast.Wait(wait)))
	}
	last := enqueue(t, t.Context(), s, cs[3].FairMutex(n), holdfast.Wait(lease), holdfast.LeaseTime(10*time.Second))
	for _, p := range places {
		if err := awaitAfter(t, wait, p.got).err; !inVain(err) {
			t.Errorf("the try ended with %v, want ErrNotAcquired", err)
		}
	}
	// Who cannot leave the queue in time does so in the background.
	eventually(t, 10*time.Second, "the tries have left", func() bool { return s.Int(t, "LLEN", queueKey(n)) == 1 })
	wantQueue(t, s, n, last)
	wantDeadlines(t, s, n, lease)
	// The lease must not end before all of that is seen, so its end is set now.
	ends := serverTime(t, s) + 500
	s.Do(t, "PEXPIREAT", n, fmt.Sprint(ends))
	l := enteredAfter(t, time.Second, last.got)
	if after := expiry(t, s, n) - 10_000 - ends; after < 0 || after > late.Milliseconds() {
		t.Errorf("the last try got in %d ms after the lease, want at once", after)
	}
	release(t, l)
	wantNoQueue(t, s, n)
}

// The deadlines of those who wait on do not suffer from a grant.
func TestFA08DeadlinesAfterGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	const lease = 30 * time.Second
	l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease))
	var places []place
	for range 4 {
		places = append(places, enqueue(t, t.Context(), s, open(t, s.URL()).FairMutex(n), holdfast.LeaseTime(lease)))
	}
	for i, p := range places {
		wantQueue(t, s, n, places[i:]...)
		wantDeadlines(t, s, n, lease)
		release(t, l)
		l = entered(t, p.got)
		time.Sleep(1200 * time.Millisecond) // so that the rest gives a sign of life under this holder
	}
	release(t, l)
	wantNoQueue(t, s, n)
}

func TestFA09AllAbandon(t *testing.T) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		s := redistest.Shared(t)
		n := name(t)
		l := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
		enqueueProcess(t, s, n, 3).Kill()
		time.Sleep(100 * time.Millisecond) // until the server has read their last words
		release(t, l)
		start := time.Now()
		got := lock(t, t.Context(), open(t, s.URL()).FairMutex(n))
		if took := time.Since(start); took > 3*time.Second+2*late {
			t.Errorf("got in after %v", took)
		}
		wantNoQueue(t, s, n)
		release(t, got)
	})
	// A Java waiter that was interrupted leaves its entry behind. Its time is
	// over now.
	t.Run("Java threads", func(t *testing.T) {
		t.Parallel()
		s := redistest.Shared(t)
		m := open(t, s.URL()).FairMutex(name(t))
		for i := range 3 {
			zombie := fmt.Sprint("0b1f1c4e-8d5c-4b0e-9d5e-2f6d9f0c7a11:", i)
			s.Do(t, "RPUSH", queueKey(m.Name()), zombie)
			if i != 1 { // and this one has none, which stops Redisson for ever
				s.Do(t, "ZADD", deadlinesKey(m.Name()), fmt.Sprint(time.Now().UnixMilli()-1000), zombie)
			}
		}
		wantFree(t, m)
		wantNoQueue(t, s, m.Name())
	})
}

func TestFA10FailedTryLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	l, err := open(t, s.URL()).FairMutex(n).TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, s.URL()).FairMutex(n)
	if _, err := m.TryLock(t.Context(), holdfast.Wait(time.Second)); !inVain(err) {
		t.Errorf("error %v, want ErrNotAcquired", err)
	}
	wantRefused(t, m) // this one does not queue
	wantNoQueue(t, s, n)
	release(t, l)
	wantFree(t, m)
}

// Those who only try once do not pass those who wait.
func TestFA10TryDoesNotPass(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	c := open(t, s.URL())
	l := lock(t, t.Context(), c.FairMutex(n))
	w := enqueueProcess(t, s, n, 1)
	w.Pause()
	release(t, l)
	wantRefused(t, c.FairMutex(n))
	w.Resume()
	if ivs := visits(t, w); len(ivs) != 1 {
		t.Errorf("the one in the queue was in %d times", len(ivs))
	}
	wantFree(t, c.FairMutex(n))
	wantNoQueue(t, s, n)
}

func TestFA11StrictOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	n := name(t)
	cs := []*holdfast.Client{open(t, s.URL()), open(t, s.URL()), open(t, s.URL())}
	l := lock(t, t.Context(), cs[0].FairMutex(n))
	var places []place
	for i := range max(2*runtime.NumCPU(), 12) {
		places = append(places, enqueue(t, t.Context(), s, cs[i%len(cs)].FairMutex(n)))
	}
	time.Sleep(50 * time.Millisecond)
	release(t, l)
	inOrder(t, places...)
	wantNoQueue(t, s, n)
}

// All keys of a name are in one slot of a cluster, and named as Redisson does.
func TestFA12KeyNames(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	for name, tagged := range map[string]string{"Test:plain": "{Test:plain}", "Test:{tag}:x": "Test:{tag}:x"} {
		c := open(t, enduring(s.URL()))
		m := c.FairMutex(name)
		l := lock(t, t.Context(), m)
		waiter := background(t.Context(), m)
		want := []string{
			"holdfast:waiting:" + tagged, "redisson_lock_queue:" + tagged, "redisson_lock_timeout:" + tagged, name,
		}
		slices.Sort(want)
		eventually(t, 10*time.Second, "somebody waits and listens", func() bool {
			return s.Int(t, "LLEN", "redisson_lock_queue:"+tagged) == 1 && len(s.Channels(t)) == 1
		})
		if keys := s.Keys(t); !slices.Equal(keys, want) {
			t.Errorf("keys %q, want %q", keys, want)
		}
		owner := s.Strings(t, "LRANGE", "redisson_lock_queue:"+tagged, "0", "-1")[0]
		if ch := s.Channels(t)[0]; ch != "redisson_lock__channel:"+tagged+":"+owner {
			t.Errorf("channel %q of the waiter %q", ch, owner)
		}
		st, err := m.State(t.Context())
		if err != nil || st.Owner != l.Owner() || !slices.Equal(st.Waiting, []string{owner}) {
			t.Errorf("State is %+v, %v, want the owner %s and the waiter %s", st, err, l.Owner(), owner)
		}
		release(t, l)
		release(t, entered(t, waiter))
		if keys := s.Keys(t); len(keys) > 0 {
			t.Errorf("keys left: %q", keys)
		}
		eventually(t, 10*time.Second, "no channel is left", func() bool { return len(s.Channels(t)) == 0 })
	}
}

// The pause is shorter than Redisson's, but longer than a waiter may be silent,
// and longer than a request may take.
func TestFA13PausedServer(t *testing.T) {
	t.Parallel()
	for when, during := range map[string]bool{"released after the pause": false, "released in the pause": true} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			pausedServer(t, 4*time.Second, during)
		})
	}
}

// pausedServer checks that a queue survives that the server stands still.
func pausedServer(t *testing.T, pause time.Duration, during bool) {
	t.Helper()
	s := redistest.Start(t)
	n := name(t)
	l := lock(t, t.Context(), open(t, s.URL()+"?timeout=20s").FairMutex(n))
	var places []place
	for range 6 {
		// A request that was sent in the pause counts as a sign of life when it
		// ends, however busy this process is then.
		places = append(places, enqueue(t, t.Context(), s, open(t, s.URL()+"?timeout=20s").FairMutex(n)))
		time.Sleep(150 * time.Millisecond) // so that they give their signs at different times
	}
	s.Do(t, "CLIENT", "PAUSE", fmt.Sprint(pause.Milliseconds()), "WRITE")
	if !during {
		time.Sleep(pause + 1500*time.Millisecond) // until all have spoken again
		wantQueue(t, s, n, places...)
		wantDeadlines(t, s, n, 30*time.Second)
	}
	release(t, l)
	inOrder(t, places...)
	wantNoQueue(t, s, n)
}

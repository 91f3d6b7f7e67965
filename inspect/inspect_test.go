package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// Listing all locks and inspecting a single lock both show the right kind.
func TestKinds(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	other, _ := open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := func(l holdfast.Locker) {
		go func() {
			if lease, err := l.Lock(ctx); err == nil {
				_ = lease.Release(context.Background())
			}
		}()
	}
	hold := func(lease *holdfast.Lease, mode inspect.Mode, holds int) inspect.Holder {
		return inspect.Holder{Owner: lease.Owner(), Mode: mode, Holds: holds, TTL: time.Hour}
	}
	want := make(map[string]inspect.Lock)
	expect := func(l inspect.Lock) { want[l.Name] = l }

	m := must(c.Mutex("mutex").Lock(ctx))(t)
	must(c.Mutex("mutex").Lock(m.Context()))(t)
	waits(other.Mutex("mutex"))
	queued := func(name string, kind inspect.Kind) []inspect.Waiter {
		q := eventually(t, i, name, func(l inspect.Lock) bool { return l.Queued == 1 }).Queue
		return []inspect.Waiter{{Owner: q[0].Owner, Place: 1, Kind: kind, Permits: q[0].Permits, Waited: time.Hour}}
	}
	expect(inspect.Lock{Name: "mutex", Kind: inspect.Mutex, Clients: 1, Queue: queued("mutex", inspect.Mutex), Queued: 1, Holders: []inspect.Holder{hold(m, inspect.Exclusive, 2)}})

	f := must(c.FairMutex("fair:{1}").Lock(ctx))(t)
	waits(other.FairMutex("fair:{1}"))
	first := eventually(t, i, "fair:{1}", func(l inspect.Lock) bool { return len(l.Queue) == 1 && l.Clients == 1 }).Queue[0]
	waits(c.FairMutex("fair:{1}"))
	queue := eventually(t, i, "fair:{1}", func(l inspect.Lock) bool { return len(l.Queue) == 2 && l.Clients == 2 }).Queue
	if queue[0].Owner != first.Owner || queue[0].Place != 1 || queue[1].Place != 2 {
		t.Errorf("the queue is %+v, but %+v came first", queue, first)
	}
	expect(inspect.Lock{Name: "fair:{1}", Kind: inspect.Fair, Clients: 2, Queue: queue, Queued: 2, Holders: []inspect.Holder{hold(f, inspect.Exclusive, 1)}})

	done(t, must(c.FencedMutex("fenced").Lock(ctx))(t).Release(ctx))
	n := must(c.FencedMutex("fenced").Lock(ctx))(t)
	expect(inspect.Lock{Name: "fenced", Kind: inspect.Fenced, Token: 2, Holders: []inspect.Holder{hold(n, inspect.Exclusive, 1)}})

	e := must(c.Election("election").Campaign(ctx, "10.0.0.1:80"))(t)
	expect(inspect.Lock{Name: "election", Kind: inspect.Election, Token: 1, Leader: "10.0.0.1:80", Holders: []inspect.Holder{hold(e, inspect.Exclusive, 1)}})

	r1, r2 := must(c.RWMutex("read").RLock(ctx))(t), must(other.RWMutex("read").RLock(ctx))(t)
	waits(c.RWMutex("read"))
	expect(inspect.Lock{Name: "read", Kind: inspect.RW, Clients: 1, Queue: queued("read", inspect.RW), Queued: 1, Holders: []inspect.Holder{hold(r1, inspect.Read, 1), hold(r2, inspect.Read, 1)}})

	w := must(c.RWMutex("write").Lock(ctx))(t)
	expect(inspect.Lock{Name: "write", Kind: inspect.RW, Holders: []inspect.Holder{hold(w, inspect.Write, 1)}})

	sem := c.LeasedSemaphore("semaphore")
	done(t, sem.Set(ctx, 2))
	p := must(sem.Acquire(ctx, 2))(t)
	waits(other.LeasedSemaphore("semaphore").Locker(1))
	expect(inspect.Lock{Name: "semaphore", Kind: inspect.Semaphore, Clients: 1, Queue: queued("semaphore", inspect.Semaphore), Queued: 1, Holders: []inspect.Holder{
		{Owner: p.PermitIDs()[0], Mode: inspect.Permit, Holds: 1, TTL: time.Hour},
		{Owner: p.PermitIDs()[1], Mode: inspect.Permit, Holds: 1, TTL: time.Hour},
	}})

	for name, l := range want {
		eventually(t, i, name, func(now inspect.Lock) bool { return reflect.DeepEqual(without(now), without(l)) })
	}
	listed := must(list(t, i, inspect.Query{}))(t)
	if len(listed) != len(want) {
		t.Errorf("%d locks are listed, want %d", len(listed), len(want))
	}
	for name, l := range want {
		if got := without(listed[name]); !reflect.DeepEqual(got, without(l)) {
			t.Errorf("%s is listed as\n%+v, want\n%+v", name, got, without(l))
		}
		for _, h := range listed[name].Holders {
			if h.TTL < 10*time.Second || h.TTL > 30*time.Second {
				t.Errorf("%s: %s has %v left", name, h.Owner, h.TTL)
			}
		}
	}
}

// What is free, or is no lock, is not listed.
func TestNotListed(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	ctx := t.Context()
	done(t, must(c.FencedMutex("free").Lock(ctx))(t).Release(ctx))
	must(c.Semaphore("semaphore").TrySet(ctx, 3, 0))(t)
	must(c.LeasedSemaphore("leased").TrySet(ctx, 3, 0))(t)
	must(c.RateLimiter("limiter").TrySetRate(ctx, holdfast.Rate{Permits: 10, Per: time.Minute}))(t)
	must(c.RateLimiter("limiter").Allow(ctx))(t)
	must(object.NewTimeID(c, "ids").Next(ctx))(t)
	must(c.Latch("latch").TrySet(ctx, 1))(t)
	s.Do(t, "HSET", "user:1", "name", "Ann", "mail", "a@b")
	s.Do(t, "HSET", "visits", "user:42", "7")
	if locks, err := list(t, i, inspect.Query{}); err != nil || len(locks) != 0 {
		t.Errorf("listed: %+v, %v", locks, err)
	}
	if l, err := i.Lock(ctx, "free"); err != nil || l.Kind != inspect.Fenced || l.Token != 1 || len(l.Holders) != 0 {
		t.Errorf("a free lock: %+v, %v", l, err)
	}
	for _, name := range []string{"user:1", "visits", "ids", "limiter", "latch", "leased"} {
		if l, err := i.Lock(ctx, name); !errors.Is(err, inspect.ErrNotLock) || l.Name != "" {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// fill runs a script for each of many names.
func fill(tb testing.TB, d driver.Driver, source string, names []string) {
	tb.Helper()
	s := driver.NewScript("fill", source)
	calls := make(map[string][]driver.Call)
	for _, n := range names {
		node := d.Place(n).Node
		calls[node] = append(calls[node], driver.Call{Script: s, Keys: []string{n}})
	}
	for _, all := range calls {
		for some := range slices.Chunk(all, 500) {
			for _, r := range d.DoMany(tb.Context(), some) {
				done(tb, r.Err)
			}
		}
	}
}

// Among many keys, on however many masters, all locks are found; not more than
// asked for is looked at or listed, and then that is said.
func TestAmongManyKeys(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	names := func(format string, n int) (all []string) {
		for k := range n {
			all = append(all, fmt.Sprintf(format, k))
		}
		return all
	}
	fill(t, c.Driver(), `redis.call('set', KEYS[1], 1)`, names("text:%d", 10_000))
	fill(t, c.Driver(), `redis.call('hset', KEYS[1], 'name', 'Ann', 'mail', 'x', 'age', 7)`, names("user:%d", 9_000))
	fill(t, c.Driver(), `redis.call('zadd', KEYS[1], 1, 'x')`, names("{job:%d}:timeout", 950))
	fill(t, c.Driver(), `redis.call('hset', KEYS[1], 'a:1', 1) redis.call('pexpire', KEYS[1], 600000)`, names("lock:%d", 50))
	if redistest.Topology() == "cluster" {
		nodes := make(map[string]bool)
		for _, n := range names("lock:%d", 50) {
			nodes[c.Driver().Place(n).Node] = true
		}
		if len(nodes) != 3 {
			t.Fatalf("the locks are on %d masters", len(nodes))
		}
	}
	for _, tt := range []struct {
		title string
		q     inspect.Query
		n     int
		more  bool
	}{
		{"all", inspect.Query{}, 50, false},
		{"just as many as there are", inspect.Query{Limit: 50}, 50, false},
		{"fewer", inspect.Query{Limit: 49}, 49, true},
		{"by a pattern", inspect.Query{Match: "lock:?"}, 10, false},
		{"by one that nothing matches", inspect.Query{Match: "nothing"}, 0, false},
		{"with pauses", inspect.Query{Match: "lock:1?", Pause: time.Millisecond}, 10, false},
		{"few keys", inspect.Query{Keys: 300}, -1, true},
	} {
		locks, err := list(t, i, tt.q)
		if n := len(locks); n != tt.n && (tt.n >= 0 || n >= 50) || errors.Is(err, inspect.ErrMore) != tt.more || (err != nil) != tt.more {
			t.Errorf("%s: %d locks, %v", tt.title, n, err)
		}
	}
	for range i.Locks(t.Context(), inspect.Query{}) {
		break // wants no more, and gets no more
	}
}

// Locks of other programs are shown even if Holdfast refuses their names. This
// also holds in a cluster, where their derived keys live on other nodes.
func TestHostileNames(t *testing.T) {
	s := redistest.Fresh(t)
	_, i := open(t, s.URL())
	names := []string{
		"", "\x1b[31mred\n\r\t", "\xff\xfe", strings.Repeat("x", 1021), "{}", "a}b", "{a", "}{", "{}{x}", "*", "[", `\`,
		"redisson_lock_queue:{x}", "holdfast:x", "{a}:b:1:rwlock_timeout:1", "<script>", "'; DROP", "a b",
	}
	for _, n := range names {
		s.Do(t, "HSET", n, "a:1", "1")
		s.Do(t, "EXPIRE", n, "600")
		s.Do(t, "HSET", n+"~rw", "mode", "read", "b:1", "1")
		s.Do(t, "EXPIRE", n+"~rw", "600")
		s.Do(t, "SET", n+":timeout", "x")
	}
	long := strings.Repeat("x", 1025)
	s.Do(t, "HSET", long, "a:1", "1")
	s.Do(t, "EXPIRE", long, "600")
	listed := must(list(t, i, inspect.Query{}))(t)
	if _, ok := listed[long]; ok {
		t.Error("a name of 1025 bytes is listed")
	}
	if l, err := i.Lock(t.Context(), long); err != nil || len(l.Holders) != 1 {
		t.Errorf("a name of 1025 bytes: %+v, %v", l, err)
	}
	for _, n := range names {
		l, ok := listed[n]
		if !ok || len(l.Holders) != 1 || l.Holders[0].Owner != "a:1" {
			t.Errorf("%.40q is listed as %+v (%v)", n, l.Holders, ok)
		}
		if n == "" {
			continue
		}
		if l, err := i.Lock(t.Context(), n+"~rw"); err != nil || l.Kind != inspect.RW {
			t.Errorf("%.40q: %v, %v", n+"~rw", l.Kind, err)
		}
		if done, err := i.Break(t.Context(), l); err != nil || !done {
			t.Errorf("%.40q was not broken: %v", n, err)
		}
	}
	if _, err := i.Lock(t.Context(), ""); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no name: %v", err)
	}
}

// However many hold a lock, or wait for it, only so many are shown, and the
// others are counted.
func TestCrowd(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	const crowd = 3000
	sizes := []int{1, 2, 20, 21, 99, 100, 101, 600, crowd}
	for _, n := range sizes {
		fill(t, c.Driver(), fmt.Sprintf(`
			redis.call('hset', KEYS[1], 'mode', 'read')
			for i = 1, %d do
				redis.call('hset', KEYS[1], 'a:' .. i, 1)
				redis.call('set', '{' .. KEYS[1] .. '}:a:' .. i .. ':rwlock_timeout:1', 1, 'px', 600000)
			end
			redis.call('pexpire', KEYS[1], 600000)`, n), []string{fmt.Sprint("readers:", n)})
	}
	fill(t, c.Driver(), fmt.Sprintf(`for i = 1, %d do redis.call('rpush', KEYS[1], 'a:' .. i) end`, crowd), []string{"redisson_lock_queue:{queue}"})
	listed := must(list(t, i, inspect.Query{}))(t)
	for _, n := range sizes {
		name := fmt.Sprint("readers:", n)
		if l := listed[name]; len(l.Holders) < min(n, 50) || len(l.Holders) > 100 || len(l.Holders)+l.More != n {
			t.Errorf("of %d readers, %d are listed, and %d more", n, len(l.Holders), l.More)
		}
		if l := must(i.Lock(t.Context(), name))(t); len(l.Holders) < min(n, 500) || len(l.Holders) > 1000 || len(l.Holders)+l.More != n {
			t.Errorf("of %d readers, %d are shown, and %d more", n, len(l.Holders), l.More)
		}
	}
	if l := must(i.Lock(t.Context(), "queue"))(t); len(l.Queue) != 1000 || len(l.Queue)+l.More != crowd || l.Queued != crowd {
		t.Errorf("of %d who wait, %d are shown, and %d more", crowd, len(l.Queue), l.More)
	}
}

// Values of data of other programs may be of any size, and reading one blocks the server. So
// they are not read.
func TestValuesAreNotRead(t *testing.T) {
	for title, command := range map[string][]string{
		"one field":              {"HSET", "data", "body", "x"},
		"two fields":             {"HSET", "data", "body", "x", "head", "x"},
		"a leader":               {"HSET", "data", "body", "x", "leader", "a"},
		"a long leader":          {"HSET", "data", "a:1", "1", "leader", "x"},
		"a value of an owner":    {"HSET", "data", "a:1", "x"},
		"a mode":                 {"HSET", "data", "mode", "read", "body", "x"},
		"a mode, many fields":    {"HSET", "data", "mode", "read", "body", "x", "b", "x", "c", "x", "d", "x"},
		"a mode, value of owner": {"HSET", "data", "mode", "write", "a:1:write", "x"},
	} {
		t.Run(title, func(t *testing.T) {
			s := redistest.Fresh(t)
			_, i := open(t, s.URL())
			for n, arg := range command {
				if arg == "x" {
					command[n] = strings.Repeat("x", 1<<20)
				}
			}
			s.Do(t, command...)
			s.Do(t, "PEXPIRE", "data", "600000")
			s.Do(t, "CONFIG", "RESETSTAT")
			if locks := must(list(t, i, inspect.Query{}))(t); len(locks) != 0 {
				t.Errorf("listed: %v", locks)
			}
			if _, err := i.Lock(t.Context(), "data"); !errors.Is(err, inspect.ErrNotLock) {
				t.Errorf("the error is %v", err)
			}
			stats := s.Do(t, "INFO", "commandstats").(string)
			if !strings.Contains(stats, "cmdstat_hlen:") {
				t.Errorf("the hash was not inspected: %s", stats)
			}
			for _, reads := range []string{"hscan", "hgetall", "hvals", "hmget"} { // HGET reads what HSTRLEN has measured
				if strings.Contains(stats, "cmdstat_"+reads+":") {
					t.Errorf("%s was run: %s", reads, stats)
				}
			}
		})
	}
}

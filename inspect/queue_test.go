package inspect_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// queue returns the key of the queue of waiting clients.
func queue(name string) string { return "holdfast:queue:{" + name + "}" }

// Clients that wait are shown in the order of arrival, with their places, the kinds that
// they wait for, and how long they have waited. A second waiter of a client is not at the
// server.
func TestQueue(t *testing.T) {
	s := redistest.Fresh(t)
	holder, i := open(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, kind := range []struct {
		name       string
		held, want inspect.Kind
		hold, wait func(*holdfast.Client, string) holdfast.Locker
	}{
		{name: "mutex", held: inspect.Mutex, want: inspect.Mutex, wait: func(c *holdfast.Client, n string) holdfast.Locker { return c.Mutex(n) }},
		{name: "fenced", held: inspect.Fenced, want: inspect.Fenced, wait: func(c *holdfast.Client, n string) holdfast.Locker { return c.FencedMutex(n) }},
		{name: "writers", held: inspect.RW, want: inspect.RW, wait: func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) }},
		{
			name: "election", held: inspect.Election, want: inspect.Fenced,
			wait: func(c *holdfast.Client, n string) holdfast.Locker { return candidate{c.Election(n)} },
		},
		{
			name: "writers behind a reader", held: inspect.RW, want: inspect.RW,
			hold: func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n).RLocker() },
			wait: func(c *holdfast.Client, n string) holdfast.Locker { return c.RWMutex(n) },
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if kind.hold == nil {
				kind.hold = kind.wait
			}
			lease := must(kind.hold(holder, kind.name).Lock(ctx))(t)
			defer lease.Release(context.Background())
			var clients []string
			began := time.Now()
			for n := range 3 {
				c, _ := open(t, s.URL())
				for range 2 {
					go func() {
						if l, err := kind.wait(c, kind.name).Lock(ctx); err == nil {
							_ = l.Release(context.Background())
						}
					}()
				}
				l := eventually(t, i, kind.name, func(l inspect.Lock) bool { return l.Queued == n+1 })
				id, _, _ := strings.Cut(l.Queue[n].Owner, ":")
				if slices.Contains(clients, id) {
					t.Errorf("the client %s waits twice", id)
				}
				clients = append(clients, id)
			}
			l := must(i.Lock(ctx, kind.name))(t)
			if listed := must(list(t, i, inspect.Query{}))(t)[kind.name]; !slices.EqualFunc(l.Queue, listed.Queue, func(a, b inspect.Waiter) bool { return a.Owner == b.Owner && a.Place == b.Place }) {
				t.Errorf("listed as %+v", listed)
			}
			if l.Kind != kind.held || len(l.Queue) != 3 || l.More != 0 || len(l.Holders) != 1 || l.Holders[0].Owner != lease.Owner() {
				t.Fatalf("%+v", l)
			}
			for n, w := range l.Queue {
				if !strings.HasPrefix(w.Owner, clients[n]+":") || w.Place != n+1 || w.Kind != kind.want {
					t.Errorf("number %d is %+v, want a waiter of %s", n+1, w, clients[n])
				}
				if w.Waited < 0 || w.Waited > time.Since(began)+time.Second || n > 0 && w.Waited > l.Queue[n-1].Waited {
					t.Errorf("number %d has waited for %v of %v", n+1, w.Waited, time.Since(began))
				}
			}
		})
	}
}

// Clients that wait for permits are shown with how many they want. The semaphore is listed
// whether its permits are taken or not.
func TestQueueOfPermits(t *testing.T) {
	s := redistest.Fresh(t)
	holder, i := open(t, s.URL())
	for _, test := range []struct {
		name         string
		total, taken int
		want         []int
	}{
		{"all are taken", 3, 3, []int{1, 3, 2}},
		{"too few are free", 3, 1, []int{3}},
		{"more are wanted than there are", 3, 0, []int{1000, 4}},
		{"there are none", 0, 0, []int{1}},
		{"app:{more} are taken than there are", 2, 2, []int{1, 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sem := holder.LeasedSemaphore(test.name)
			done(t, sem.Set(ctx, test.total))
			if test.taken > 0 {
				defer must(sem.Acquire(ctx, test.taken))(t).Release(context.Background())
			}
			if strings.HasPrefix(test.name, "app:") {
				done(t, sem.Set(ctx, 1))
			}
			for n, permits := range test.want {
				c, _ := open(t, s.URL())
				for range 2 {
					go func() {
						if l, err := c.LeasedSemaphore(test.name).Acquire(ctx, permits); err == nil {
							_ = l.Release(context.Background())
						}
					}()
				}
				eventually(t, i, test.name, func(l inspect.Lock) bool { return l.Queued == n+1 })
			}
			l := must(i.Lock(ctx, test.name))(t)
			for _, l := range []inspect.Lock{l, must(list(t, i, inspect.Query{}))(t)[test.name]} {
				if l.Kind != inspect.Semaphore || len(l.Holders) != test.taken || len(l.Queue) != len(test.want) || l.Clients != len(test.want) || l.More != 0 {
					t.Fatalf("%+v", l)
				}
				for n, w := range l.Queue {
					if w.Permits != test.want[n] || w.Place != n+1 || w.Kind != inspect.Semaphore || w.Waited < 0 || !strings.Contains(w.Owner, "-") || strings.Count(w.Owner, ":") != 1 {
						t.Errorf("number %d is %+v, want %d permits", n+1, w, test.want[n])
					}
				}
			}
		})
	}
}

// A semaphore whose whole name is a hash tag shares its queue with the name without braces.
// It is listed under its own name.
func TestQueueOfPermitsAndTwin(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	for _, name := range []string{"{braced}", "plain"} {
		done(t, c.LeasedSemaphore(name).Set(t.Context(), 1))
		defer must(c.LeasedSemaphore(name).Acquire(t.Context(), 1))(t).Release(context.Background())
		s.Do(t, "ZADD", queue(strings.Trim(name, "{}")), "1", "a:1:permits1")
	}
	for match, want := range map[string][]string{"": {"plain", "{braced}"}, "*a*": {"plain", "{braced}"}, "pl*": {"plain"}, "{braced}": {"{braced}"}} {
		locks := must(list(t, i, inspect.Query{Match: match}))(t)
		for name, l := range locks {
			if len(l.Holders) != 1 || len(l.Queue) != 1 || l.Queue[0].Permits != 1 {
				t.Errorf("%s is %+v", name, l)
			}
		}
		if names := slices.Sorted(maps.Keys(locks)); !slices.Equal(names, want) {
			t.Errorf("%q lists %q, want %q", match, names, want)
		}
	}
}

// A candidate is an election as a lock.
type candidate struct{ *holdfast.Election }

func (c candidate) Lock(ctx context.Context, o ...holdfast.LockOption) (*holdfast.Lease, error) {
	return c.Campaign(ctx, "", o...)
}

func (c candidate) TryLock(ctx context.Context, o ...holdfast.LockOption) (*holdfast.Lease, error) {
	return c.TryCampaign(ctx, "", o...)
}

func (c candidate) Do(ctx context.Context, fn func(context.Context) error, o ...holdfast.LockOption) error {
	return c.Lead(ctx, "", fn, o...)
}

// A free lock with waiters is listed, once and under its own name.
func TestQueueOfFreeLock(t *testing.T) {
	s := redistest.Fresh(t)
	_, i := open(t, s.URL())
	for _, name := range []string{"free", "other:free"} {
		s.Do(t, "ZADD", queue(name), "1", "a:1:write", "2", "b:2:write")
	}
	s.Do(t, "ZADD", "holdfast:queue:app:{free}", "1", "a:1")
	// A lock whose whole name is a hash tag shares its queue with the name without braces.
	s.Do(t, "HSET", "{held}", "a:1", "1")
	s.Do(t, "PEXPIRE", "{held}", "600000")
	s.Do(t, "ZADD", queue("held"), "1", "b:1")
	s.Do(t, "HSET", "twin", "a:1", "1")
	s.Do(t, "PEXPIRE", "twin", "600000")
	s.Do(t, "ZADD", queue("twin"), "1", "b:1")
	// A semaphore without taken permits, and one that was deleted.
	s.Do(t, "SET", "permits", "3")
	s.Do(t, "SET", "permits:deleted", "3")
	for _, name := range []string{"permits", "permits:deleted"} {
		s.Do(t, "ZADD", queue(name), "1", "a:1:permits5", "2", "b:1:permits7")
	}
	s.Do(t, "DEL", "permits:deleted")
	// These are not locks.
	s.Do(t, "SET", "text", "x")
	s.Do(t, "ZADD", queue("text"), "1", "a:1:permits5")
	s.Do(t, "SET", "number", "3")
	s.Do(t, "ZADD", queue("number"), "1", "a:1")
	s.Do(t, "SET", queue("none"), "x")
	for match, want := range map[string][]string{
		"":        {"app:{free}", "free", "other:free", "permits", "permits:deleted", "twin", "{held}"},
		"*free":   {"free", "other:free"},
		"fr[de]e": {"free"},
		"app:*":   {"app:{free}"},
		"{held}":  {"{held}"},
		"perm*":   {"permits", "permits:deleted"},
		"none":    nil,
		"number":  nil,
	} {
		var names []string
		for name, l := range must(list(t, i, inspect.Query{Match: match}))(t) {
			names = append(names, name)
			if l.Queued < 1 || l.Queue[0].Place != 1 || strings.HasSuffix(name, "free") && (l.Kind != inspect.RW || len(l.Queue) != 2 || len(l.Holders) != 0) {
				t.Errorf("%s is %+v", name, l)
			}
			if strings.HasPrefix(name, "permits") && (l.Kind != inspect.Semaphore || len(l.Queue) != 2 || l.Queue[1].Permits != 7 || len(l.Holders) != 0) {
				t.Errorf("%s is %+v", name, l)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("%q lists %q, want %q", match, names, want)
		}
	}
}

// However long the queue is, and whatever is in it, the lock is shown, with a bounded
// number of entries.
func TestHostileQueue(t *testing.T) {
	s := redistest.Fresh(t)
	c, i := open(t, s.URL())
	hold := func(name string) {
		s.Do(t, "HSET", name, "a:1", "1")
		s.Do(t, "PEXPIRE", name, "600000")
	}
	const crowd = 3000
	hold("crowd")
	fill(t, c.Driver(), fmt.Sprintf(`for i = 1, %d do redis.call('zadd', KEYS[1], i, 'a:' .. i) end`, crowd), []string{queue("crowd")})
	if l := must(i.Lock(t.Context(), "crowd"))(t); len(l.Queue) != 1000 || l.Queued != crowd || l.More != crowd-1000 || l.Queue[999].Place != 1000 {
		t.Errorf("of %d waiters, %d are shown and %d more: %d", crowd, len(l.Queue), l.More, l.Queued)
	}
	if l := must(list(t, i, inspect.Query{}))(t)["crowd"]; len(l.Queue) != 100 || l.Queued != crowd {
		t.Errorf("of %d waiters, %d are listed: %d", crowd, len(l.Queue), l.Queued)
	}

	s.Do(t, "SET", "permits", "0")
	fill(t, c.Driver(), fmt.Sprintf(`
		for i = 1, %d do
			redis.call('zadd', KEYS[1], 1e15, string.format('%%016d', i))
			redis.call('zadd', 'holdfast:queue:{permits}', i, 'a:' .. i .. ':permits' .. i)
		end`, crowd), []string{"{permits}:timeout"})
	if l := must(i.Lock(t.Context(), "permits"))(t); len(l.Holders) != 1000 || len(l.Queue) != 1000 || l.Queued != crowd || l.More != 2*(crowd-1000) || l.Queue[999].Permits != 1000 {
		t.Errorf("of %d taken permits and waiters, %d and %d are shown and %d more: %d", crowd, len(l.Holders), len(l.Queue), l.More, l.Queued)
	}
	s.Do(t, "DEL", "{permits}:timeout")
	if l := must(list(t, i, inspect.Query{}))(t)["permits"]; len(l.Holders) != 0 || len(l.Queue) != 100 || l.Queued != crowd || l.More != crowd-100 {
		t.Errorf("of %d waiters for permits, %d are listed and %d more: %d", crowd, len(l.Queue), l.More, l.Queued)
	}

	hold("long")
	fill(t, c.Driver(), `for i = 1, 9 do redis.call('zadd', KEYS[1], i, string.rep('x', 300000) .. i) end`, []string{queue("long")})
	if l := must(i.Lock(t.Context(), "long"))(t); len(l.Holders) != 1 || len(l.Queue) > 4 || l.Queued != 9 || len(l.Queue)+l.More != 9 {
		t.Errorf("of 9 long entries, %d are shown and %d more: %d", len(l.Queue), l.More, l.Queued)
	}

	hold("odd")
	owners := []string{
		"", "\x1b[2J", "a:1:read", "A:1", "g:1", "a:x", "\xff:1", "a:1\n", strings.Repeat("a", 101) + ":1",
		"a:1:permits", "a:1:permits0", "a:1:permits000", "a:1:permits1000000000", "a:1:permits" + strings.Repeat("9", 80), "a:1:permits-1", "a:1:permits1e3",
		"a:1:permits1x", "a:1permits1", "a:1:1", "a:1:fenced7", "a:1:write1", "a:1:Permits1",
	}
	for _, o := range owners {
		s.Do(t, "ZADD", queue("odd"), "2", o)
	}
	s.Do(t, "ZADD", queue("odd"), "-inf", "b:1", "+inf", "b:2:fenced", "1e300", "b:3:write", "-1e300", "b:4", "3", "b:5:permits999999999")
	l := must(i.Lock(t.Context(), "odd"))(t)
	if len(l.Holders) != 1 || len(l.Queue) != len(owners)+5 || l.Queue[0].Owner != "b:1" || l.Queue[len(l.Queue)-1].Owner != "b:2" {
		t.Fatalf("%+v", l)
	}
	for n, w := range l.Queue {
		known := strings.HasPrefix(w.Owner, "b:") || w.Owner == "A:1"
		if w.Waited >= 0 || w.Place != n+1 || (w.Kind != "") != known || !known && !slices.Contains(owners, w.Owner) {
			t.Errorf("%+v", w)
		}
		if want := map[string]int{"b:5": 999_999_999}[w.Owner]; w.Permits != want {
			t.Errorf("%+v, want %d permits", w, want)
		}
	}

	for name, command := range map[string][]string{"text": {"SET", queue("text"), "x"}, "list": {"RPUSH", queue("list"), "a:1"}, "hash": {"HSET", queue("hash"), "a:1", "1"}} {
		hold(name)
		s.Do(t, command...)
		if l := must(i.Lock(t.Context(), name))(t); len(l.Holders) != 1 || len(l.Queue) != 0 || l.Queued != 0 || l.More != 0 {
			t.Errorf("with a %s as its queue: %+v", name, l)
		}
	}
}

// A user that may not read the queue sees the rest, and that the queue is unknown.
func TestQueueWithoutRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range rights(t) {
		s.Do(t, c...)
	}
	_, i := open(t, strings.Replace(s.URL(), "redis://", "redis://operator:secret@", 1))
	for n := range 120 { // in several batches
		name := fmt.Sprint("app:", n)
		s.Do(t, "HSET", name, "a:1", "1")
		s.Do(t, "PEXPIRE", name, "600000")
		s.Do(t, "ZADD", queue(name), "1", "b:1", "2", "c:1")
	}
	s.Do(t, "ZADD", queue("app:free"), "1", "b:1")
	check := func(what string, seen bool, n int) {
		t.Helper()
		locks, err := list(t, i, inspect.Query{Match: "app:*"})
		if err != nil || len(locks) != n {
			t.Errorf("%s: %d locks, %v", what, len(locks), err)
		}
		for _, l := range locks {
			if len(l.Holders) == 1 && (seen && (len(l.Queue) != 2 || l.Queued != 2) || !seen && (len(l.Queue) != 0 || l.Queued >= 0)) {
				t.Errorf("%s: %+v", what, l)
			}
		}
		if l, err := i.Lock(t.Context(), "app:7"); err != nil || len(l.Holders) != 1 || (l.Queued == 2) != seen {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
	s.Do(t, "ACL", "SETUSER", "operator", "resetkeys")
	s.Do(t, append([]string{"ACL", "SETUSER", "operator"}, rights(t)[3][3:]...)...) // those of one prefix
	check("with the documented rights", true, 121)
	for _, command := range []string{"zcard", "zrange"} {
		s.Do(t, "ACL", "SETUSER", "operator", "-"+command)
		check("without "+command, false, 120)
		s.Do(t, "ACL", "SETUSER", "operator", "+"+command)
	}
	s.Do(t, "SET", "app:permits", "0")
	s.Do(t, "ZADD", "{app:permits}:timeout", "1e15", "0123456789abcdef")
	s.Do(t, "ZADD", queue("app:permits"), "1", "b:1:permits1", "2", "c:1:permits2")
	check("with a semaphore", true, 122)
	s.Do(t, "ACL", "SETUSER", "operator", "resetkeys", "~holdfast:scan:*", "~app:*", "~{app:*", "~redisson_*:{app:*")
	check("without the key", false, 121)
}

package inspect_test

import (
	"context"
	"fmt"
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

// A candidate is an election as a lock.
type candidate struct{ *holdfast.Election }

func (c candidate) Lock(ctx context.Context, o ...holdfast.Option) (*holdfast.Lease, error) {
	return c.Campaign(ctx, "", o...)
}

func (c candidate) TryLock(ctx context.Context, o ...holdfast.Option) (*holdfast.Lease, error) {
	return c.TryCampaign(ctx, "", o...)
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
	// These are not locks.
	s.Do(t, "SET", "text", "x")
	s.Do(t, "ZADD", queue("text"), "1", "a:1")
	s.Do(t, "SET", queue("none"), "x")
	for match, want := range map[string][]string{
		"":        {"app:{free}", "free", "other:free", "twin", "{held}"},
		"*free":   {"free", "other:free"},
		"fr[de]e": {"free"},
		"app:*":   {"app:{free}"},
		"{held}":  {"{held}"},
		"none":    nil,
	} {
		var names []string
		for name, l := range must(list(t, i, inspect.Query{Match: match}))(t) {
			names = append(names, name)
			if l.Queued < 1 || l.Queue[0].Place != 1 || strings.HasSuffix(name, "free") && (l.Kind != inspect.RW || len(l.Queue) != 2 || len(l.Holders) != 0) {
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

	hold("long")
	fill(t, c.Driver(), `for i = 1, 9 do redis.call('zadd', KEYS[1], i, string.rep('x', 300000) .. i) end`, []string{queue("long")})
	if l := must(i.Lock(t.Context(), "long"))(t); len(l.Holders) != 1 || len(l.Queue) > 4 || l.Queued != 9 || len(l.Queue)+l.More != 9 {
		t.Errorf("of 9 long entries, %d are shown and %d more: %d", len(l.Queue), l.More, l.Queued)
	}

	hold("odd")
	owners := []string{"", "\x1b[2J", "a:1:read", "A:1", "g:1", "a:x", "\xff:1", "a:1\n", strings.Repeat("a", 101) + ":1"}
	for _, o := range owners {
		s.Do(t, "ZADD", queue("odd"), "2", o)
	}
	s.Do(t, "ZADD", queue("odd"), "-inf", "b:1", "+inf", "b:2:fenced", "1e300", "b:3:write", "-1e300", "b:4")
	l := must(i.Lock(t.Context(), "odd"))(t)
	if len(l.Holders) != 1 || len(l.Queue) != len(owners)+4 || l.Queue[0].Owner != "b:1" || l.Queue[len(l.Queue)-1].Owner != "b:2" {
		t.Fatalf("%+v", l)
	}
	for n, w := range l.Queue {
		known := strings.HasPrefix(w.Owner, "b:") || w.Owner == "A:1"
		if w.Waited >= 0 || w.Place != n+1 || (w.Kind != "") != known || !known && !slices.Contains(owners, w.Owner) {
			t.Errorf("%+v", w)
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
	s.Do(t, "ACL", "SETUSER", "operator", "resetkeys", "~holdfast:scan:*", "~app:*", "~{app:*", "~redisson_*:{app:*")
	check("without the key", false, 120)
}

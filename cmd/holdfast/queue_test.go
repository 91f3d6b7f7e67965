package main_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/vt"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// queueKey returns the key of the queue of waiting clients.
func queueKey(name string) string { return "holdfast:queue:{" + name + "}" }

// TestQueue checks that ls, show and watch tell which clients wait for a lock, and in
// which place.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := lsOpen(t, s)
	lsHold(t, holder.Mutex("mutex"))
	lsHold(t, holder.FencedMutex("fenced"))
	lsHold(t, holder.RWMutex("rw").RLocker())
	queue := make(map[string][]string)
	for n := range 3 {
		c := lsOpen(t, s)
		for name, l := range map[string]holdfast.Locker{"mutex": c.Mutex("mutex"), "fenced": c.FencedMutex("fenced"), "rw": c.RWMutex("rw")} {
			lsWait(t, l)
			eventually(t, "another client waits", func() bool { return s.Int(t, "ZCARD", queueKey(name)) == int64(n+1) })
			entry := s.Strings(t, "ZRANGE", queueKey(name), "-1", "-1")[0]
			queue[name] = append(queue[name], strings.TrimSuffix(strings.TrimSuffix(entry, ":fenced"), ":write"))
		}
	}
	execute(t, "ls", "--url", s.URL()).want(t, 0, `^NAME [^\n]*\nfenced +fenced mutex [^\n]*  3 queued\nmutex +mutex [^\n]*  3 queued\nrw +read lock [^\n]*  3 queued\n$`, "")
	execute(t, "watch", "--count", "1", "--url", s.URL()).want(t, 0, `3 locks, 3 holders, 9 waiting\n.*\nmutex +mutex [^\n]*  3 queued`, "")
	locks := lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out).Locks
	kinds := map[string]string{"fenced": "fenced mutex", "mutex": "mutex", "rw": "read/write mutex"}
	for i, name := range []string{"fenced", "mutex", "rw"} {
		one := lsDecode[lsLock](t, execute(t, "show", name, "--json", "--url", s.URL()).out)
		for _, l := range []lsLock{one, locks[i]} {
			if l.Name != name || l.Queued == nil || *l.Queued != 3 || len(l.Queue) != 3 || l.More != 0 {
				t.Fatalf("%s is %+v", name, l)
			}
			for n, w := range l.Queue {
				if w.Owner != queue[name][n] || w.Place != n+1 || w.Kind != kinds[name] || w.WaitedMs == nil || *w.WaitedMs < 0 {
					t.Errorf("%s: number %d is %+v, want %s", name, n+1, w, queue[name][n])
				}
			}
		}
		write := map[bool]string{true: ", to write"}[name == "rw"]
		pattern := `\n  queue `
		for n, owner := range queue[name] {
			pattern += fmt.Sprintf(` +%d\. %s%s, waiting for \d+\.\ds\n`, n+1, owner, write)
		}
		execute(t, "show", name, "--url", s.URL()).want(t, 0, pattern, "")
	}
}

// TestQueueOfPermits checks that ls, show and watch tell which clients wait for
// permits, in which place, and how many each of them wants.
func TestQueueOfPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := lsOpen(t, s)
	for _, name := range []string{"idle", "taken"} {
		if err := holder.LeasedSemaphore(name).Set(context.Background(), 2); err != nil {
			t.Fatal(err)
		}
	}
	permits := lsHold(t, holder.LeasedSemaphore("taken").Locker(2)).PermitIDs()
	wanted := map[string][]int{"idle": {3, 1000}, "taken": {1, 2}}
	queue := make(map[string][]string)
	for n := range 2 {
		c := lsOpen(t, s)
		for name, want := range wanted {
			lsWait(t, c.LeasedSemaphore(name).Locker(want[n]))
			eventually(t, "another client waits", func() bool { return s.Int(t, "ZCARD", queueKey(name)) == int64(n+1) })
			owner, _, _ := strings.Cut(s.Strings(t, "ZRANGE", queueKey(name), "-1", "-1")[0], ":permits")
			queue[name] = append(queue[name], owner)
		}
	}
	slices.Sort(permits)
	execute(t, "ls", "--url", s.URL()).want(t, 0, `^NAME [^\n]*\nidle +leased semaphore +none +2 queued *\ntaken +leased semaphore +`+permits[0]+` [^\n]*  2 queued\n +leased semaphore +`+permits[1]+` [^\n]*\n$`, "")
	execute(t, "watch", "--count", "1", "--url", s.URL()).want(t, 0, `2 locks, 2 holders, 4 waiting\n.*\nidle +leased semaphore +none +2 queued`, "")
	locks := lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out).Locks
	for i, name := range []string{"idle", "taken"} {
		one := lsDecode[lsLock](t, execute(t, "show", name, "--json", "--url", s.URL()).out)
		for _, l := range []lsLock{one, locks[i]} {
			if l.Name != name || l.Kind != "leased semaphore" || len(l.Holders) != 2*i || *l.Queued != 2 || len(l.Queue) != 2 || l.More != 0 {
				t.Fatalf("%s is %+v", name, l)
			}
			for n, w := range l.Queue {
				if w.Owner != queue[name][n] || w.Place != n+1 || w.Kind != "leased semaphore" || w.Permits != wanted[name][n] || w.WaitedMs == nil || *w.WaitedMs < 0 {
					t.Errorf("%s: number %d is %+v, want %s", name, n+1, w, queue[name][n])
				}
			}
		}
	}
	execute(t, "show", "idle", "--url", s.URL()).want(t, 0, `^idle\n  kind +leased semaphore\n  held by +none \(no permits are taken\)\n  queue +1\. `+queue["idle"][0]+
		`, wants 3 permits, waiting for \d+\.\ds\n +2\. `+queue["idle"][1]+`, wants 1,000 permits, waiting for `, "")
	execute(t, "show", "taken", "--url", s.URL()).want(t, 0, `\n  queue +1\. `+queue["taken"][0]+`, wants 1 permit, waiting for \d+\.\ds\n +2\. `+queue["taken"][1]+`, wants 2 permits, `, "")
	execute(t, "unlock", "idle", "--force", "--yes", "--url", s.URL()).want(t, 0, `^No permits of idle are taken: nothing to break\.\n$`, "")
}

// TestQueueOfFreeLock checks that a lock without a holder is shown if clients wait.
func TestQueueOfFreeLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ZADD", queueKey("orders"), "1", "a:1:write", "2", "b:1", "3", "c:1:fenced", "4", "x")
	execute(t, "ls", "--url", s.URL()).want(t, 0, `^NAME [^\n]*\norders +read/write mutex +free +4 queued *\n$`, "")
	execute(t, "show", "orders", "--url", s.URL()).want(t, 0,
		`^orders\n  kind +read/write mutex\n  held by +none \(the lock is free\)\n  queue +1\. a:1, to write\n +2\. b:1, kind mutex\n +3\. c:1, kind fenced mutex\n +4\. x, not a valid entry\n$`, "")
	execute(t, "watch", "--count", "1", "--url", s.URL()).want(t, 0, `1 lock, 0 holders, 4 waiting\nNAME [^\n]*\norders +read/write mutex +free +4 queued *\n`, "")
	execute(t, "unlock", "orders", "--force", "--yes", "--url", s.URL()).want(t, 0, `orders is free: nothing to break`, "")
	if n := s.Int(t, "ZCARD", queueKey("orders")); n != 4 {
		t.Errorf("%d entries are left in the queue", n)
	}
	list := lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out)
	if len(list.Locks) != 1 || len(list.Locks[0].Holders) != 0 || len(list.Locks[0].Queue) != 4 || list.Locks[0].Queue[0].WaitedMs != nil {
		t.Errorf("%+v", list)
	}
}

// TestQueueWithoutRights checks that show and ls work if the user may not read the queue.
func TestQueueWithoutRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "operator", "on", ">secret", "+@all", "&*", "~holdfast:scan:*", "~orders*", "~{orders*", "~redisson_*")
	url := "redis://operator:secret@" + s.Addr()
	s.Do(t, "HSET", "orders", "a:1", "1")
	s.Do(t, "PEXPIRE", "orders", "600000")
	s.Do(t, "ZADD", queueKey("orders"), "1", "b:1")
	execute(t, "show", "orders", "--url", url).want(t, 0, `held by +a:1\n.*\n  queue +unknown \(it could not be read\)\n`, "")
	execute(t, "ls", "orders*", "--url", url).want(t, 0, `\norders +mutex +a:1 `, "")
	if l := lsDecode[lsLock](t, execute(t, "show", "orders", "--json", "--url", url).out); l.Queued != nil || len(l.Queue) != 0 || len(l.Holders) != 1 {
		t.Errorf("%+v", l)
	}
}

// TestQueueHostile checks that entries of a queue cannot harm the terminal, and that
// many waiters do not hide who holds the lock.
func TestQueueHostile(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	url := s.URL() + "?timeout=20s"
	s.Do(t, "HSET", "orders", "a:1", "1")
	s.Do(t, "PEXPIRE", "orders", "600000")
	for i, owner := range hostile {
		s.Do(t, "ZADD", queueKey("orders"), fmt.Sprint(i), owner)
		s.Do(t, "ZADD", queueKey("permits"), fmt.Sprint(i+1), owner)
	}
	s.Do(t, "SET", "permits", "0")
	s.Do(t, "ZADD", queueKey("permits"), "0", "b:1:permits99", "1", "a:1:permits\x1b[2J", "1", "a:1:permits"+strings.Repeat("9", 1<<10))
	harmful := func(r rune) bool { return r < ' ' && r != '\n' || r == 0x9b || r == 0x202e }
	for _, args := range [][]string{{"ls"}, {"show", "orders"}, {"show", "permits"}, {"watch", "--count", "1"}} {
		r := execute(t, append(args, "--url", url)...)
		if r.status != 0 || strings.ContainsFunc(r.out+r.err, harmful) || !strings.Contains(r.out, "a:1") {
			t.Errorf("%s: status %d: %.1000q %q", args[0], r.status, r.out, r.err)
		}
	}
	l := lsDecode[lsLock](t, execute(t, "show", "orders", "--json", "--url", url).out)
	if *l.Queued != len(hostile) || len(l.Queue)+l.More != len(hostile) || len(l.Queue) < 10 {
		t.Errorf("%d of %d waiters are listed, %d are not", len(l.Queue), *l.Queued, l.More)
	}
	v := vt.New(60, 60)
	_, _ = v.Write([]byte(startTerminal(t, 60, 60, nil, "ls", "--url", url).wait(t).out))
	if v.Wrapped > 0 || len(v.Strange) > 0 {
		t.Errorf("%q\n%s", v.Strange, v.Text())
	}

	s.Do(t, "EVAL", "for i = 1, 1500 do redis.call('ZADD', KEYS[1], i, 'b:' .. i) end", "1", queueKey("crowd"))
	s.Do(t, "HSET", "crowd", "a:1", "1")
	s.Do(t, "PEXPIRE", "crowd", "600000")
	execute(t, "ls", "crowd", "--url", url).want(t, 0, `\ncrowd +mutex +a:1 .* 1500 queued\n$`, "")
	execute(t, "show", "crowd", "--url", url).want(t, 0, ` 1000\. b:1000\n +more +500 holders and waiters not listed\n$`, "")
	execute(t, "unlock", "crowd", "--force", "--owner", "a:1", "--url", url).want(t, 0, `The lock is broken`, "")
}

package script_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// What is stored is input of unknown origin. These tests run the scripts of
// mutexes and read/write locks against large and absurd data, and count the
// commands that a call runs at the server: time would depend on the machine.

// ran returns how many commands the server has run, those of scripts
// included.
func ran(t testing.TB, s *redistest.Server) (n int) {
	t.Helper()
	for line := range strings.Lines(fmt.Sprint(s.Do(t, "INFO", "commandstats"))) {
		if _, rest, ok := strings.Cut(line, ":calls="); ok {
			count, _, _ := strings.Cut(rest, ",")
			calls, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(line, err)
			}
			n += calls
		}
	}
	return n
}

// within calls do and checks how many commands that took at the server.
func (l *lab) within(most int, do op) string {
	l.Helper()
	before := ran(l, l.s)
	reply := l.call(l.d, do)
	if took := ran(l, l.s) - before; took > most {
		l.wrong("%d commands, want at most %d; the reply is %s", took, most, reply)
	}
	return reply
}

// many lets 10,000 readers read: each with a hold of a time in seconds, or dead
// if that is zero. The hash lasts for ttl seconds.
func (l *lab) many(seconds, ttl int) {
	l.Helper()
	l.s.Do(l, "EVAL", `
		redis.call('hset', KEYS[1], 'mode', 'read')
		for i = 1, ARGV[1] do
			redis.call('hset', KEYS[1], 'r:' .. i, 1)
			if ARGV[2] ~= '0' then redis.call('set', KEYS[2] .. ':r:' .. i .. ':rwlock_timeout:1', 1, 'ex', ARGV[2]) end
		end
		return redis.call('expire', KEYS[1], ARGV[3])`,
		"2", l.name, l.root, "10000", strconv.Itoa(seconds), strconv.Itoa(ttl))
}

// Releasing one of many readers does not look at all others, and does not cut
// their time.
func TestReleaseOneOfManyReaders(t *testing.T) {
	s := redistest.Start(t)
	l := newLab(t, s, connect(t, s.URL()), "N")
	l.many(60, 60)
	l.run("HSET N j:7 1", "SET j:7#1 1 EX 300", "EXPIRE N 300")
	if got := l.within(100, acquire(read, again("a:1", 1, 600))); got != "token" {
		t.Fatal(got)
	}
	if got := l.within(100, release(read, "a:1", 0)); got != "1" {
		t.Error("released:", got)
	}
	if ttl := s.Int(t, "PTTL", "N"); ttl < 290_000 {
		t.Errorf("the lock has %d ms, and one of its readers has 300 s", ttl)
	}
	if got := l.within(100, acquire(write, try("b:1"))); got == "token" {
		t.Error("a writer got in beside 10,000 readers")
	}
}

// A hash may outlive its readers. A writer that asks again and again drops
// those that died, some with each call, and gets in.
func TestWriterBehindManyDeadReaders(t *testing.T) {
	s := redistest.Start(t)
	l := newLab(t, s, connect(t, s.URL()), "N")
	l.many(0, 600)
	l.run("HSET N j:7 1", "SET j:7#1 1 EX 600")
	ask := func() (script.Verdict, bool) {
		t.Helper()
		var v script.Verdict
		before := ran(t, s)
		v, err := script.Acquire(t.Context(), l.d, script.NewWrite("N", false), wait("a:1"))
		if err != nil {
			t.Fatal(err)
		}
		if took := ran(t, s) - before; took > 2500 {
			t.Errorf("%d commands", took)
		}
		return v, v.Granted()
	}
	for range 20 {
		if v, granted := ask(); granted || v.TTL <= 0 {
			t.Fatalf("%+v, and j:7 reads", v)
		}
	}
	l.run("DEL j:7#1") // it dies
	for i := range 20 {
		v, granted := ask()
		if granted {
			l.has("N hash a:1:write=1 mode=write, TTL 60s")
			return
		}
		if v.TTL > time.Second {
			t.Fatalf("look %d: no reader is alive, and the next look is due in %v", i, v.TTL)
		}
	}
	t.Error("never granted")
}

// The work of a force release, of a leaving writer and of an inspection is also
// bounded.
func TestManyReaders(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	t.Run("force", func(t *testing.T) {
		l := newLab(t, s, d, "N")
		l.many(60, 60)
		if got := l.within(3000, forceRead); got != "1" || s.Int(t, "EXISTS", "N") != 0 {
			t.Error(got)
		}
		l.hears("0 on rw")
	})
	t.Run("downgrade", func(t *testing.T) {
		l := newLab(t, s, d, "N")
		l.many(60, 60)
		l.run("HSET N mode write a:1:write 1")
		if got := l.within(100, release(write, "a:1", 0)); got != "2" {
			t.Error(got)
		}
		if mode := s.Do(t, "HGET", "N", "mode"); mode != "read" || s.Int(t, "PTTL", "N") < 50_000 {
			t.Error(mode, s.Int(t, "PTTL", "N"))
		}
	})
	t.Run("force write", func(t *testing.T) {
		l := newLab(t, s, d, "N")
		l.many(60, 60)
		l.run("HSET N mode write a:1:write 1")
		if got := l.within(1000, forceWrite); got != "1" || s.Int(t, "HEXISTS", "N", "a:1:write") != 0 {
			t.Error(got)
		}
	})
	t.Run("inspect", func(t *testing.T) {
		l := newLab(t, s, d, "N")
		l.many(60, 60)
		l.run("HSET N a:1 1", "SET a:1#1 1 EX 60")
		before := ran(t, s)
		state, err := script.NewRead("N").Inspect(t.Context(), d, "a:1")
		if err != nil {
			t.Fatal(err)
		}
		if took := ran(t, s) - before; took > 2500 {
			t.Errorf("%d commands", took)
		}
		if n := len(state.Readers); n < 500 || n > 1500 || state.Readers[0].Owner != "a:1" {
			t.Errorf("%d readers, and the first is %+v", n, state.Readers[0])
		}
	})
	t.Run("foreign data", func(t *testing.T) {
		l := newLab(t, s, d, "N")
		s.Do(t, "EVAL", `for i = 1, 10000 do redis.call('hset', KEYS[1], 'field' .. i, 'x') end
			return redis.call('hset', KEYS[1], 'mode', 'read')`, "1", "N")
		for _, do := range []op{acquire(read, try("a:1")), forceRead, forceMutex(""), forceFair(""), inspectRW} {
			if got := l.within(1000, do); got != "WRONGTYPE" {
				t.Error(got)
			}
		}
		for _, do := range []op{acquire(write, try("a:1")), acquire(mutex, try("a:1")), acquire(fair, try("a:1")), inspectMutex, inspectFair} {
			if got := l.within(1000, do); got == "token" || got == "1" {
				t.Error(got)
			}
		}
		if n := s.Int(t, "HLEN", "N"); n != 10_001 || s.Int(t, "PTTL", "N") != -1 {
			t.Errorf("%d fields, %d ms", n, s.Int(t, "PTTL", "N"))
		}
	})
}

// The count of a reader is a stored number. No call looks at so many keys.
func TestReadersCountIsNotTrusted(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, count := range []string{"1000000", "9000000000000000000", "-1", "0", "1.5", "1e9", "inf", "-inf", "nan", "x", "", "0x10"} {
		t.Run(count, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			set := func(owner string) { s.Do(t, "HSET", "N", owner, count) }
			l.run(reads("a:1", 60)...)
			set("evil:1")
			if got := l.within(100, acquire(write, try("b:1"))); got != "held 60s" {
				t.Error("a writer:", got)
			}
			if got := l.within(100, release(read, "a:1", 0)); got != "1" {
				t.Error("released:", got)
			}
			if got := l.within(100, acquire(write, try("b:1"))); got != "held 60s" {
				t.Error("a writer after the release:", got)
			}
			l.within(100, acquire(read, try("c:1")))
			l.within(100, inspectRW)
			set("a:1")
			for _, do := range []op{acquire(read, again("a:1", 2, 60)), release(read, "a:1", 0), release(read, "a:1", 1)} {
				if got := l.within(100, do); got != "WRONGTYPE" {
					t.Error("with that count of its own:", got)
				}
			}
			l.within(1500, renewReads("a:1", "evil:1"))
			l.within(1500, forceRead)
		})
	}
	t.Run("of a whole batch", func(t *testing.T) {
		l := newLab(t, s, d, "N")
		var owners []string
		for i := range 128 {
			o := fmt.Sprintf("a:%d", i)
			owners = append(owners, o)
			l.run("HSET N mode read "+o+" 9000000000000000000", "EXPIRE N 60", "SET "+o+"#1 1 EX 60")
		}
		want := "[" + strings.TrimSpace(strings.Repeat("1 ", 128)) + "]"
		if got := l.within(5000, renewReads(owners...)); got != want {
			t.Errorf("renewed: %s", got)
		}
	})
}

// A queue full of dead waiters is swept in steps. Meanwhile, no other request
// overtakes a live waiter.
func TestFairManyDead(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	const dead = 20_000
	s.Do(t, "EVAL", `for i = 1, ARGV[1] do
			redis.call('rpush', KEYS[1], 'j:' .. i)
			redis.call('zadd', KEYS[2], 1, 'j:' .. i)
		end`, "2", l.long("queue"), l.long("limits"), strconv.Itoa(dead))
	l.within(2500, acquire(fair, wait("a:1")))
	for tries := 1; ; tries++ {
		if got := l.within(2500, acquire(fair, try("b:1"))); got == "token" {
			t.Fatal("b:1 was let in before a:1, which waits")
		}
		v, err := script.Acquire(t.Context(), d, script.NewFair("N"), wait("a:1"))
		if err != nil {
			t.Fatal(err)
		}
		if v.Granted() {
			break
		}
		if v.TTL > time.Second {
			t.Fatalf("all others are dead, and the next look of a:1 is due in %v", v.TTL)
		}
		if tries > dead/500 {
			t.Fatal("never granted; still in the queue: ", s.Int(t, "LLEN", l.long("queue")))
		}
	}
	l.has("N hash a:1=1, TTL 60s")
}

// The sets of a fair lock may hold any numbers. No number spreads to other
// entries, keeps a queue for ever, or lets a request overtake a live waiter.
func TestFairAbsurdTimes(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	score := func(l *lab, key, owner string) float64 {
		t.Helper()
		f, err := strconv.ParseFloat(fmt.Sprint(s.Do(t, "ZSCORE", l.long(key), owner)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, absurd := range []string{"inf", "-inf", "1e300", "-1e300", "-9e18"} {
		t.Run("limit/"+absurd, func(t *testing.T) {
			inAMoment(t, s, d, "N", func(l *lab) {
				l.run(slices.Concat(taken, queue("c:1 70 1.9", "j:7 70 -"), []string{"ZADD limits " + absurd + " j:7"})...)
				l.call(d, acquire(fair, wait("a:1")))
				if left := score(l, "limits", "a:1") - float64(now(t, s)); left < 5_000 || left > 700_000 {
					l.wrong("a:1 came behind it and is waited for %g ms", left)
				}
				l.run("ZADD limits " + absurd + " a:1") // and its own
				l.run(fmt.Sprintf("ZADD signs %d a:1", now(t, s)+1500))
				l.call(d, acquire(fair, wait("a:1")))
				if left := score(l, "limits", "a:1") - float64(now(t, s)); left < 5_000 || left > 700_000 {
					l.wrong("a:1 is waited for %g ms", left)
				}
				if n := s.Int(t, "LLEN", l.long("queue")); n != 3 {
					l.wrong("%d in the queue", n)
				}
				l.run("LPOP queue", "ZREM limits c:1", "ZREM signs c:1", "DEL N") // c:1 leaves, and the lock is free
				if got := l.call(d, acquire(fair, try("b:1"))); got == "token" {
					l.wrong("b:1 was let in before a:1, which waits")
				}
				if got := l.call(d, acquire(fair, wait("a:1"))); got != "token" {
					l.wrong("j:7 has no readable limit, but a:1 gets %s", got)
				}
			})
		})
		t.Run("sign/"+absurd, func(t *testing.T) {
			inAMoment(t, s, d, "N", func(l *lab) {
				l.run(slices.Concat(queue("c:1 -1 1.9", "a:1 70 1.9"), []string{"ZADD signs " + absurd + " c:1"})...)
				s.Do(t, "ZADD", l.long("signs"), absurd, "")
				if got := l.call(d, acquire(fair, wait("a:1"))); got != "token" {
					l.wrong("c:1 is dead, but a:1 gets %s", got)
				}
			})
		})
		t.Run("own sign/"+absurd, func(t *testing.T) {
			inAMoment(t, s, d, "N", func(l *lab) {
				l.run(slices.Concat(taken, queue("a:1 70 1.9"), []string{"ZADD signs " + absurd + " a:1"})...)
				l.call(d, acquire(fair, wait("a:1")))
				if left := score(l, "signs", "a:1") - float64(now(t, s)); left < 1000 || left > 3000 {
					l.wrong("the sign of a:1 counts for %g ms", left)
				}
			})
		})
	}
}

// Whatever the keys hold, a reply that says "held" is not a grant, and says a
// time that can be waited for.
func TestHeldForEver(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, c := range []struct {
		title string
		given []string
		k     kind
	}{
		{"mutex", []string{"HSET N b:1 1", "PEXPIRE N 9000000000000000000"}, mutex("N")},
		{"fenced", []string{"HSET N b:1 1", "PEXPIRE N 9000000000000000000"}, fenced("N")},
		{"fair", []string{"HSET N b:1 1", "PEXPIRE N 9000000000000000000"}, fair("N")},
		{"fair queue", []string{"RPUSH queue j:7", "ZADD limits 9000000000000000000 j:7"}, fair("N")},
		{"read", []string{"HSET N mode write b:1:write 1", "PEXPIRE N 9000000000000000000"}, read("N")},
		{"write", []string{"HSET N mode write b:1:write 1", "PEXPIRE N 9000000000000000000"}, write("N")},
	} {
		t.Run(c.title, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.run(c.given...)
			v, err := script.Acquire(t.Context(), d, c.k, wait("a:1"))
			if err != nil || v.Granted() || v.TTL < time.Hour || v.TTL > math.MaxInt64/2 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// An error about stored data names the key.
func TestErrorNamesTheKey(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, c := range []struct {
		title string
		given []string
		do    op
		key   string
	}{
		{"read/data", []string{"HSET N mode read title x"}, acquire(read, try("a:1")), "N"},
		{"read/count", []string{"HSET N mode read a:1 x"}, release(read, "a:1", 0), "N"},
		{"mutex/force", []string{"HSET N title x"}, forceMutex(""), "N"},
		{"fair/force", []string{"HSET N title x"}, forceFair(""), "N"},
		{"rw/force", []string{"HSET N mode read title x"}, forceRead, "N"},
		{"rw/inspect", []string{"HSET N mode read title x"}, inspectRW, "N"},
		{"fenced/counter", []string{"SET token x"}, acquire(fenced, try("a:1")), "token"},
		{"fenced/counter of another type", []string{"RPUSH token x"}, acquire(fenced, try("a:1")), "token"},
		{"fair/queue of another type", []string{"SET queue x"}, acquire(fair, wait("a:1")), "queue"},
		{"fair/limits of another type", append([]string{"SET limits x"}, taken...), acquire(fair, wait("a:1")), "limits"},
		{"write/writers of another type", []string{"SET writers x"}, acquire(write, try("a:1")), "writers"},
		{"read/another type", []string{"SET N x"}, acquire(read, try("a:1")), "N"},
		{"release/another type", []string{"SET N x"}, release(mutex, "a:1", 0), "N"},
		{"force/another type", []string{"SET N x"}, forceMutex(""), "N"},
	} {
		t.Run(c.title, func(t *testing.T) {
			l := newLab(t, s, d, "some-lock")
			l.run(c.given...)
			err := c.do(t.Context(), d, "some-lock")
			if err == nil || driver.ClassOf(err) != driver.Fatal || !strings.Contains(err.Error(), l.long(c.key)) {
				t.Errorf("%v does not name %s", err, l.long(c.key))
			}
		})
	}
}

package script_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// shortcuts are the conditions under which the scripts of a read/write lock do not need their functions.
var shortcuts = []string{
	"if not ARGV[4] and redis.call('exists', KEYS[1], priority) == 0 then",                                                      // a free lock is read
	"if ARGV[3] == '1' and redis.call('exists', KEYS[1], KEYS[2]) == 0 then",                                                    // and written
	"if found[1] == '1' and found[2] == 'read' and ARGV[2] == '0' then",                                                         // a reader leaves
	"local freed = found[1] and found[2] == 'write' and ARGV[2] == '0' and redis.call('hlen', KEYS[1]) == 2\nif freed then red", // and a writer
}

// A detour is a driver whose scripts take no shortcut.
type detour struct {
	driver.Driver
	taken map[string]bool // the shortcuts that were left out
}

func (d *detour) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	source := c.Script.Source
	for _, s := range shortcuts {
		if strings.Contains(source, s) {
			d.taken[s] = true
			source = strings.ReplaceAll(source, s, strings.NewReplacer("if not ARGV[4]", "if false and not ARGV[4]", "if ARGV[3] ==", "if false and ARGV[3] ==", "if found[1]", "if false and found[1]", "freed = found", "freed = false and found").Replace(s))
		}
	}
	if source != c.Script.Source {
		publish := c.Script.Publish
		c.Script = driver.NewScript(c.Script.Name, source)
		c.Script.Publish = publish
	}
	return d.Driver.Do(ctx, c)
}

// With and without their shortcuts, the scripts do the same.
func TestReadWriteWithoutShortcuts(t *testing.T) {
	taken := make(map[string]bool)
	checkBy(t, func(d driver.Driver) driver.Driver { return &detour{d, taken} }, slices.Concat(rwRows, queuedRows), "N")
	for _, s := range shortcuts {
		if !taken[s] {
			t.Errorf("no script has: %s", s)
		}
	}
}

// What one of many readers costs does not depend on how many there are.
func TestReadersBesideOthers(t *testing.T) {
	s := redistest.Start(t)
	if fmt.Sprint(s.Do(t, "COMMAND", "INFO", "hrandfield")) == "[<nil>]" {
		t.Skip("the server does not support HRANDFIELD")
	}
	l := newLab(t, s, connect(t, s.URL()), "N")
	for i := range 64 {
		l.call(l.d, acquire(read, try(fmt.Sprint("r:", i))))
	}
	for _, k := range []func(string) kind{read, queuedRead} {
		if got := l.within(13, acquire(k, try("a:1"))); got != "token" {
			t.Fatal(got)
		}
		if got := l.within(15, release(k, "a:1", 0)); got != "1" {
			t.Fatal(got)
		}
	}
	if n := s.Int(t, "HLEN", "N"); n != 65 {
		t.Errorf("%d fields", n)
	}
}

// A readersModel is what readers of a lock should have, by their names.
type readersModel struct {
	*lab
	ends map[string]int64 // how many ms a reader has left, from zero
	zero int64            // by the clock of the server
}

// left returns how many ms the last reader that is alive has left, 0 if none is.
func (m *readersModel) left() int64 {
	most, at := int64(0), now(m, m.s)-m.zero
	for _, end := range m.ends {
		most = max(most, end-at)
	}
	return most
}

// pass lets time pass: all keys have less left.
func (m *readersModel) pass(ms int64) {
	for _, key := range m.s.Keys(m) {
		if ttl := m.s.Int(m, "PTTL", key); ttl > 0 {
			m.s.Do(m, "PEXPIRE", key, strconv.FormatInt(ttl-ms, 10))
		}
	}
	m.zero -= ms
	at := now(m, m.s) - m.zero
	for owner, end := range m.ends {
		if end-at < 50 { // about now: it must be certain
			m.s.Do(m, "DEL", m.long(owner+"#1"))
			m.ends[owner] = at
		}
	}
}

// However readers come, leave and die, the lock does not end before its last reader, and outlasts it by a tenth of its time at the
// most. When the last one that is alive leaves, the lock is free, although others have died.
func TestReadersComeAndGo(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	leases := []int64{1000, 5000, 29_300, 30_000, 30_000, 30_000, 30_700, 60_000}
	for round := range 40 {
		m := &readersModel{newLab(t, s, d, "N"), make(map[string]int64), now(t, s)}
		var slow, passes int64 // ms that a call took at most, and that all passes took
		k := []func(string) kind{read, queuedRead}[round%2]
		var log []string
		for i := range 60 {
			var owners []string
			for owner := range m.ends {
				owners = append(owners, owner)
			}
			slices.Sort(owners)
			switch n := random.IntN(10); {
			case n == 0:
				ms := random.Int64N(8000)
				log = append(log, fmt.Sprint(ms, " ms pass"))
				begin := now(t, s)
				m.pass(ms)
				passes += now(t, s) - begin
			case n < 5 && len(owners) < 12 || len(owners) == 0:
				owner, lease := fmt.Sprint("r:", i), leases[random.IntN(len(leases))]
				log = append(log, fmt.Sprint(owner, " reads for ", lease))
				c := try(owner)
				c.Lease = time.Duration(lease) * time.Millisecond
				begin := now(t, s)
				if got := m.call(d, acquire(k, c)); got != "token" {
					t.Fatal(log, got)
				}
				end := now(t, s)
				slow = max(slow, end-begin)
				m.ends[owner] = end - m.zero + lease
			default:
				owner := owners[random.IntN(len(owners))]
				log = append(log, owner+" leaves")
				delete(m.ends, owner)
				m.call(d, release(k, owner, 0))
				begin := now(t, s)
				left, ttl := m.left(), s.Int(t, "PTTL", "N")
				slack := 10 + slow + passes + now(t, s) - begin
				if left == 0 && ttl != -2 || left > 0 && (ttl < left-slack || ttl > left+min(1000, ttl/10)+slack) {
					t.Fatalf("%s: the last reader has %d ms left, and the lock %d", strings.Join(log, ", "), left, ttl)
				}
			}
		}
		m.ears.close()
	}
}

// When a reader leaves that lasts longest, the lock keeps its TTL if the next one lasts almost as long.
func TestReadersOutlasted(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, c := range []struct{ mine, theirs, most int64 }{
		{30_000, 29_200, 30_000}, {30_000, 28_500, 28_500}, {4000, 3700, 4000}, {4000, 3300, 3300},
	} {
		inAMoment(t, s, d, "N", func(l *lab) {
			l.run(slices.Concat(reads("b:1", 60), reads("a:1", 60))...)
			for key, ms := range map[string]int64{"N": c.mine, "a:1#1": c.mine, "b:1#1": c.theirs} {
				s.Do(t, "PEXPIRE", l.long(key), strconv.FormatInt(ms, 10))
			}
			l.call(d, release(read, "a:1", 0))
			if ttl := s.Int(t, "PTTL", "N"); ttl > c.most || ttl < c.theirs-moment {
				l.wrong("%+v: the lock has %d ms", c, ttl)
			}
		})
	}
}

// A release that sees that Redisson has shortened the TTL of the lock looks at all readers.
func TestReadersShortened(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for range 20 {
		l := newLab(t, s, d, "N")
		l.run(slices.Concat(reads("b:1", 600), reads("a:1", 600), reads("j:7", 30), reads("j:8", 30), reads("j:9", 30))...)
		if got := l.call(d, release(read, "a:1", 0)); got != "1" {
			t.Fatal(got)
		}
		l.has("N hash b:1=1 j:7=1 j:8=1 j:9=1 mode=read, TTL 600s", "b:1#1 string 1, TTL 600s",
			"j:7#1 string 1, TTL 30s", "j:8#1 string 1, TTL 30s", "j:9#1 string 1, TTL 30s")
		l.ears.close()
	}
}

// TestPauseOfReaders admits no further readers for a part of the time while a writer waits: one in the queue,
// or one of Redisson. Without a writer, or if it does not wait, a reader is always admitted.
func TestPauseOfReaders(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	for _, r := range []struct {
		title  string
		given  []string
		listen string // a channel with a client that waits
		claim  script.Claim
		free   bool // no reader holds the lock
		pauses bool
	}{
		{title: "no writer", claim: wait("b:1")},
		{title: "a writer in the queue", given: []string{"ZADD line 1 c:1:write"}, claim: wait("b:1"), pauses: true},
		{title: "a writer of Redisson", listen: "redisson_rwlock:{N}", claim: wait("b:1"), pauses: true},
		{title: "a reader that does not wait", given: []string{"ZADD line 1 c:1:write"}, claim: try("b:1")},
		{title: "a free lock", given: []string{"ZADD line 1 c:1:write"}, claim: wait("b:1"), free: true},
	} {
		t.Run(r.title, func(t *testing.T) {
			l := newLab(t, s, d, "N")
			l.ears.close()
			if r.listen != "" {
				ears := listen(t, s, d, r.listen)
				defer ears.close()
			}
			l.run(r.given...)
			refused := 0
			for i := range 60 {
				if !r.free {
					l.run("HSET N mode read a:1 1", "PEXPIRE N 60000", "SET a:1#1 1 PX 60000")
				}
				v, err := script.Acquire(t.Context(), d, script.NewRead("N"), r.claim)
				if err != nil {
					t.Fatal(err)
				}
				if !v.Granted() {
					refused++
					if v.TTL <= 0 || v.TTL > 25*time.Millisecond {
						t.Errorf("refused for %v", v.TTL)
					}
				}
				s.Do(t, "DEL", "N", "{N}:b:1:rwlock_timeout:1")
				locktest.Work(time.Duration(3+i%5) * time.Millisecond)
			}
			if (refused > 0) != r.pauses || refused > 40 {
				t.Errorf("%d of 60 readers were refused", refused)
			}
		})
	}
}

package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

var names atomic.Int64

// A bench is a mutex on a server, and a look at what the server has of it.
type bench struct {
	t *testing.T
	s *redistest.Server
	d driver.Driver
	m *script.Mutex
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := redistest.Shared(t)
	name := fmt.Sprintf("%s:%d", strings.ReplaceAll(t.Name(), "/", ":"), names.Add(1))
	return &bench{t, s, connect(t, s.URL()), script.NewMutex(name)}
}

func (b *bench) acquire(owner string, count int, lease time.Duration) script.Verdict {
	b.t.Helper()
	v, err := script.Acquire(b.t.Context(), b.d, b.m, script.Claim{Owner: owner, Count: count, Lease: lease})
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) release(owner string, left int) script.Freed {
	b.t.Helper()
	f, err := b.m.Release(b.t.Context(), b.d, owner, left)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b *bench) ttl() time.Duration {
	return time.Duration(b.s.Int(b.t, "PTTL", b.m.Gate())) * time.Millisecond
}

// has checks the hash at the server, and that its TTL is at most that, and
// not much less.
func (b *bench) has(owner, count string, ttl time.Duration) {
	b.t.Helper()
	if got := fmt.Sprint(b.s.Strings(b.t, "HGETALL", b.m.Gate())); got != fmt.Sprintf("[%s %s]", owner, count) {
		b.t.Errorf("the server has %s, want %s held %s times", got, owner, count)
	}
	if got := b.ttl(); got > ttl || got < ttl-10*time.Second {
		b.t.Errorf("TTL is %v, want %v", got, ttl)
	}
}

func (b *bench) free() {
	b.t.Helper()
	if b.s.Int(b.t, "EXISTS", b.m.Gate()) != 0 {
		b.t.Errorf("still locked: %v", b.s.Strings(b.t, "HGETALL", b.m.Gate()))
	}
}

func forceMutex(owner string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewMutex(name).Force(ctx, d, owner)
		return err
	}
}

func inspectMutex(ctx context.Context, d driver.Driver, name string) error {
	_, err := script.NewMutex(name).Inspect(ctx, d)
	return err
}

// keepMutex keeps a lock of a:1 for 60 s after its release.
func keepMutex() op {
	return calling(func(name string) driver.Call {
		m := script.NewMutex(name)
		return script.Keep(m.Ref("a:1"), time.Minute, m.Channels("a:1")[0])
	})
}

// renewEach is the call that renews all holdings for the same time.
func renewEach(lease time.Duration, hs []script.LockRef) driver.Call {
	return script.Renew(slices.Repeat([]time.Duration{lease}, len(hs)), hs)
}

// renewAll renews the leases of owners of one mutex for 60 s.
func renewAll(owners ...string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		var hs []script.LockRef
		for _, o := range owners {
			hs = append(hs, script.NewMutex(name).Ref(o))
		}
		_, err := d.Do(ctx, renewEach(time.Minute, hs))
		return err
	}
}

// What the tests below say about mutexes, as far as it matters when a call is
// sent twice, and what read/write locks look like to them.
var mutexRows = []row{
	{
		title: "mutex/free",
		do:    acquire(mutex, try("a:1")), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "mutex/again",
		given: []string{"HSET N a:1 1", "EXPIRE N 600"},
		do:    acquire(mutex, again("a:1", 2, 60)), reply: "token",
		state: []string{"N hash a:1=2, TTL 600s"},
	},
	{title: "mutex/again, gone", do: acquire(mutex, again("a:1", 2, 60)), reply: "held past"},
	{
		title: "mutex/held by a writer",
		given: writes("b:1", 1, 60),
		do:    acquire(mutex, try("a:1")), reply: "held 60s",
		state: []string{"N hash b:1:write=1 mode=write, TTL 60s"},
	},
	{
		title: "leave mutex/last",
		given: []string{"HSET N a:1 2", "EXPIRE N 60"},
		do:    release(mutex, "a:1", 0), reply: "2", again: "0",
		heard: "0 on channel",
	},
	{
		title: "leave mutex/one of two",
		given: []string{"HSET N a:1 2", "EXPIRE N 60"},
		do:    release(mutex, "a:1", 1), reply: "1",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "leave mutex/the next owner's", // a release that comes late
		given: taken,
		do:    release(mutex, "a:1", 0), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "leave mutex/held by a reader",
		given: reads("j:7", 60),
		do:    release(mutex, "a:1", 0), reply: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "force mutex/foreign data",
		given: []string{"HSET N name Ann mail a@b"},
		do:    forceMutex(""), reply: "WRONGTYPE",
		state: []string{"N hash mail=a@b name=Ann"},
	},
	{
		title: "force mutex/foreign data with a mode",
		given: []string{"HSET N mode read name Ann", "EXPIRE N 60"},
		do:    forceMutex(""), reply: "WRONGTYPE",
		state: []string{"N hash mode=read name=Ann, TTL 60s"},
	},
	{
		title: "force mutex/readers",
		given: reads("j:7", 60),
		do:    forceMutex(""), reply: "1", again: "0",
		state: []string{"j:7#1 string 1, TTL 60s"},
		heard: "0 on channel",
	},
	{
		title: "force mutex/that owner",
		given: taken,
		do:    forceMutex("b:1"), reply: "1", again: "0",
		heard: "0 on channel",
	},
	{
		title: "force mutex/another owner",
		given: taken,
		do:    forceMutex("a:1"), reply: "0",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "inspect mutex/held",
		given: taken,
		do:    inspectMutex, reply: `[60s "b:1" "1"]`,
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "inspect mutex/held by a reader",
		given: reads("j:7", 60),
		do:    inspectMutex, reply: "WRONGTYPE",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "renew/one's own, and another's",
		given: []string{"HSET N a:1 1", "EXPIRE N 20"},
		do:    renewAll("a:1", "b:1"), reply: "[1 0]",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "renew/never shorter",
		given: []string{"HSET N a:1 1", "EXPIRE N 600"},
		do:    renewAll("a:1"), reply: "[1]",
		state: []string{"N hash a:1=1, TTL 600s"},
	},
	{
		title: "keep/shorter",
		given: []string{"HSET N a:1 2", "EXPIRE N 600"},
		do:    keepMutex(), reply: "1", heard: "0 on channel",
		state: []string{"N hash a:01=2, TTL 60s"},
	},
	{
		title: "keep/longer",
		given: []string{"HSET N a:1 1", "EXPIRE N 20"},
		do:    keepMutex(), reply: "1",
		state: []string{"N hash a:01=1, TTL 60s"},
	},
	{
		title: "keep/another's",
		given: []string{"HSET N b:1 1", "EXPIRE N 20"},
		do:    keepMutex(), reply: "0",
		state: []string{"N hash b:1=1, TTL 20s"},
	},
	{title: "keep/free", do: keepMutex(), reply: "0"},
	{
		title: "keep/a writer",
		given: []string{"HSET N mode write a:1 1", "EXPIRE N 600"},
		do:    keepMutex(), reply: "1", heard: "0 on channel",
		state: []string{"N hash a:01=1 mode=write, TTL 60s"},
	},
	{
		title: "keep/a writer with a read hold", // which may last longer
		given: []string{"HSET N mode write a:1 1 c:1 1", "EXPIRE N 600"},
		do:    keepMutex(), reply: "1",
		state: []string{"N hash a:01=1 c:1=1 mode=write, TTL 600s"},
	},
	{
		title: "keep/another type",
		given: []string{"SET N x"},
		do:    keepMutex(), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "renew/another type",
		given: []string{"SET N x"},
		do:    renewAll("a:1"), reply: "[0]",
		state: []string{"N string x"},
	},
}

func TestMutex(t *testing.T) { check(t, mutexRows) }

func TestMutexAcquire(t *testing.T) {
	t.Run("free", func(t *testing.T) {
		b := newBench(t)
		if v := b.acquire("a:1", 1, time.Minute); !v.Granted() {
			t.Errorf("verdict %+v", v)
		}
		b.has("a:1", "1", time.Minute)
	})
	t.Run("held", func(t *testing.T) {
		b := newBench(t)
		b.acquire("a:1", 1, time.Minute)
		v := b.acquire("b:1", 1, time.Hour)
		if v.Granted() || v.TTL > time.Minute || v.TTL < 50*time.Second {
			t.Errorf("verdict %+v", v)
		}
		b.has("a:1", "1", time.Minute)
	})
	t.Run("held without end", func(t *testing.T) {
		b := newBench(t)
		b.acquire("a:1", 1, time.Minute)
		b.s.Do(t, "PERSIST", b.m.Gate())
		if v := b.acquire("b:1", 1, time.Hour); v.Granted() || v.TTL >= 0 {
			t.Errorf("verdict %+v", v)
		}
	})
	t.Run("again, longer", func(t *testing.T) {
		b := newBench(t)
		b.acquire("a:1", 1, time.Minute)
		if v := b.acquire("a:1", 2, time.Hour); !v.Granted() {
			t.Errorf("verdict %+v", v)
		}
		b.has("a:1", "2", time.Hour)
	})
	t.Run("again, shorter", func(t *testing.T) {
		// Redisson would cut the lease to a second here.
		b := newBench(t)
		b.acquire("a:1", 1, 10*time.Minute)
		b.acquire("a:1", 2, time.Second)
		b.has("a:1", "2", 10*time.Minute)
	})
	t.Run("again, gone", func(t *testing.T) {
		b := newBench(t)
		if v := b.acquire("a:1", 2, time.Minute); v.Granted() {
			t.Errorf("re-entered a lock that is not held: %+v", v)
		}
		b.free()
	})
	t.Run("again, taken by another", func(t *testing.T) {
		b := newBench(t)
		b.acquire("b:1", 1, time.Minute)
		if v := b.acquire("a:1", 2, time.Minute); v.Granted() {
			t.Errorf("re-entered another's lock: %+v", v)
		}
	})
	t.Run("owners that are prefixes", func(t *testing.T) {
		b := newBench(t)
		b.acquire("worker-10", 1, time.Minute)
		if v := b.acquire("worker-1", 1, time.Minute); v.Granted() {
			t.Error("worker-1 got what worker-10 holds")
		}
		if b.release("worker-1", 0).Held {
			t.Error("worker-1 released what worker-10 holds")
		}
	})
	t.Run("another type", func(t *testing.T) {
		b := newBench(t)
		b.s.Do(t, "SET", b.m.Gate(), "x")
		_, err := script.Acquire(t.Context(), b.d, b.m, script.Claim{Owner: "a:1", Count: 1, Lease: time.Minute})
		if driver.CodeOf(err) != "WRONGTYPE" {
			t.Errorf("error %v", err)
		}
	})
	t.Run("tokens grow", func(t *testing.T) {
		b := newBench(t)
		var last int64
		for range 100 {
			v := b.acquire("a:1", 1, time.Minute)
			if v.Token <= last {
				t.Fatalf("token %d after %d", v.Token, last)
			}
			last = v.Token
			b.release("a:1", 0)
		}
		if last >= 1<<53 {
			t.Errorf("token %d is not exact as a double", last)
		}
	})
}

func TestMutexRelease(t *testing.T) {
	t.Run("last", func(t *testing.T) {
		b := newBench(t)
		b.acquire("a:1", 1, time.Minute)
		if f := b.release("a:1", 0); !f.Held || f.Heard != 0 {
			t.Errorf("freed %+v", f)
		}
		b.free()
	})
	t.Run("one of two", func(t *testing.T) {
		b := newBench(t)
		b.acquire("a:1", 2-1, time.Minute)
		b.acquire("a:1", 2, time.Minute)
		if f := b.release("a:1", 1); !f.Held || f.Heard != 0 {
			t.Errorf("freed %+v", f)
		}
		b.has("a:1", "1", time.Minute)
	})
	t.Run("one of two, without end", func(t *testing.T) {
		b := newBench(t)
		b.acquire("a:1", 1, time.Minute)
		b.acquire("a:1", 2, time.Minute)
		b.s.Do(t, "PERSIST", b.m.Gate())
		b.release("a:1", 1)
		if ttl := b.s.Int(t, "PTTL", b.m.Gate()); ttl != -1 {
			t.Errorf("TTL %d", ttl)
		}
	})
	t.Run("another's", func(t *testing.T) {
		b := newBench(t)
		b.acquire("b:1", 1, time.Minute)
		if f := b.release("a:1", 0); f.Held {
			t.Errorf("freed %+v", f)
		}
		b.has("b:1", "1", time.Minute)
	})
	t.Run("not held", func(t *testing.T) {
		b := newBench(t)
		if f := b.release("a:1", 0); f.Held {
			t.Errorf("freed %+v", f)
		}
	})
	t.Run("heard", func(t *testing.T) {
		b := newBench(t)
		listen(t, b.s, b.d, b.m.Channels("")[0])
		b.acquire("a:1", 1, time.Minute)
		if f := b.release("a:1", 0); f.Heard != 1 {
			t.Errorf("freed %+v", f)
		}
	})
	t.Run("memory full", func(t *testing.T) {
		s := redistest.Start(t)
		b := &bench{t, s, connect(t, s.URL()), script.NewMutex("full")}
		b.acquire("a:1", 1, time.Minute)
		b.acquire("a:1", 2, time.Minute)
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		_, err := script.Acquire(t.Context(), b.d, b.m, script.Claim{Owner: "a:1", Count: 3, Lease: time.Minute})
		if driver.CodeOf(err) != "OOM" {
			t.Errorf("acquire: %v", err)
		}
		b.release("a:1", 1)
		b.has("a:1", "1", time.Minute)
		b.release("a:1", 0)
		b.free()
	})
}

func TestRenew(t *testing.T) {
	b := newBench(t)
	n := b.m.Gate()
	s := b.s
	put := func(key, owner, ms string) {
		s.Do(t, "HSET", key, owner, "1")
		if ms != "" {
			s.Do(t, "PEXPIRE", key, ms)
		}
	}
	put(n+":mine", "a:1", "5000")
	put(n+":theirs", "b:1", "5000")
	put(n+":longer", "a:1", "600000")
	put(n+":endless", "a:1", "")
	var hs []script.LockRef
	for _, key := range []string{"mine", "theirs", "gone", "longer", "endless"} {
		hs = append(hs, script.LockRef{Key: n + ":" + key, Owner: "a:1"})
	}
	r, err := b.d.Do(t.Context(), renewEach(30*time.Second, hs))
	if err != nil {
		t.Fatal(err)
	}
	held, err := script.Renewed(r, len(hs))
	if err != nil || fmt.Sprint(held) != "[true false false true true]" {
		t.Errorf("renewed %v, %v", held, err)
	}
	for key, want := range map[string]int64{"mine": 30000, "theirs": 5000, "longer": 600000, "endless": 30000} {
		if got := s.Int(t, "PTTL", n+":"+key); got > want || got < want-4000 {
			t.Errorf("%s: TTL %d, want %d", key, got, want)
		}
	}
}

// A key with an absurd end is renewed like any other, and costs no other.
func TestRenewAbsurdEnd(t *testing.T) {
	b := newBench(t)
	n := b.m.Gate()
	reader := script.NewRead(n + ":doc").Ref("a:1")
	b.s.Do(t, "HSET", reader.Key, "mode", "read", "a:1", "1")
	b.s.Do(t, "SET", reader.Own(1), "1")
	mutex := func(key string) script.LockRef { return script.NewMutex(n + ":" + key).Ref("a:1") }
	for _, h := range []script.LockRef{mutex("victim"), mutex("other")} {
		b.s.Do(t, "HSET", h.Key, "a:1", "1")
		b.s.Do(t, "PEXPIRE", h.Key, "5000")
	}
	for _, key := range []string{mutex("victim").Key, reader.Key, reader.Own(1)} {
		b.s.Do(t, "PEXPIRE", key, "9000000000000000000")
	}
	for _, hs := range [][]script.LockRef{{mutex("victim"), mutex("other")}, {reader}} {
		for range 2 {
			r, err := b.d.Do(t.Context(), renewEach(30*time.Second, hs))
			if err != nil {
				t.Fatal(err)
			}
			if held, err := script.Renewed(r, len(hs)); err != nil || slices.Contains(held, false) {
				t.Errorf("renewed %v, %v", held, err)
			}
		}
	}
	if ttl := b.s.Int(t, "PTTL", mutex("other").Key); ttl < 20_000 {
		t.Errorf("the other lock has %d ms", ttl)
	}
	const century = 100 * 365 * 24 * 3600 * 1000 // in ms
	for _, key := range []string{mutex("victim").Key, reader.Key, reader.Own(1)} {
		if ttl := b.s.Int(t, "PTTL", key); ttl < century {
			t.Errorf("%s was shortened to %d ms", key, ttl)
		}
	}
}

// In one call, each lease has a time of its own.
func TestRenewEachForItsTime(t *testing.T) {
	b := newBench(t)
	n := b.m.Gate()
	leases := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}
	var mutexes, readers []script.LockRef
	for i := range leases {
		m, r := script.NewMutex(fmt.Sprint(n, ":m", i)).Ref("a:1"), script.NewRead(fmt.Sprint(n, ":r", i)).Ref("a:1")
		b.s.Do(t, "HSET", m.Key, "a:1", "1")
		b.s.Do(t, "HSET", r.Key, "mode", "read", "a:1", "1")
		b.s.Do(t, "SET", r.Own(1), "1")
		for _, key := range []string{m.Key, r.Key, r.Own(1)} {
			b.s.Do(t, "PEXPIRE", key, "5000")
		}
		mutexes, readers = append(mutexes, m), append(readers, r)
	}
	for _, hs := range [][]script.LockRef{mutexes, readers} {
		if _, err := b.d.Do(t.Context(), script.Renew(leases, hs)); err != nil {
			t.Fatal(err)
		}
	}
	for i, lease := range leases {
		for _, key := range []string{mutexes[i].Key, readers[i].Key, readers[i].Own(1)} {
			want := lease.Milliseconds()
			if got := b.s.Int(t, "PTTL", key); got > want || got < want-4000 {
				t.Errorf("%s: TTL %d, want %d", key, got, want)
			}
		}
	}
}

func TestMutexForce(t *testing.T) {
	b := newBench(t)
	force := func(owner string, want bool) {
		t.Helper()
		if got, err := b.m.Force(t.Context(), b.d, owner); got != want || err != nil {
			t.Errorf("force(%q): %v, %v", owner, got, err)
		}
	}
	force("", false)
	b.acquire("a:1", 1, time.Minute)
	force("b:1", false)
	b.has("a:1", "1", time.Minute)
	force("a:1", true)
	b.free()
	b.acquire("a:1", 1, time.Minute)
	force("", true)
	b.free()
	b.s.Do(t, "SET", b.m.Gate(), "precious")
	if _, err := b.m.Force(t.Context(), b.d, ""); driver.CodeOf(err) != "WRONGTYPE" {
		t.Errorf("force on another type: %v", err)
	}
	if got := b.s.Do(t, "GET", b.m.Gate()); got != "precious" {
		t.Errorf("the key is now %v", got)
	}
}

func TestMutexInspect(t *testing.T) {
	b := newBench(t)
	inspect := func() script.State {
		t.Helper()
		s, err := b.m.Inspect(t.Context(), b.d)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := inspect(); s.Owner != "" || s.Count != 0 {
		t.Errorf("free: %+v", s)
	}
	b.acquire("a:1", 1, time.Minute)
	b.acquire("a:1", 2, time.Minute)
	if s := inspect(); s.Owner != "a:1" || s.Count != 2 || s.TTL > time.Minute || s.TTL < 50*time.Second {
		t.Errorf("held twice: %+v", s)
	}
	b.s.Do(t, "PERSIST", b.m.Gate())
	if s := inspect(); s.TTL >= 0 {
		t.Errorf("without end: %+v", s)
	}
}

// A renewal that arrives after the release of a lock that stays for a time does not extend
// it. The request to keep it can be sent again.
func TestLateRenewalOfKept(t *testing.T) {
	b := newBench(t)
	b.acquire("a:1", 1, time.Minute)
	ref := b.m.Ref("a:1")
	for range 2 {
		if kept, err := script.Kept(b.d.Do(t.Context(), script.Keep(ref, 2*time.Second, "x"))); !kept || err != nil {
			t.Fatal(kept, err)
		}
	}
	if held, err := script.Prolong(t.Context(), b.d, ref, time.Minute); held || err != nil {
		t.Errorf("renewed: %v, %v", held, err)
	}
	if left := b.ttl(); left > 2*time.Second {
		t.Errorf("it stays for %v", left)
	}
}

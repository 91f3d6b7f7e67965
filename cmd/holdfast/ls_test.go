package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/vt"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// lsOpen returns a client of a server.
func lsOpen(tb testing.TB, s *redistest.Server) *holdfast.Client {
	tb.Helper()
	client, err := holdfast.Open(context.Background(), s.URL(), &holdfast.Options{Anonymous: true}) // see TestLsClient
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// lsHold acquires a lock and holds it until the end of the test.
func lsHold(tb testing.TB, l holdfast.Locker) *holdfast.Lease {
	tb.Helper()
	lease, err := l.Lock(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return lease
}

// lsWait waits for a lock in the background until the end of the test.
func lsWait(tb testing.TB, l holdfast.Locker) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if lease, err := l.Lock(ctx); err == nil {
			_ = lease.Release(context.Background())
		}
	}()
	tb.Cleanup(func() { cancel(); <-ended })
}

// lsLock is the documented form of a lock.
type lsLock struct {
	Name       string
	NameBase64 string
	Kind       string
	Holders    []struct {
		Owner, OwnerBase64, Mode string
		Holds                    int
		ExpiresInMs              *int64
		Client                   *lsClient
	}
	Queue []struct {
		Owner, OwnerBase64, Kind string
		Place, Permits           int
		WaitedMs                 *int64
		Client                   *lsClient
	}
	Queued  *int
	Clients *int
	Token   int64
	Leader  string
	More    int
	Similar []string
}

type lsClient struct {
	ID, Host, Program, Version, Pod, Label, Library string
	Java                                            bool
	PID                                             int
	Since                                           *time.Time
}

type lsDocument struct {
	At       string
	Locks    []lsLock
	Complete bool
	Error    string

	Deadlocks []struct {
		ID, Found string
		Calls     []struct {
			Client, Who, Since string
			Holds              []struct {
				Kind, Name, Owner string
				Wanted            bool
			}
			Wants []struct{ Kind, Name string }
		}
	}
}

// lsDecode decodes a document. It fails on unknown fields.
func lsDecode[T any](tb testing.TB, line string) T {
	tb.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		tb.Fatalf("%v:\n%s", err, line)
	}
	return v
}

func TestLs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	execute(t, "ls", "--url", s.URL()).want(t, 0, "", `^No locks are held\.\nTo list also locks of other libraries, add --plain\.\n$`)
	execute(t, "ls", "a*", "--url", s.URL()).want(t, 0, "", `^No locks are held that match a\*\.\n`)
	execute(t, "ls", "--json", "--url", s.URL()).want(t, 0, `^\{"locks":\[\],"complete":true\}\n$`, "")

	client, other := lsOpen(t, s), lsOpen(t, s)
	owners := make(map[string]string)
	for name, l := range map[string]holdfast.Locker{
		"b:mutex": client.Mutex("b:mutex"), "a:fair": client.FairMutex("a:fair"), "c:fenced": client.FencedMutex("c:fenced"),
		"e:write": client.RWMutex("e:write"), "d:read": client.RWMutex("d:read").RLocker(),
	} {
		owners[name] = lsHold(t, l).Owner()
	}
	again := lsHold(t, other.RWMutex("d:read").RLocker())
	lsWait(t, other.FairMutex("a:fair"))
	lsWait(t, other.Mutex("b:mutex"))
	eventually(t, "the lock has a waiter", func() bool {
		list := lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out).Locks
		return len(list) == 5 && len(list[0].Queue) == 1 && len(list[1].Queue) == 1 && list[1].Clients != nil && *list[1].Clients == 1
	})

	r := execute(t, "ls", "--url", s.URL())
	const left = `  +[123]\d\.\ds` // 30 s right after a renewal
	r.want(t, 0, `^NAME +KIND +HELD BY +EXPIRES IN  WAITING\n`+
		`a:fair +fair mutex +`+owners["a:fair"]+left+`  1 queued\n`+
		`b:mutex +mutex +`+owners["b:mutex"]+left+`  1 queued\n`+
		`c:fenced +fenced mutex +`+owners["c:fenced"]+left+`\n`+
		`d:read +read lock +\S+`+left+`\n`+
		` +read lock +\S+`+left+`\n`+
		`e:write +write lock +`+owners["e:write"]+left+`\n$`, "")
	for _, owner := range []string{again.Owner(), owners["d:read"]} {
		if !strings.Contains(r.out, owner) {
			t.Errorf("%s is not listed:\n%s", owner, r.out)
		}
	}

	list := lsDecode[lsDocument](t, execute(t, "ls", "[cd]:*", "--json", "--url", s.URL()).out)
	if !list.Complete || len(list.Locks) != 2 || list.Locks[0].Kind != "fenced mutex" || list.Locks[0].Token != 1 ||
		len(list.Locks[1].Holders) != 2 || list.Locks[1].Holders[0].Mode != "read" || *list.Locks[1].Holders[0].ExpiresInMs < 10_000 {
		t.Errorf("%+v", list)
	}

	execute(t, "ls", "--limit", "2", "--url", s.URL()).want(t, 0, "NAME", `There may be more: ls stopped after 2 locks\. Raise --limit`)
	if list := lsDecode[lsDocument](t, execute(t, "ls", "--limit", "2", "--json", "--url", s.URL()).out); list.Complete || len(list.Locks) != 2 {
		t.Errorf("%+v", list)
	}
}

// TestLsClient checks that ls and show say which process holds a lock, and which waits.
func TestLsClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, err := holdfast.Open(t.Context(), s.URL(), &holdfast.Options{Label: "blue"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	owner := lsHold(t, client.Mutex("orders")).Owner()
	other, err := holdfast.Open(t.Context(), s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lsHold(t, other.Mutex("other")) // a client that only waits says later who it is
	lsWait(t, other.Mutex("orders"))
	host, _ := os.Hostname()
	who := host + ` \(blue, pid ` + strconv.Itoa(os.Getpid()) + `\)`
	var lock lsLock
	eventually(t, "both clients have said who they are", func() bool {
		lock = lsDecode[lsLock](t, execute(t, "show", "orders", "--json", "--url", s.URL()).out)
		return lock.Holders[0].Client.PID > 0 && len(lock.Queue) == 1 && lock.Queue[0].Client.PID > 0
	})
	if c := lock.Holders[0].Client; c.ID != client.ID() || c.Host != host || c.Label != "blue" || c.Since == nil {
		t.Errorf("%+v", c)
	}
	execute(t, "ls", "--url", s.URL()).want(t, 0, `orders +mutex +`+who+` +\d\d\.\ds +1 queued\n`, "")
	execute(t, "show", "orders", "--url", s.URL()).want(t, 0, `held by +`+owner+`\n +`+who+`, \S+.*, holdfast.*\n.*\n +queue +1\. \S+, `+host+` \(.*pid \d+\), waiting for`, "")
	s.Do(t, "HSET", "java", "0b7a5a0e-6a43-4c0f-9a51-0d5f0a1c2b3d:42", "1")
	execute(t, "show", "java", "--url", s.URL()).want(t, 0, `a thread of a Redisson client`, "")
}

// TestLsDeadlock checks that ls shows a deadlock of two clients, with its locks and processes.
func TestLsDeadlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := lsOpen(t, s), lsOpen(t, s)
	la, lb := lsHold(t, a.Mutex("a")), lsHold(t, b.Mutex("b"))
	go func() { _, _ = a.Mutex("b").Lock(la.Context()) }()
	go func() { _, _ = b.Mutex("a").Lock(lb.Context()) }()
	eventually(t, "the deadlock is found", func() bool {
		return len(lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out).Deadlocks) == 1
	})
	d := lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out).Deadlocks[0]
	if len(d.Calls) != 2 || d.Calls[0].Holds[0].Name != d.Calls[1].Wants[0].Name || !d.Calls[0].Holds[0].Wanted || d.Calls[0].Client == d.Calls[1].Client {
		t.Errorf("%+v", d)
	}
	execute(t, "ls", "--url", s.URL()).want(t, 0, `\nDEADLOCK of 2 calls:\n  client \w+ holds [ab] and waits for [ab] \(for \d+\.\ds\)\n  client \w+ holds [ab] and waits for [ab]`, "")
	_ = la.Release(t.Context())
	eventually(t, "it is over", func() bool {
		return len(lsDecode[lsDocument](t, execute(t, "ls", "--json", "--url", s.URL()).out).Deadlocks) == 0
	})
}

// TestLsMany checks that ls lists some of many holders and counts all waiters.
func TestLsMany(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	for range 10 {
		lsHold(t, client.RWMutex("page", holdfast.WriterFirst()).RLocker()) // such readers share no hold
	}
	lsHold(t, client.FairMutex("queue"))
	for i := range 150 {
		s.Do(t, "RPUSH", "redisson_lock_queue:{queue}", fmt.Sprint("waiter:", i))
	}
	execute(t, "ls", "--url", s.URL()).want(t, 0, `^NAME [^\n]*\npage +read lock [^\n]*\n( +read lock [^\n]*\n){7} +more: holdfast show\nqueue +fair mutex [^\n]* 150 queued\n$`, "")
	execute(t, "show", "page", "--url", s.URL()).want(t, 0, `(read, 1 hold, .*){10}`, "")
}

// TestLsBounded checks that --keys bounds the number of keys that ls reads.
func TestLsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "EVAL", "for i = 1, 20000 do redis.call('SET', 'k' .. i, 1) end", "0")
	execute(t, "ls", "--keys", "1000", "--url", s.URL()).want(t, 0, "", `There may be more: ls stopped after 1000 keys\. Raise --keys`)
	scans := strings.Count(s.Do(t, "INFO", "commandstats").(string), "cmdstat_keys:")
	if scans != 0 {
		t.Error("KEYS was used")
	}
}

// TestLsUnwritten checks that a failed write makes the command fail.
func TestLsUnwritten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lsHold(t, lsOpen(t, s).Mutex("orders"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show", "orders"}, {"watch", "--count", "1"}} {
		p := &process{cmd: exec.Command(binary, append(args, "--url", s.URL())...), ended: make(chan struct{})}
		p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environment(), full, &p.err
		p.run(t)
		p.wait(t).want(t, 1, "", "no space left")
	}
}

func TestLsUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		err  string
	}{
		{[]string{"ls", "a", "b"}, "takes one pattern, got also b"},
		{[]string{"ls", "--limit", "0"}, "--limit is 0: it must be 1 or more"},
		{[]string{"ls", "--keys", "-1"}, "--keys is -1: it must be 1 or more"},
		{[]string{"ls", "--pause", "-1s"}, "--pause is -1s: it must not be negative"},
		{[]string{"show"}, "needs the name of a lock"},
		{[]string{"show", "a", "b"}, "takes one name, got also b"},
		{[]string{"watch", "--every", "1ms"}, "--every is 1ms: it must be 100ms or more"},
		{[]string{"watch", "--count", "-1"}, "--count is -1"},
		{[]string{"unlock", "--force"}, "needs the name of a lock"},
		{[]string{"unlock", "a"}, "a lock is released by its holder.*add --force"},
		{[]string{"unlock", "a", "--force"}, "no terminal to ask for confirmation.*--owner.*--yes"},
		{[]string{"unlock", "a", "--force", "--json"}, "--json does not ask.*--owner.*--yes"},
	} {
		execute(t, append(tt.args, "--url", "redis://127.0.0.1:1")...).want(t, 2, "", tt.err)
	}
	for _, args := range [][]string{{"ls"}, {"show", "a"}, {"watch"}, {"unlock", "a", "--force", "--yes"}} {
		execute(t, append(args, "--url", "redis://:secret@127.0.0.1:1")...).want(t, 122, "", `^holdfast: .*\n.*--url`)
		execute(t, args[0], "--help").want(t, 0, "Examples:.*--json", "")
	}
}

// TestLsTerminal checks that the table fits into the terminal and has no colours
// with NO_COLOR.
func TestLsTerminal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lsHold(t, lsOpen(t, s).Mutex(strings.Repeat("long", 50)))
	for _, env := range []string{"A=1", "NO_COLOR=1"} {
		r := startTerminal(t, 60, 20, []string{env}, "ls", "--url", s.URL()).wait(t)
		if coloured := strings.Contains(r.out, "\x1b["); coloured != (env == "A=1") {
			t.Errorf("%s: %q", env, r.out)
		}
		v := vt.New(60, 20)
		_, _ = v.Write([]byte(r.out))
		if v.Wrapped > 0 || !strings.Contains(v.Text(), "longlonglo… ") {
			t.Errorf("it does not fit:\n%s", v.Text())
		}
	}
}

// hostile are names that attack a terminal or are hard to show.
var hostile = []string{
	"\x1b[2J\x1b[H\x1b]0;owned\a", "two\nlines\r\n", "\u009b31m", "\u202eevil", "<script>alert(1)</script>", "e\u0301\u200d",
	"日本語", "\xff\xfe", "tab\tand\x00nul", "%s%d%!", "  blanks  ", `back\slash`, "\x1b", strings.Repeat("\x1b[31m", 200), strings.Repeat("x", 1024),
}

func TestLsHostile(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, name := range hostile {
		s.Do(t, "HSET", name, "\x1b[31mowner\n\xff:1", "1")
		s.Do(t, "PEXPIRE", name, "600000")
	}
	url := s.URL() + "?timeout=20s" // the race detector is slow
	r := execute(t, "ls", "--url", url)
	if n := strings.Count(r.out, "\n"); n != len(hostile)+1 || len(r.out) > 1<<15 || r.status != 0 || strings.ContainsFunc(r.out, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x9b || r == 0x202e }) {
		t.Errorf("status %d, %d lines, %d bytes:\n%q", r.status, n, len(r.out), r.out)
	}
	line := execute(t, "ls", "--json", "--url", url).out
	if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == 0x9b || r == 0x202e }) {
		t.Error("the JSON contains control characters")
	}
	found := make(map[string]bool)
	for _, lock := range lsDecode[lsDocument](t, line).Locks {
		name, err := base64.StdEncoding.DecodeString(lock.NameBase64)
		if err != nil {
			t.Error(err)
		}
		if len(name) == 0 {
			name = []byte(lock.Name)
		}
		found[string(name)] = true
		if owner, _ := base64.StdEncoding.DecodeString(lock.Holders[0].OwnerBase64); string(owner) != "\x1b[31mowner\n\xff:1" {
			t.Errorf("owner %q", owner)
		}
	}
	for _, name := range hostile {
		if !found[name] {
			t.Errorf("%.40q is not listed", name)
		}
		if strings.Contains(name, "\x00") {
			continue // not possible as an argument
		}
		r := execute(t, "show", "--url", url, "--", name)
		if strings.ContainsFunc(r.out+r.err, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x9b || r == 0x202e }) || r.status != 0 {
			t.Errorf("show %q: status %d: %q %q", name, r.status, r.out, r.err)
		}
	}
	for _, columns := range []uint16{20, 80, 200} {
		v := vt.New(int(columns), 40)
		_, _ = v.Write([]byte(startTerminal(t, columns, 40, nil, "ls", "--url", url).wait(t).out))
		if v.Wrapped > 0 || len(v.Strange) > 0 {
			t.Errorf("%d columns: %q\n%s", columns, v.Strange, v.Text())
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	if err := lsHold(t, client.FencedMutex("free")).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, "show", "free", "--url", s.URL()).want(t, 0, `^free\n.*none \(the lock is free\)`, "")
	free := lsDecode[lsLock](t, execute(t, "show", "free", "--json", "--url", s.URL()).out)
	if free.Name != "free" || free.Holders == nil || len(free.Holders) != 0 || free.Similar != nil {
		t.Errorf("%+v", free)
	}

	lease := lsHold(t, client.FairMutex("orders"))
	if _, err := client.FairMutex("orders").Lock(lease.Context()); err != nil {
		t.Fatal(err)
	}
	lsWait(t, client.FairMutex("orders"))
	eventually(t, "the lock has a waiter", func() bool { return s.Int(t, "LLEN", "redisson_lock_queue:{orders}") == 1 })
	waiter := s.Strings(t, "LRANGE", "redisson_lock_queue:{orders}", "0", "-1")[0]
	execute(t, "show", "orders", "--url", s.URL()).want(t, 0, `^orders\n  kind +fair mutex\n  held by +`+lease.Owner()+
		`\n +exclusive, 2 holds, expires in [123]\d\.\ds\n  queue +1\. `+waiter+`\n`, "")
	lock := lsDecode[lsLock](t, execute(t, "show", "orders", "--json", "--url", s.URL()).out)
	if len(lock.Holders) != 1 || lock.Holders[0].Holds != 2 || len(lock.Queue) != 1 || lock.Queue[0].Owner != waiter {
		t.Errorf("%+v", lock)
	}

	lsHold(t, client.FencedMutex("fenced"))
	execute(t, "show", "fenced", "--url", s.URL()).want(t, 0, `kind +fenced mutex.*token +1\n`, "")
	s.Do(t, "HSET", "java", "285475da-9152-4c83-822a-67ee2f116a79:52", "1")
	execute(t, "show", "java", "--url", s.URL()).want(t, 0, `1 hold, never expires`, "")
	s.Do(t, "SET", "text", "x")
	execute(t, "show", "text", "--url", s.URL()).want(t, 1, "", `^holdfast: text is not a lock`)
}

func TestLsCompletion(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	lsHold(t, client.Mutex("orders:1"))
	lsHold(t, client.FencedMutex("orders:2"))
	lsHold(t, client.Mutex("other*"))
	s.Do(t, "HSET", "orders:\x1b", "285475da-9152-4c83-822a-67ee2f116a79:52", "1")
	// On a busy machine the server may take longer than a second. Then there are no
	// completions, so repeat the call.
	offers := func(command, typed, want string) {
		eventually(t, typed+" is completed", func() bool {
			return matches(execute(t, "__complete", command, "--url", s.URL(), typed).out, want)
		})
	}
	for _, command := range []string{"show", "unlock"} {
		offers(command, "ord", `^orders:1\tmutex\norders:2\tfenced mutex\n:4\n$`)
		execute(t, "__complete", command, "--url", s.URL(), "o*").want(t, 0, `^:4\n$`, "*")
		offers(command, "other*", `^other\*\tmutex\n:4\n$`)
		execute(t, "__complete", command, "--url", s.URL(), "orders:1", "").want(t, 0, `^:4\n$`, "*")
		began := time.Now()
		execute(t, "__complete", command, "--url", "redis://127.0.0.1:1", "ord").want(t, 0, `^:4\n$`, "*")
		if took := time.Since(began); took > waitLimit {
			t.Errorf("the shell had to wait for %v", took)
		}
	}
}

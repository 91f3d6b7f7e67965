// Package drivertest is the conformance suite of package driver. A driver that
// passes [Run] can be used with Holdfast.
//
// The suite runs against real servers, and against a proxy that drops, delays
// and freezes connections.
package drivertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Open connects a driver to the server at url, with a timeout of one second per
// request. The suite closes the driver.
type Open func(ctx context.Context, url string) (driver.Driver, error)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"Replies", testReplies},
		{"ScriptsAreSentOnce", testScriptsAreSentOnce},
		{"Many", testMany},
		{"Acked", testAcked},
		{"Facts", testFacts},
		{"ErrorClasses", testErrorClasses},
		{"LostReply", testLostReply},
		{"ServerGone", testServerGone},
		{"Cancel", testCancel},
		{"Deadline", testDeadline},
		{"SilentServer", testSilentServer},
		{"OthersGiveUp", testOthersGiveUp},
		{"ClosedMeanwhile", testClosedMeanwhile},
		{"Subscribe", testSubscribe},
		{"SubscribeMany", testSubscribeMany},
		{"Resubscribe", testResubscribe},
		{"Forbidden", testForbidden},
		{"HalfOpen", testHalfOpen},
		{"Close", testClose},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

func connect(t *testing.T, open Open, url string) driver.Driver {
	t.Helper()
	d, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

var (
	echo  = driver.NewScript("echo", `return ARGV[1]`)
	incr  = driver.NewScript("incr", `return redis.call('incr', KEYS[1])`)
	hset  = driver.NewScript("hset", `return redis.call('hset', KEYS[1], 'f', 'v')`)
	shout = driver.NewScript("shout", `return redis.call('publish', KEYS[1], ARGV[1])`)
)

func call(s *driver.Script, key string, args ...string) driver.Call {
	return driver.Call{Script: s, Keys: []string{key}, Args: args}
}

func testReplies(t *testing.T, open Open) {
	d := connect(t, open, redistest.Shared(t).URL())
	for source, want := range map[string]string{
		`return 7`:                       "{int 7  []}",
		`return -9007199254740991`:       "{int -9007199254740991  []}",
		`return 'text'`:                  "{string 0 text []}",
		`return ''`:                      "{string 0  []}",
		`return redis.status_reply('k')`: "{string 0 k []}",
		`return nil`:                     "{nil 0  []}",
		`return {1, 'b', {2}}`:           "{list 0  [{int 1  []} {string 0 b []} {list 0  [{int 2  []}]}]}",
		`return {}`:                      "{list 0  []}",
	} {
		r, err := d.Do(t.Context(), call(driver.NewScript("reply", source), "drivertest:replies"))
		if got := fmt.Sprint(r); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", source, got, err, want)
		}
	}
}

// The source of a script is sent once per server. After that only the hash is
// sent. A server that has lost the script costs one more request.
func testScriptsAreSentOnce(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	do := func() {
		t.Helper()
		if r, err := d.Do(t.Context(), call(echo, "k", "x")); err != nil || r.Str != "x" {
			t.Fatalf("got %v, %v", r, err)
		}
	}
	for range 10 {
		do()
	}
	if n := p.Count("EVAL"); n != 1 {
		t.Errorf("%d EVAL for ten calls of a new script, want 1", n)
	}
	s.Do(t, "SCRIPT", "FLUSH")
	do()
	if n := p.Count("EVAL"); n != 2 {
		t.Errorf("%d EVAL after SCRIPT FLUSH, want 2", n)
	}
	s.Do(t, "SCRIPT", "FLUSH")
	for i, r := range d.DoMany(t.Context(), []driver.Call{call(echo, "k", "0"), call(echo, "k", "1")}) {
		if r.Err != nil || r.Reply.Str != strconv.Itoa(i) {
			t.Errorf("call %d after SCRIPT FLUSH: %v", i, r)
		}
	}
}

func testMany(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	s.Do(t, "SET", "string", "x")
	var calls []driver.Call
	for i := range 1000 {
		if i == 500 {
			calls = append(calls, call(hset, "string"))
		}
		calls = append(calls, call(echo, "k", strconv.Itoa(i)))
	}
	results := d.DoMany(t.Context(), calls)
	if code := driver.CodeOf(results[500].Err); code != "WRONGTYPE" {
		t.Errorf("the call that fails gave %v", results[500])
	}
	for i, r := range slices.Delete(results, 500, 501) {
		if r.Err != nil || r.Reply.Str != strconv.Itoa(i) {
			t.Fatalf("call %d: %v", i, r)
		}
	}
}

func testAcked(t *testing.T, open Open) {
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	d := connect(t, open, master.URL())
	acked := func(timeout time.Duration) driver.Result {
		return d.DoAcked(t.Context(), []driver.Call{call(incr, "k")}, 1, timeout)[0]
	}
	if r := acked(50 * time.Millisecond); r.Err != nil || r.Acked != 0 {
		t.Errorf("without a replica: %+v", r)
	}
	host, port, _ := cut(master.Addr())
	replica := redistest.Start(t, "--replicaof", host, port)
	for range 200 {
		if r := acked(50 * time.Millisecond); r.Err == nil && r.Acked == 1 {
			break
		}
	}
	r := acked(5 * time.Second)
	if r.Err != nil || r.Acked != 1 {
		t.Fatalf("with a replica: %+v", r)
	}
	if got := replica.Int(t, "GET", "k"); got != r.Reply.Int {
		t.Errorf("acknowledged %d, the replica has %d", r.Reply.Int, got)
	}
	many := d.DoAcked(t.Context(), []driver.Call{call(incr, "k"), call(hset, "k"), call(incr, "l")}, 1, 5*time.Second)
	if many[0].Acked != 1 || many[2].Acked != 1 || many[2].Reply.Int != 1 || driver.CodeOf(many[1].Err) != "WRONGTYPE" {
		t.Errorf("several: %+v", many)
	}
}

func testFacts(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	facts := func(d driver.Driver) driver.Facts {
		t.Helper()
		all := d.Facts(t.Context())
		if len(all) != 1 || all[0].Err != nil || all[0].Node != d.Place("any").Node {
			t.Fatalf("facts: %+v", all)
		}
		return all[0]
	}
	const events = "notify-keyspace-events"
	f := facts(d)
	if f.Version == "" || f.Role != "master" || len(f.RunID) != 40 || len(f.ReplID) != 40 || f.Cluster {
		t.Errorf("facts: %+v", f)
	}
	if a, b := d.Place("one"), d.Place("two"); a != b {
		t.Errorf("on one server, two places: %v and %v", a, b)
	}
	if f.Clock.Abs() > 5*time.Second {
		t.Errorf("the clock of this machine is %v off", f.Clock)
	}
	if f.Database != 0 || f.Settings[events] != "" || f.SettingsErr != nil {
		t.Errorf("facts about settings: %+v", f)
	}
	if f.Settings["maxmemory-policy"] != "noeviction" || f.Info["aof_enabled"] != "0" {
		t.Errorf("facts about settings: %v, %v", f.Settings, f.Info)
	}
	s.Do(t, "CONFIG", "SET", events, "KEx")
	if f = facts(d); len(f.Settings[events]) != 3 {
		t.Errorf("facts about settings: %+v", f)
	}
	s.Do(t, "ACL", "SETUSER", "default", "-config")
	if f = facts(d); driver.CodeOf(f.SettingsErr) != "NOPERM" || f.Version == "" {
		t.Errorf("facts of a server that hides its settings: %+v", f)
	}
	if f = facts(connect(t, open, s.URL()+"/3")); f.Database != 3 {
		t.Errorf("facts about another database: %+v", f)
	}
}

func testErrorClasses(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	s.Do(t, "SET", "string", "x")
	check := func(what string, key string, code string, class driver.Class) {
		t.Helper()
		_, err := d.Do(t.Context(), call(hset, key))
		if driver.CodeOf(err) != code || driver.ClassOf(err) != class {
			t.Errorf("%s: %v is %s and %v, want %s and %v", what, err, driver.CodeOf(err), driver.ClassOf(err), code, class)
		}
		if err != nil && strings.Contains(err.Error(), "user_script") {
			t.Errorf("%s: the error contains the position in the script: %v", what, err)
		}
	}
	check("key of another type", "string", "WRONGTYPE", driver.Fatal)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	check("memory full", "k", "OOM", driver.Fatal)
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	check("replica", "k", "READONLY", driver.Definite)
	s.Do(t, "REPLICAOF", "NO", "ONE")
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "3")
	check("too few replicas", "k", "NOREPLICAS", driver.Definite)
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	s.Do(t, "ACL", "SETUSER", "default", "resetkeys", "~mine:*")
	check("no permission for the key", "k", "NOPERM", driver.Fatal)
}

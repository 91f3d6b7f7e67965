// Package drivertest is the conformance suite of package driver. A driver that
// passes [Run] can carry Holdfast.
//
// The suite runs against real servers and a proxy that drops, delays and
// freezes, because the promises of a driver are about what happens then.
package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Open connects a driver to the server at url, with a timeout of a second for
// one request. The suite closes it.
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
		{"Subscribe", testSubscribe},
		{"SubscribeMany", testSubscribeMany},
		{"Resubscribe", testResubscribe},
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

// The source of a script crosses the wire once per server; the hash does from
// then on, and a server that has forgotten the script costs one more request.
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

// A reply that is lost leaves open whether the call ran, and no driver may
// claim to know.
func testLostReply(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Fatal(err)
	}
	p.DropReply(1, redistest.Script(incr.SHA))
	r, err := d.Do(t.Context(), call(incr, "k"))
	switch {
	case err == nil && r.Int != s.Int(t, "GET", "k"):
		t.Errorf("reply %d, but the key is %d", r.Int, s.Int(t, "GET", "k"))
	case err != nil && driver.ClassOf(err) != driver.Ambiguous:
		t.Errorf("%v is %v, want ambiguous", err, driver.ClassOf(err))
	}
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Errorf("the call after a lost reply: %v", err)
	}
}

func testServerGone(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	var err error
	for range 3 { // the first may still find the broken connection
		_, err = d.Do(t.Context(), call(incr, "k"))
	}
	if driver.ClassOf(err) != driver.Definite {
		t.Errorf("nobody listens: %v is %v, want definite", err, driver.ClassOf(err))
	}
	if _, err := open(t.Context(), s.URL()); err == nil {
		t.Error("connected to a server that is gone")
	}
	s.Restart()
	for range 500 {
		if _, err = d.Do(t.Context(), call(incr, "k")); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("server is back, but: %v", err)
}

// Timeout is how long a driver is to wait for a server that does not answer.
const Timeout = 5 * time.Second

// promptly is how soon a call must return on a machine that may stand still for
// two seconds: before the time is over that drivers give a server.
const promptly = Timeout - time.Second

func testCancel(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	for _, callers := range []int{1, 20} {
		if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
			t.Fatal(err)
		}
		p.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, callers)
		for range callers {
			go func() {
				_, err := d.Do(ctx, call(incr, "k"))
				errs <- err
			}()
		}
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		for range callers {
			err := <-errs
			if driver.ClassOf(err) != driver.Ambiguous {
				t.Errorf("%d callers: cancelled on the way, %v is %v", callers, err, driver.ClassOf(err))
			}
		}
		if took := time.Since(start); took > 100*time.Millisecond+promptly {
			t.Errorf("%d callers: cancelled after 100ms, returned after %v", callers, took)
		}
		p.Thaw()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Do(ctx, call(incr, "k")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

func testDeadline(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	p.Freeze()
	// Again and again, since the first may cost the connection, and then the
	// next ones meet one that is being opened.
	for i := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		_, err := d.Do(ctx, call(incr, "k"))
		if took := time.Since(start); err == nil || took > 100*time.Millisecond+promptly {
			t.Errorf("call %d, deadline of 100ms: %v after %v", i, err, took)
		}
		if driver.ClassOf(err) == driver.Fatal {
			t.Errorf("call %d: %v is fatal", i, err)
		}
		cancel()
	}
}

// A call without a deadline ends all the same, when the server is silent.
func testSilentServer(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	s.Pause()
	defer s.Resume()
	start := time.Now()
	_, err := d.Do(context.Background(), call(incr, "k"))
	if took := time.Since(start); err == nil || took > 2*Timeout {
		t.Errorf("silent server: %v after %v", err, took)
	}
	if driver.ClassOf(err) != driver.Ambiguous {
		t.Errorf("%v is %v, want ambiguous", err, driver.ClassOf(err))
	}
}

func testClose(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	h := newHandler()
	l := d.Listen(h)
	l.Subscribe("c")
	h.want(t, "+c")
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Do(t.Context(), call(incr, "k")); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("call after Close: %v", err)
	}
	if r := d.DoMany(t.Context(), []driver.Call{call(incr, "k")}); !errors.Is(r[0].Err, driver.ErrClosed) {
		t.Errorf("calls after Close: %v", r)
	}
	for range 500 {
		if len(s.Channels(t)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("subscriptions left: %v", s.Channels(t))
}

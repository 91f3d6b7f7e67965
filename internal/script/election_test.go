package script_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

func election(name string) kind { return script.NewElection(name) }

func proclaim(owner, said string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewElection(name).Proclaim(ctx, d, owner, said)
		return err
	}
}

func inspectElection(ctx context.Context, d driver.Driver, name string) error {
	_, _, err := script.NewElection(name).Inspect(ctx, d)
	return err
}

// freeChange is what the engine would send to take back a wish to see a change.
func freeChange(ctx context.Context, d driver.Driver, name string) error {
	c := &script.Change{Election: script.NewElection(name)}
	_, err := d.Do(ctx, c.Free("a:1"))
	return err
}

// leads are the commands after which a:1 leads, and has said so.
var leads = []string{"HSET N a:1 1 leader A", "EXPIRE N 60", "SET token 41"}

var electionRows = []row{
	{
		title: "campaign/the first",
		do:    acquire(election, try("a:1")), reply: "1",
		state: []string{"N hash a:1=1, TTL 60s", "token string 1"},
	},
	{
		title: "campaign/another leads",
		given: leads,
		do:    acquire(election, try("b:1")), reply: "held 60s",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "proclaim/the first word",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET token 41"},
		do:    proclaim("a:1", "A"), reply: "1",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
		heard: "a:1 on news",
	},
	{
		title: "proclaim/another word",
		given: leads,
		do:    proclaim("a:1", "A2"), reply: "1",
		state: []string{"N hash a:1=1 leader=A2, TTL 60s", "token string 41"},
		heard: "a:1 on news",
	},
	{
		title: "proclaim/nothing to say",
		given: leads,
		do:    proclaim("a:1", ""), reply: "1",
		state: []string{"N hash a:1=1 leader=, TTL 60s", "token string 41"},
		heard: "a:1 on news",
	},
	{
		title: "proclaim/without end",
		given: []string{"HSET N a:1 1", "SET token 41"},
		do:    proclaim("a:1", "A"), reply: "1",
		state: []string{"N hash a:1=1 leader=A", "token string 41"},
		heard: "a:1 on news",
	},
	{
		title: "proclaim/no leader",
		given: []string{"SET token 41"},
		do:    proclaim("a:1", "A"), reply: "0",
		state: []string{"token string 41"},
	},
	{
		title: "proclaim/another leads", // one that comes late
		given: []string{"HSET N b:1 1 leader B", "EXPIRE N 60", "SET token 42"},
		do:    proclaim("a:1", "A"), reply: "0",
		state: []string{"N hash b:1=1 leader=B, TTL 60s", "token string 42"},
	},
	{
		title: "proclaim/held to read",
		given: reads("j:7", 60),
		do:    proclaim("a:1", "A"), reply: "0",
		state: []string{"N hash j:7=1 mode=read, TTL 60s", "j:7#1 string 1, TTL 60s"},
	},
	{
		title: "proclaim/another type",
		given: []string{"SET N x"},
		do:    proclaim("a:1", "A"), reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "proclaim/memory full", full: true,
		given: leads,
		do:    proclaim("a:1", "A2"), reply: "OOM",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "proclaim/another leads, memory full", full: true,
		given: leads,
		do:    proclaim("b:1", "B"), reply: "0",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "resign", // what it has said goes with it
		given: leads,
		do:    release(election, "a:1", 0), reply: "2", again: "0",
		state: []string{"token string 41"},
		heard: "0 on channel",
	},
	{
		title: "resign/memory full", full: true,
		given: leads,
		do:    release(election, "a:1", 0), reply: "2", again: "0",
		state: []string{"token string 41"},
		heard: "0 on channel",
	},
	{
		title: "renew a leader",
		given: []string{"HSET N a:1 1 leader A", "EXPIRE N 20", "SET token 41"},
		do:    renewAll("a:1"), reply: "[1]",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{title: "who leads/never a leader", do: inspectElection, reply: "[-2]"},
	{
		title: "who leads/no leader",
		given: []string{"SET token 41"},
		do:    inspectElection, reply: "[-2]",
		state: []string{"token string 41"},
	},
	{
		title: "who leads/a leader",
		given: leads,
		do:    inspectElection, reply: `[60s "a:1" "A" "41"]`,
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "who leads/a leader, memory full", full: true,
		given: leads,
		do:    inspectElection, reply: `[60s "a:1" "A" "41"]`,
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "who leads/a leader without end",
		given: []string{"HSET N a:1 1 leader A", "SET token 41"},
		do:    inspectElection, reply: `[-1 "a:1" "A" "41"]`,
		state: []string{"N hash a:1=1 leader=A", "token string 41"},
	},
	{
		title: "who leads/a leader with an empty value",
		given: []string{"HSET N a:1 1", "EVAL return(redis.call('hset',KEYS[1],'leader','')) 1 N", "EXPIRE N 60", "SET token 41"},
		do:    inspectElection, reply: `[60s "a:1" "" "41"]`,
		state: []string{"N hash a:1=1 leader=, TTL 60s", "token string 41"},
	},
	{
		title: "who leads/not said yet",
		given: []string{"HSET N a:1 1", "EXPIRE N 60", "SET token 41"},
		do:    inspectElection, reply: "[60s]",
		state: []string{"N hash a:1=1, TTL 60s", "token string 41"},
	},
	{
		title: "who leads/a Java lock without end",
		given: []string{"HSET N j:7 2"},
		do:    inspectElection, reply: "[-1]",
		state: []string{"N hash j:7=2"},
	},
	{
		title: "who leads/a word without an owner",
		given: []string{"HSET N leader A", "EXPIRE N 60", "SET token 41"},
		do:    inspectElection, reply: "[60s]",
		state: []string{"N hash leader=A, TTL 60s", "token string 41"},
	},
	{
		title: "who leads/term beyond what Lua counts exactly",
		given: []string{"HSET N a:1 1 leader A", "EXPIRE N 60", "SET token 9007199254740993"},
		do:    inspectElection, reply: `[60s "a:1" "A" "9007199254740993"]`,
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 9007199254740993"},
	},
	{
		title: "who leads/counter deleted",
		given: []string{"HSET N a:1 1 leader A", "EXPIRE N 60"},
		do:    inspectElection, reply: `[60s "a:1" "A" "0"]`,
		state: []string{"N hash a:1=1 leader=A, TTL 60s"},
	},
	{
		title: "who leads/counter is no number",
		given: []string{"HSET N a:1 1 leader A", "EXPIRE N 60", "SET token x"},
		do:    inspectElection, reply: "ERR",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string x"},
	},
	{
		title: "who leads/counter of another type",
		given: []string{"HSET N a:1 1 leader A", "EXPIRE N 60", "RPUSH token x"},
		do:    inspectElection, reply: "WRONGTYPE",
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token list x"},
	},
	{
		title: "who leads/another type",
		given: []string{"SET N x"},
		do:    inspectElection, reply: "WRONGTYPE",
		state: []string{"N string x"},
	},
	{
		title: "stop looking", // has nothing to undo
		given: leads,
		do:    freeChange, reply: `[60s "a:1" "A" "41"]`,
		state: []string{"N hash a:1=1 leader=A, TTL 60s", "token string 41"},
	},
}

func TestElection(t *testing.T) { check(t, electionRows) }

// What a leader says comes back as it was said, and is found beside an owner
// also where the server keeps the hash as a table, in no order.
func TestElectionSaysAnything(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	e := script.NewElection("N")
	for _, said := range []string{
		"", "leader", "a:1", "0", "line\r\nline", "\x00\x01\xff\xfe", `{"k":"\u00e9"}`, "'--]]\\", "日本", strings.Repeat("x", 64<<10),
	} {
		s.Do(t, "FLUSHALL")
		if v, err := script.Acquire(t.Context(), d, e, try("a:1")); err != nil || v.Token != 1 {
			t.Fatal(v, err)
		}
		if ok, err := e.Proclaim(t.Context(), d, "a:1", said); !ok || err != nil {
			t.Fatal(ok, err)
		}
		l, ttl, err := e.Inspect(t.Context(), d)
		if err != nil || l != (script.Leader{Owner: "a:1", Said: said, Term: 1}) {
			t.Errorf("said %.20q, seen %.60q, %v", said, fmt.Sprint(l), err)
		}
		if ttl > time.Minute || ttl < 50*time.Second {
			t.Errorf("TTL %v", ttl)
		}
	}
}

// A wish to see a change is granted by each change, and by nothing else.
func TestElectionChange(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	e := script.NewElection("N")
	c := &script.Change{Election: e, Any: true}
	sees := func(want bool, l script.Leader, ttl time.Duration) {
		t.Helper()
		v, err := script.Acquire(t.Context(), d, c, script.Claim{})
		if err != nil || v.Granted() != want || c.Seen != l {
			t.Errorf("granted %v, seen %+v, error %v; want %v, %+v", v.Granted(), c.Seen, err, want, l)
		}
		if !want && (v.TTL > ttl || v.TTL < ttl-10*time.Second || v.Why == "") {
			t.Errorf("verdict %+v, want a TTL of %v", v, ttl)
		}
	}
	run := func(args ...string) { t.Helper(); s.Do(t, args...) }
	var none script.Leader
	sees(true, none, 0) // the first look shows what is
	sees(false, none, -1)
	run("HSET", "N", "a:1", "1")
	run("EXPIRE", "N", "60")
	run("SET", "redisson_lock_token:{N}", "7")
	sees(false, none, time.Minute) // taken, but not said
	run("HSET", "N", "leader", "A")
	a := script.Leader{Owner: "a:1", Said: "A", Term: 7}
	sees(true, a, 0)
	sees(false, a, time.Minute)
	run("PERSIST", "N")
	sees(false, a, -1)
	run("HSET", "N", "leader", "A2")
	a.Said = "A2"
	sees(true, a, 0)
	run("DEL", "N")
	sees(true, none, 0)
	sees(false, none, -1)
	if got := c.Channels("a:1"); !slices.Equal(got, []string{"redisson_lock__channel:{N}", "holdfast:leader:{N}"}) {
		t.Errorf("channels %q", got)
	}
	if got := e.Channels("a:1"); len(got) != 1 { // what the change appends must not end up there
		t.Errorf("channels of a candidate: %q", got)
	}
}

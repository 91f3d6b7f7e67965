package script_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A part is a lock that can be one of a group.
type part interface {
	Claim(script.Claim) driver.Call
	Free(owner string) driver.Call
}

// parts are a lock of each kind that a group can have.
func parts(name string) []part {
	return []part{script.NewMutex(name), script.NewRead(name + "3"), script.NewWrite(name+"4", true), script.NewFenced(name + "5")}
}

// mutexes are locks for which a group has a script of its own.
func mutexes(name string) []part {
	return []part{script.NewMutex(name), script.NewMutex(name + "3"), script.NewMutex(name + "4")}
}

// takeParts claims a group of these locks for one owner. A refusal names the key that was
// not free.
func takeParts(ctx context.Context, d driver.Driver, claim script.Claim, parts ...part) (script.Verdict, error) {
	var keys []string
	var claims []driver.Call
	mutexes := true
	for _, p := range parts {
		c := p.Claim(claim)
		keys, claims, mutexes = append(keys, c.Keys[0]), append(claims, c), mutexes && script.IsMutex(c)
	}
	r, err := d.Do(ctx, script.ClaimGroup(claims, func(i int) driver.Call { return parts[i].Free(claim.Owner) }))
	if err != nil {
		return script.Verdict{}, err
	}
	v, blocker, err := script.DecodeGroup(r, len(claims), mutexes)
	if err == nil && !v.Granted() {
		v.Key = keys[blocker]
	}
	return v, err
}

func acquireGroup(parts func(string) []part) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := takeParts(ctx, d, wait("a:1"), parts(name)...)
		return err
	}
}

func freeGroup() op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		var frees []driver.Call
		for _, p := range parts(name) {
			frees = append(frees, p.Free("a:1"))
		}
		_, err := d.Do(ctx, script.FreeGroup(frees))
		return err
	}
}

func vote(longest int) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.Acquire(ctx, d, script.NewVote(name, seconds(longest)), try("a:1"))
		return err
	}
}

var groupRows = []row{
	{
		title: "group/all free",
		do:    acquireGroup(parts), reply: "[0 token token token 1]",
		state: []string{
			"N hash a:1=1, TTL 60s", "N3 hash a:1=1 mode=read, TTL 60s", "N4 hash a:1:write=1 mode=write, TTL 60s", "N5 hash a:1=1, TTL 60s",
			"redisson_lock_token:{N5} string 1", "{N3}:a:1#1 string 1, TTL 60s",
		},
	},
	{
		title: "group/the first is held",
		given: []string{"HSET N b:1 1", "PEXPIRE N 60000"},
		do:    acquireGroup(parts), reply: "[1 held 60s]",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "group/the third is held: its writer waits, the others are undone, and nothing is published",
		given: []string{"HSET N4 mode read b:1 1", "PEXPIRE N4 60000", "SET {N4}:b:1:rwlock_timeout:1 1 EX 60"},
		do:    acquireGroup(parts), reply: "[3 held 60s]",
		state: []string{"N4 hash b:1=1 mode=read, TTL 60s", "holdfast:writers:{N4} zset a:1:write+3s, TTL 3s", "{N4}:b:1#1 string 1, TTL 60s"},
	},
	{
		title: "group/the last is held without end",
		given: []string{"HSET N5 b:1 1"},
		do:    acquireGroup(parts), reply: "[4 0]",
		state: []string{"N5 hash b:1=1"},
	},
	{
		title: "group/one is of another type",
		given: []string{"SET N4 precious"},
		do:    acquireGroup(parts), reply: "WRONGTYPE",
		state: []string{"N4 string precious"},
	},
	{
		title: "group/memory full",
		full:  true,
		do:    acquireGroup(parts), reply: "OOM",
	},
	{
		title: "mutexes/all free",
		do:    acquireGroup(mutexes), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "N3 hash a:1=1, TTL 60s", "N4 hash a:1=1, TTL 60s"},
	},
	{
		title: "mutexes/the first is held",
		given: []string{"HSET N b:1 1", "PEXPIRE N 60000"},
		do:    acquireGroup(mutexes), reply: "[1 held 60s]",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "mutexes/the last is held without end",
		given: []string{"HSET N4 b:1 1"},
		do:    acquireGroup(mutexes), reply: "[3 0]",
		state: []string{"N4 hash b:1=1"},
	},
	{
		title: "mutexes/one is held by the same owner, for longer",
		given: []string{"HSET N3 a:1 1", "PEXPIRE N3 90000"},
		do:    acquireGroup(mutexes), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "N3 hash a:1=1, TTL 90s", "N4 hash a:1=1, TTL 60s"},
	},
	{
		title: "mutexes/one is held by the same owner, without end",
		given: []string{"HSET N3 a:1 1"},
		do:    acquireGroup(mutexes), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s", "N3 hash a:1=1, TTL 60s", "N4 hash a:1=1, TTL 60s"},
	},
	{
		title: "mutexes/one is a read/write lock of the same owner",
		given: []string{"HSET N3 mode read a:1 1", "PEXPIRE N3 60000"},
		do:    acquireGroup(mutexes), reply: "[2 held 60s]",
		state: []string{"N3 hash a:1=1 mode=read, TTL 60s"},
	},
	{
		title: "mutexes/one is of another type",
		given: []string{"SET N4 precious"},
		do:    acquireGroup(mutexes), reply: "WRONGTYPE",
		state: []string{"N4 string precious"},
	},
	{
		title: "mutexes/memory full",
		full:  true,
		do:    acquireGroup(mutexes), reply: "OOM",
	},
	{
		title: "free group/all held",
		given: []string{
			"HSET N a:1 1", "HSET N3 mode read a:1 1", "SET {N3}:a:1:rwlock_timeout:1 1 EX 60", "HSET N4 mode write a:1:write 1", "HSET N5 a:1 1",
		},
		do: freeGroup(), reply: "4", again: "0",
		heard: "0 on channel",
	},
	{
		title: "free group/some held by others, one of another type",
		given: []string{"HSET N b:1 1", "SET N3 precious", "HSET N4 mode write a:1:write 1"},
		do:    freeGroup(), reply: "1", again: "0",
		state: []string{"N hash b:1=1", "N3 string precious"},
	},
}

var voteRows = []row{
	{
		title: "vote/old enough",
		do:    vote(-10), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
	{
		title: "vote/too young, and held all the same",
		given: []string{"HSET N b:1 1", "PEXPIRE N 60000"},
		do:    vote(3600), reply: "held 60s",
		state: []string{"N hash b:1=1, TTL 60s"},
	},
	{
		title: "vote/too young, but given before",
		given: []string{"HSET N a:1 1", "PEXPIRE N 60000"},
		do:    vote(3600), reply: "token",
		state: []string{"N hash a:1=1, TTL 60s"},
	},
}

func TestGroup(t *testing.T) { checkNamed(t, groupRows, "N") }

func TestVote(t *testing.T) { check(t, voteRows) }

func TestVoteTooYoung(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	l := newLab(t, s, d, "N")
	v, err := script.Acquire(t.Context(), d, script.NewVote("N", seconds(3600)), try("a:1"))
	if err != nil || v.Granted() || !v.Young || v.TTL > seconds(3601) || v.TTL < seconds(3500) {
		t.Errorf("%+v, %v", v, err)
	}
	l.has()
}

// The uptime of a server is a difference of whole seconds, which may be almost
// one more than has passed: a vote comes when it is above the longest lease.
func TestVoteAtTheEndOfYouth(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	uptime := func() (up int) {
		_, after, _ := strings.Cut(fmt.Sprint(s.Do(t, "INFO", "server")), "uptime_in_seconds:")
		if _, err := fmt.Sscan(after, &up); err != nil {
			t.Fatal(err)
		}
		return up
	}
	for {
		up := uptime()
		young, err1 := script.Acquire(t.Context(), d, script.NewVote("young", seconds(up)), try("a:1"))
		old, err2 := script.Acquire(t.Context(), d, script.NewVote("old", seconds(up-1)), try("a:1"))
		if uptime() != up { // in the middle of it
			s.Do(t, "FLUSHALL")
			continue
		}
		if err1 != nil || young.Granted() || !young.Young {
			t.Errorf("up for as long as the longest lease: %+v, %v", young, err1)
		}
		if err2 != nil || !old.Granted() {
			t.Errorf("up for a second more: %+v, %v", old, err2)
		}
		return
	}
}

// changes returns how many changes the server has made to its keys.
func changes(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	_, after, _ := strings.Cut(fmt.Sprint(s.Do(t, "INFO", "persistence")), "rdb_changes_since_last_save:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A group that is not granted writes nothing, whichever part is held: no key, no
// fencing token.
func TestGroupRefusedWritesNothing(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	group := []part{script.NewMutex("a"), script.NewFenced("b"), script.NewRead("c"), script.NewWrite("d", true), script.NewFenced("e")}
	for _, held := range []string{"a", "b", "c", "d", "e"} {
		refusedGroup(t, s, d, held, group...)
	}
	group = []part{script.NewMutex("a"), script.NewMutex("b"), script.NewMutex("c")}
	for _, held := range []string{"a", "b", "c"} {
		refusedGroup(t, s, d, held, group...)
	}
}

// refusedGroup checks that a group is not granted while another owner holds one of its parts.
func refusedGroup(t *testing.T, s *redistest.Server, d driver.Driver, held string, group ...part) {
	t.Helper()
	s.Do(t, "FLUSHALL")
	s.Do(t, "HSET", held, "mode", "write", "other:1:write", "1")
	s.Do(t, "PEXPIRE", held, "60000")
	before := changes(t, s)
	v, err := takeParts(t.Context(), d, try("x:1"), group...)
	if err != nil || v.Granted() || v.Key != held {
		t.Errorf("%s is held: %+v, %v", held, v, err)
	}
	if keys, n := s.Keys(t), changes(t, s)-before; n != 0 || len(keys) != 1 {
		t.Errorf("%s is held: %d changes, keys %v", held, n, keys)
	}
}

// A group that fails when it has written frees what it has taken, the part that
// has failed included.
func TestGroupFailsHalfway(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", "-set")
	d := connect(t, "redis://half:secret@"+s.Addr())
	ears := listen(t, s, connect(t, s.URL()), script.NewMutex("a").Channels("")...)
	_, err := takeParts(t.Context(), d, try("x:1"), script.NewMutex("a"), script.NewRead("b"), script.NewMutex("c"))
	if driver.ClassOf(err) != driver.Fatal {
		t.Errorf("error %v", err)
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
	if heard := ears.heard(); len(heard) != 0 {
		t.Errorf("heard of a lock that was never granted: %v", heard)
	}
}

// The same for a group of mutexes. The first one is held already, by an earlier copy of the
// call, so the second one is the first that is given a TTL.
func TestGroupOfMutexesFailsHalfway(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "half", "on", ">secret", "~*", "&*", "+@all", "-pexpire")
	d := connect(t, "redis://half:secret@"+s.Addr())
	ears := listen(t, s, connect(t, s.URL()), script.NewMutex("a").Channels("")...)
	s.Do(t, "HSET", "a", "x:1", "1")
	s.Do(t, "PEXPIRE", "a", "90000")
	_, err := takeParts(t.Context(), d, try("x:1"), script.NewMutex("a"), script.NewMutex("b"), script.NewMutex("c"))
	if driver.CodeOf(err) != "NOPERM" {
		t.Errorf("error %v", err)
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("left: %v", keys)
	}
	if heard := ears.heard(); len(heard) != 0 {
		t.Errorf("heard of a lock that was never granted: %v", heard)
	}
}

// What frees a group tells waiters of each part by the command that the driver
// has chosen.
func TestGroupPublishesAsTold(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	group := []part{script.NewMutex("a"), script.NewFenced("b"), script.NewRead("c"), script.NewWrite("d", true)}
	if v, err := takeParts(t.Context(), d, try("x:1"), group...); err != nil || !v.Granted() {
		t.Fatal(v, err)
	}
	var frees []driver.Call
	for _, p := range group {
		frees = append(frees, p.Free("x:1"))
	}
	c := script.FreeGroup(frees)
	if i := c.Script.Publish; i < 1 || i > len(c.Args) || c.Args[i-1] != "PUBLISH" {
		t.Fatalf("a driver cannot choose the command: argument %d of %q", c.Script.Publish, c.Args)
	}
	if !redistest.HasSharded() {
		t.Skip("the server has one command to publish")
	}
	c.Args[c.Script.Publish-1] = "SPUBLISH"
	s.Do(t, "CONFIG", "RESETSTAT")
	if r, err := d.Do(t.Context(), c); err != nil || r.Int != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	stats := fmt.Sprint(s.Do(t, "INFO", "commandstats"))
	if !strings.Contains(stats, "cmdstat_spublish:calls=5,") || strings.Contains(stats, "cmdstat_publish:") { // two for a writer
		t.Errorf("published otherwise: %s", stats)
	}
}

// A group of thousands of mutexes is more than unpack can return.
func TestManyMutexes(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	var group []part
	for i := range 10_000 {
		group = append(group, script.NewMutex(fmt.Sprint("{many}:", i)))
	}
	for range 2 {
		if v, err := takeParts(t.Context(), d, try("x:1"), group...); err != nil || !v.Granted() {
			t.Fatal(v, err)
		}
	}
	if v, err := takeParts(t.Context(), d, try("y:1"), group[9_998:]...); err != nil || v.Granted() || v.Key != "{many}:9998" {
		t.Error(v, err)
	}
}

// A look at a part skips the commands that write and runs all others, so it must
// know which are which.
func TestGroupKnowsItsCommands(t *testing.T) {
	s := redistest.Start(t)
	read := func(name string) string {
		source, err := script.Files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		return string(source)
	}
	_, list, ok := strings.Cut(read("group_acquire"), "local READS = ")
	if !ok {
		t.Fatal("no list of reads")
	}
	list, _, _ = strings.Cut(list, "}")
	known := regexp.MustCompile(`[a-z]+`).FindAllString(strings.ReplaceAll(list, "true", ""), -1)
	called := make(map[string]bool)
	names := []string{
		"lib/acquire_read", "lib/acquire_write", "lib/release_read", "lib/release_write",
		"lib/rwmutex", "lib/readers", "lib/writers", "lib/enter", "lib/settle", "lib/read", "lib/write",
	}
	for _, k := range script.Kinds {
		if k.Acquire != nil {
			names = append(names, k.Acquire.Name, k.Release.Name)
		}
	}
	for _, name := range names {
		for _, m := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(read(name), -1) {
			called[m[1]] = true
		}
	}
	if len(called) < 10 {
		t.Errorf("only %v", called)
	}
	for command := range called {
		info := fmt.Sprint(s.Do(t, "COMMAND", "INFO", command))
		if writes := strings.Contains(info, "write"); writes == slices.Contains(known, command) {
			t.Errorf("%s: writes is %v, but the list of reads is %v", command, writes, known)
		}
	}
	for _, command := range known {
		if info := fmt.Sprint(s.Do(t, "COMMAND", "INFO", command)); strings.Contains(info, "write") {
			t.Errorf("%s writes", command)
		}
	}
}

package script_test

import (
	"bytes"
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

const asked = "c:0:1" // a request; its mark is noted

// What is noted of a request: that it was done, that it was not, and that there
// was nothing to do it with.
const (
	noted   = "holdfast:once:c:0 string 1 1, TTL 600s"
	refused = "holdfast:once:c:0 string 1 0, TTL 600s"
	absent  = "holdfast:once:c:0 string 1 -1, TTL 600s"
)

// changed changes the object of that shape by the name of the lab.
func changed(kind string, call func(*script.Object, string) driver.Call) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		r, err := d.Do(ctx, call(script.NewObject(kind, name, "c"), name))
		_, _, _ = script.DecodeMoved(r)
		return err
	}
}

func deleted(kind string, later bool) op {
	return changed(kind, func(o *script.Object, _ string) driver.Call { return o.Delete(asked, later) })
}

// sibling is a name in the slot of another.
func sibling(name string) string {
	if strings.Contains(name, "{") {
		return "new" + name
	}
	return "new{" + name + "}"
}

func renamed(kind string, replace bool) op {
	return changed(kind, func(o *script.Object, name string) driver.Call { return o.Rename(asked, sibling(name), replace) })
}

func copied(kind string, replace bool) op {
	return changed(kind, func(o *script.Object, name string) driver.Call { return o.Copy(asked, sibling(name), replace) })
}

func moved(kind string) op {
	return changed(kind, func(o *script.Object, _ string) driver.Call { return o.Move(asked, 0, 1) })
}

func expired(kind string, seconds int, conditions ...string) op {
	return changed(kind, func(o *script.Object, _ string) driver.Call {
		return o.Expire(asked, time.Duration(seconds)*time.Second, conditions)
	})
}

func expiredAt(kind string, seconds int, conditions ...string) op {
	return changed(kind, func(o *script.Object, _ string) driver.Call {
		return o.ExpireAt(asked, time.Now().Add(time.Duration(seconds)*time.Second), conditions)
	})
}

func persisted(kind string) op {
	return changed(kind, func(o *script.Object, _ string) driver.Call { return o.Persist(asked) })
}

func restored(kind string, ttl time.Duration, replace bool, dumps ...string) op {
	return changed(kind, func(o *script.Object, _ string) driver.Call { return o.Restore(asked, dumps, ttl, replace) })
}

// looked asks about the object of that shape.
func looked[T any](kind string, look func(*script.Object, context.Context, driver.Driver) (T, error)) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := look(script.NewObject(kind, name, "c"), ctx, d)
		return err
	}
}

// wired changes an object of two keys, as the n-th request of a client.
func wired(n int, call func(o *script.Object, request string) driver.Call) op {
	return changed(two, func(o *script.Object, _ string) driver.Call {
		return call(o, fmt.Sprint(strings.TrimSuffix(me, ":1"), ":0:", n))
	})
}

func dumped(kind string) op {
	return func(ctx context.Context, d driver.Driver, name string) error {
		_, err := script.NewObject(kind, name, "c").Dump(ctx, d, "thing")
		return err
	}
}

// A dump of the string a, as Redis 5 and later read it, and the same with a wrong
// checksum.
const (
	dumpA    = "\x00\x01\x61\x09\x00\x6f\x0c\xbe\x57\xdb\xb0\x1e\x05"
	dumpJunk = "\x00\x01\x61\x09\x00\x6f\x0c\xbe\x57\xdb\xb0\x1e\x00"
)

var one, two = "bucket", "id generator"

func pair() []string {
	return []string{"SET N 1", "SET allocation 5"}
}

var objectRows = slices.Concat(objectLooks, objectEnds, objectMoves, objectExpiries, objectDumps)

var objectLooks = []row{
	{title: "object exists/no", do: looked(one, (*script.Object).Exists), reply: "0"},
	{title: "object exists/a part", given: []string{"SET allocation 5"}, do: looked(two, (*script.Object).Exists), reply: "1", state: []string{"allocation string 5"}},
	{
		title: "object exists/what is beside it", given: []string{"SET token 5"},
		do: looked("fenced mutex", (*script.Object).Exists), reply: "0", state: []string{"token string 5"},
	},
	{title: "object touch/no", do: looked(two, (*script.Object).Touch), reply: "0"},
	{
		title: "object touch/what is beside it", given: []string{"SET token 5"},
		do: looked("fenced mutex", (*script.Object).Touch), reply: "1", state: []string{"token string 5"},
	},
	{title: "object ttl/none", do: looked(two, (*script.Object).TTL), reply: "held 3s"},
	{title: "object ttl/no end", given: []string{"SET N 1", "SET allocation 1 EX 60"}, do: looked(two, (*script.Object).TTL), reply: "held past", state: []string{"N string 1", "allocation string 1, TTL 60s"}},
	{title: "object memory/none", do: looked(two, (*script.Object).Memory), reply: "held past"},
	{title: "object idle/none", do: looked(two, (*script.Object).Idle), reply: "held past"},
	{title: "object idle/used", given: pair(), do: looked(two, (*script.Object).Idle), reply: "0", or: "1", state: []string{"N string 1", "allocation string 5"}},
}

var objectEnds = []row{
	{title: "object delete/nothing", do: deleted(one, false), reply: "0", state: []string{refused}},
	{title: "object delete/all", given: pair(), do: deleted(two, false), reply: "1", state: []string{noted}},
	{title: "object unlink/a part", given: []string{"SET allocation 5"}, do: deleted(two, true), reply: "1", state: []string{noted}},
	{title: "object delete/memory full", full: true, given: pair(), do: deleted(two, false), reply: "1", state: []string{noted}},
	{
		title: "object delete/foreign data", given: []string{"SET N 1", "RPUSH allocation x"},
		do: deleted(two, false), reply: "WRONGTYPE", state: []string{"N string 1", "allocation list x"},
	},
	{
		title: "object delete/those who wait are told", given: []string{"SET N 3"},
		do: deleted("latch", false), reply: "1", state: []string{noted}, heard: "1 on latch",
	},
	{
		title: "object forget/what a lock keeps", given: []string{"SET token 41"},
		do: changed("fenced mutex", func(o *script.Object, _ string) driver.Call { return o.Forget(asked) }), reply: "1", state: []string{noted},
	},
	{
		title: "object forget/the lock is held", given: []string{"SET token 41", "HSET N a:1 1", "PEXPIRE N 60000"},
		do: changed("fenced mutex", func(o *script.Object, _ string) driver.Call { return o.Forget(asked) }), reply: "held past",
		state: []string{"N hash a:1=1, TTL 60s", absent, "token string 41"},
	},
	{title: "object delete/nothing is published", do: deleted("latch", false), reply: "0", state: []string{refused}},
}

var objectMoves = []row{
	{title: "object rename/nothing", given: []string{"SET to 9"}, do: renamed(one, true), reply: "held past", state: []string{absent, "to string 9"}},
	{
		title: "object rename/all", given: append(pair(), "EXPIRE N 60", "SET to 9"),
		do: renamed(two, true), reply: "1", state: []string{noted, "to string 1, TTL 60s", "to:allocation string 5"},
	},
	{
		title: "object rename/what the old one lacks", given: []string{"SET N 1", "SET to 9", "SET to:allocation 8"},
		do: renamed(two, true), reply: "1", state: []string{noted, "to string 1"},
	},
	{
		title: "object rename/memory full", full: true, given: []string{"SET N 1"},
		do: renamed(one, true), reply: "1", state: []string{noted, "to string 1"},
	},
	{
		title: "object rename/foreign data", given: []string{"SET N 1", "HSET to b:1 1"},
		do: renamed(one, true), reply: "WRONGTYPE", state: []string{"N string 1", "to hash b:1=1"},
	},
	{
		title: "object rename/name is taken by a part", given: append(pair(), "SET to:allocation 8"),
		do: renamed(two, false), reply: "0", state: []string{"N string 1", "allocation string 5", refused, "to:allocation string 8"},
	},
	{title: "object rename/name is free", given: pair(), do: renamed(two, false), reply: "1", state: []string{noted, "to string 1", "to:allocation string 5"}},
	{title: "object copy/nothing", do: copied(two, false), reply: "held past", state: []string{absent}},
	{
		title: "object copy/all", given: append(pair(), "EXPIRE N 60"),
		do: copied(two, false), reply: "1",
		state: []string{"N string 1, TTL 60s", "allocation string 5", noted, "to string 1, TTL 60s", "to:allocation string 5"},
	},
	{
		title: "object copy/name is taken by a part", given: append(pair(), "SET to:allocation 8"),
		do: copied(two, false), reply: "0", state: []string{"N string 1", "allocation string 5", refused, "to:allocation string 8"},
	},
	{
		title: "object copy/over another", given: []string{"SET N 1", "SET to 9", "SET to:allocation 8"},
		do: copied(two, true), reply: "1", state: []string{"N string 1", noted, "to string 1"},
	},
	{
		title: "object copy/memory full", full: true, given: []string{"SET allocation 1", "SET to 9"},
		do: copied(two, true), reply: "OOM", state: []string{"allocation string 1", "to string 9"},
	},
	{title: "object move/nothing", do: moved(two), reply: "0", state: []string{refused}},
	{title: "object move/all", given: pair(), do: moved(two), reply: "1", state: []string{noted}},
}

var objectExpiries = []row{
	{title: "object expire/nothing", do: expired(two, 60), reply: "0", state: []string{refused}},
	{title: "object expire/all", given: pair(), do: expired(two, 60), reply: "1", state: []string{"N string 1, TTL 60s", "allocation string 5, TTL 60s", noted}},
	{title: "object expire/memory full", full: true, given: []string{"SET N 1"}, do: expired(one, 60), reply: "1", state: []string{"N string 1, TTL 60s", noted}},
	{title: "object expire/foreign data", given: taken, do: expired(one, 10), reply: "WRONGTYPE", state: []string{"N hash b:1=1, TTL 60s"}},
	{title: "object expire/none, want none", given: []string{"SET N 1"}, do: expired(one, 60, "NX"), reply: "1", state: []string{"N string 1, TTL 60s", noted}},
	{title: "object expire/some, want none", given: []string{"SET N 1 EX 20"}, do: expired(one, 60, "NX"), reply: "0", state: []string{"N string 1, TTL 20s", refused}},
	{title: "object expire/none, want some", given: []string{"SET N 1"}, do: expired(one, 60, "XX"), reply: "0", state: []string{"N string 1", refused}},
	{title: "object expire/some, want some", given: []string{"SET N 1 EX 20"}, do: expired(one, 60, "XX"), reply: "1", state: []string{"N string 1, TTL 60s", noted}},
	{title: "object expire/none, want less", given: []string{"SET N 1"}, do: expired(one, 60, "GT"), reply: "0", state: []string{"N string 1", refused}},
	{title: "object expire/less, want less", given: []string{"SET N 1 EX 20"}, do: expired(one, 60, "GT"), reply: "1", state: []string{"N string 1, TTL 60s", noted}},
	{title: "object expire/more, want less", given: []string{"SET N 1 EX 90"}, do: expired(one, 60, "GT"), reply: "0", state: []string{"N string 1, TTL 90s", refused}},
	{title: "object expire/none, want more", given: []string{"SET N 1"}, do: expired(one, 60, "LT"), reply: "1", state: []string{"N string 1, TTL 60s", noted}},
	{title: "object expire/less, want more", given: []string{"SET N 1 EX 20"}, do: expired(one, 60, "LT"), reply: "0", state: []string{"N string 1, TTL 20s", refused}},
	{title: "object expire/more, want more", given: []string{"SET N 1 EX 90"}, do: expired(one, 60, "LT"), reply: "1", state: []string{"N string 1, TTL 60s", noted}},
	{title: "object expire/none, want some that is more", given: []string{"SET N 1"}, do: expired(one, 60, "XX", "LT"), reply: "0", state: []string{"N string 1", refused}},
	{
		title: "object expire/the name decides for all", given: []string{"SET N 1", "SET allocation 5 EX 20"},
		do: expired(two, 60, "NX"), reply: "1", state: []string{"N string 1, TTL 60s", "allocation string 5, TTL 60s", noted},
	},
	{title: "object expire at/less, want less", given: []string{"SET N 1 EX 600"}, do: expiredAt(one, 3600, "GT"), reply: "1", state: []string{"N string 1, TTL 3600s", noted}},
	{title: "object expire at/more, want less", given: []string{"SET N 1 EX 6000"}, do: expiredAt(one, 3600, "GT"), reply: "0", state: []string{"N string 1, TTL 6000s", refused}},
	{title: "object expire at/past", given: pair(), do: expiredAt(two, -60), reply: "1", state: []string{noted}},
	{title: "object persist/nothing", do: persisted(two), reply: "0", state: []string{refused}},
	{title: "object persist/no end", given: []string{"SET N 1"}, do: persisted(one), reply: "0", state: []string{"N string 1", refused}},
	{
		title: "object persist/all", given: []string{"SET N 1 EX 60", "SET allocation 5 EX 60"},
		do: persisted(two), reply: "1", state: []string{"N string 1", "allocation string 5", noted},
	},
}

var objectDumps = []row{
	{title: "object dump/nothing", do: dumped(two), reply: `["" ""]`},
	{title: "object dump/foreign data", given: taken, do: dumped(one), reply: "WRONGTYPE", state: []string{"N hash b:1=1, TTL 60s"}},
	{title: "object restore/one", do: restored(one, 0, false, dumpA), reply: "1", state: []string{"N string a", noted}},
	{title: "object restore/for a while", do: restored(two, time.Minute, false, dumpA, dumpA), reply: "1", state: []string{"N string a, TTL 60s", "allocation string a, TTL 60s", noted}},
	{title: "object restore/exists in part", given: []string{"SET allocation 5"}, do: restored(two, 0, false, dumpA, dumpA), reply: "0", state: []string{"allocation string 5", refused}},
	{title: "object restore/over another", given: pair(), do: restored(two, 0, true, dumpA, ""), reply: "1", state: []string{"N string a", noted}},
	{title: "object restore/foreign data", given: taken, do: restored(one, 0, true, dumpA), reply: "WRONGTYPE", state: []string{"N hash b:1=1, TTL 60s"}},
	{title: "object restore/damaged in part", given: pair(), do: restored(two, 0, true, dumpA, dumpJunk), reply: "held past", state: []string{"N string 1", "allocation string 5", absent}},
	{title: "object restore/another type", do: restored("leased semaphore", 0, true, dumpA, dumpA), reply: "held past", state: []string{absent}},
	{title: "object restore/memory full", full: true, given: pair(), do: restored(two, 0, true, dumpA, dumpA), reply: "OOM", state: []string{"N string 1", "allocation string 5"}},
}

func TestObject(t *testing.T) { check(t, objectRows) }

// What differs between runs, or is too long for a row.
func TestObjectSizes(t *testing.T) {
	s := redistest.Start(t)
	d := connect(t, s.URL())
	o := script.NewObject("leased semaphore", "N", "c")
	s.Do(t, "SET", "N", "1")
	s.Do(t, "ZADD", "{N}:timeout", "1", "x")
	n, err := o.Memory(t.Context(), d)
	if want := s.Int(t, "MEMORY", "USAGE", "N") + s.Int(t, "MEMORY", "USAGE", "{N}:timeout"); n != want || err != nil {
		t.Errorf("%d bytes, want %d, %v", n, want, err)
	}
	dump, err := o.Dump(t.Context(), d, "thing")
	if err != nil {
		t.Fatal(err)
	}
	dumps, err := o.Dumps(dump, "thing")
	if err != nil || dumps[0] != s.Do(t, "DUMP", "N") || dumps[1] != s.Do(t, "DUMP", "{N}:timeout") {
		t.Errorf("%q, %v", dumps, err)
	}
	s.Do(t, "SELECT", "1") // where one of the keys is taken
	s.Do(t, "SET", "{N}:timeout", "x")
	s.Do(t, "SELECT", "0")
	if r, err := d.Do(t.Context(), o.Move(asked, 0, 1)); r.Int != 0 || err != nil || len(s.Keys(t)) != 3 { // and the mark
		t.Errorf("moved to where something was: %v, %v, %v", r, err, s.Keys(t))
	}
}

// A package that was changed anywhere is not taken.
func TestDumps(t *testing.T) {
	two := script.NewObject("id generator", "N", "c")
	good := func(dumps ...string) []byte {
		var list []driver.Reply
		for _, d := range dumps {
			list = append(list, driver.Reply{Type: driver.Str, Str: d})
		}
		b, err := two.Dump(t.Context(), canned{driver.Reply{Type: driver.List, List: list}}, "thing")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, want := range [][]string{{"a", "b"}, {"", "b"}, {"a", ""}, {strings.Repeat("x", 1000), "b"}} {
		b := good(want...)
		if got, err := two.Dumps(b, "thing"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q comes back as %q, %v", want, got, err)
		}
		if _, err := two.Dumps(b, "other thing"); err == nil || !strings.Contains(err.Error(), `"thing"`) {
			t.Errorf("taken as another kind: %v", err)
		}
		for i := range b {
			changed := bytes.Clone(b)
			changed[i] ^= 4
			if _, err := two.Dumps(changed, "thing"); err == nil {
				t.Errorf("changed at byte %d, and taken", i)
			}
			if _, err := two.Dumps(b[:i], "thing"); err == nil {
				t.Errorf("cut to %d bytes, and taken", i)
			}
		}
	}
	if b := good("", ""); b != nil {
		t.Errorf("dump of nothing: %q", b)
	}
}

func FuzzDumps(f *testing.F) {
	f.Add([]byte("\x01\x05thing"))
	o := script.NewObject("id generator", "N", "c")
	f.Fuzz(func(t *testing.T, b []byte) {
		if dumps, err := o.Dumps(b, "thing"); err == nil && (len(dumps) != 2 || fmt.Sprint(dumps) == "[ ]") {
			t.Errorf("%q gives %q", b, dumps)
		}
	})
}

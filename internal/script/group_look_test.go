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

// takeParts runs a group of these locks for one owner.
func takeParts(ctx context.Context, d driver.Driver, claim script.Claim, parts ...part) (script.Verdict, error) {
	var claims, frees []driver.Call
	for _, p := range parts {
		claims = append(claims, p.Claim(claim))
		frees = append(frees, p.Free(claim.Owner))
	}
	return takeGroup(ctx, d, claims, frees)
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
	for _, name := range []string{"mutex_acquire", "fenced_acquire", "rwmutex_read_acquire", "rwmutex_write_acquire", "mutex_release", "rwmutex_read_release", "rwmutex_write_release", "lib/rwmutex"} {
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

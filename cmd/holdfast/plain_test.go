package main_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestPlain checks that the commands show the lock of another library, a string with a TTL,
// neither delete it nor print its value, and list such strings only on request.
func TestPlain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const secret = "c2VjcmV0"
	s.Do(t, "SET", "order:1", secret, "NX", "PX", "600000")
	s.Do(t, "SET", "order:2", "7", "NX", "PX", "600000") // a number, as of a semaphore
	s.Do(t, "SET", "session", secret)
	lsHold(t, lsOpen(t, s).Mutex("order:3"))
	url := []string{"--url", s.URL()}
	try := func(status int, out, err string, args ...string) string {
		t.Helper()
		r := execute(t, append(args, url...)...)
		r.want(t, status, out, err)
		if strings.Contains(r.out+r.err, secret) {
			t.Errorf("%q prints the value: %s%s", args, r.out, r.err)
		}
		return r.out
	}
	execute(t, "run", "order:1", "--wait", "0", "--url", s.URL(), "--", "true").want(t, 120, "", "another library")

	for _, name := range []string{"order:1", "order:2"} {
		try(0, `^`+name+`\n  kind +plain\n  held by +another library, unless it is other data\n +a string with a TTL, as SET NX PX writes it, expires in 9m\d\ds\n$`, "", "show", name)
		lock := lsDecode[lsLock](t, try(0, "*", "", "show", name, "--json"))
		if lock.Kind != "plain" || len(lock.Holders) != 1 || lock.Holders[0].Owner != "" || *lock.Holders[0].ExpiresInMs < 500_000 || lock.Clients != nil || lock.Similar != nil {
			t.Errorf("%+v", lock)
		}
		try(1, "", `^holdfast: lock not broken: `+name+` is the lock of another library \(a string with a TTL\), or other data\nIt expires in 9m\d\ds unless it is extended\. .*DEL`, "unlock", name, "--force", "--yes")
		try(1, `^\{"broken":false,"lock":\{"name":"`+name+`","kind":"plain",`, "lock not broken", "unlock", name, "--force", "--yes", "--json")
		if s.Int(t, "EXISTS", name) != 1 {
			t.Error("unlock has deleted a string")
		}
	}
	try(1, "", "session is not a lock", "show", "session")

	try(0, `^NAME [^\n]*\norder:3 [^\n]*\n$`, "", "ls")
	try(0, `^NAME [^\n]*\norder:1 +plain +another library +9m\d\ds +\?\norder:2 +plain [^\n]*\norder:3 +mutex [^\n]*\n$`, "", "ls", "--plain")
	try(0, `^NAME [^\n]*\norder:2 +plain [^\n]*\n$`, "", "ls", "--plain", "*2")
	try(0, "", `^No locks are held that match none\.\n$`, "ls", "--plain", "none")
	try(0, `^NAME [^\n]*\norder:[12] [^\n]*\norder:3 [^\n]*\n$`, `There may be more: ls stopped after 2 locks`, "ls", "--plain", "--limit", "2")
	try(0, `3 locks, 3 holders.*order:1 +plain `, "", "watch", "--plain", "--count", "1")
	if list := lsDecode[lsDocument](t, try(0, "*", "", "ls", "--plain", "--json")); !list.Complete || len(list.Locks) != 3 || list.Locks[0].Kind != "plain" {
		t.Errorf("%+v", list)
	}
}

package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestAbsent checks that show and unlock tell a name that the server does not know from a lock,
// and suggest similar names.
func TestAbsent(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	hold := func(name string) {
		s.Do(t, "HSET", name, "a:1", "1")
		s.Do(t, "PEXPIRE", name, "600000")
	}
	for _, name := range []string{"orders", "order:42", "order:43", "shop:billing", "Invoices", "x\x1b[2J", strings.Repeat("long", 100)} {
		hold(name)
	}
	for name, want := range map[string][]string{
		"ordres":                    {"orders"},
		"orderss":                   {"orders"},
		"order:4":                   {"order:42", "order:43", "orders"},
		"invoices":                  {"Invoices"},
		"billing":                   {"shop:billing"},
		"x":                         {},
		"nothing like it":           {},
		strings.Repeat("long", 101): {},
		"[2J":                       {"x\x1b[2J"},
		"order*":                    {"orders"},
	} {
		text := `^holdfast: no lock \S.*: the name is wrong, or the lock is free and keeps no data on the server\n`
		switch {
		case name == "[2J":
			text += `Did you mean x\\x1b\[2J\?\n$`
		case len(want) > 0:
			text += `Did you mean ` + strings.Join(want, " or ") + `\?\n$`
		default:
			text += `Run holdfast ls to list the locks\.\n$`
		}
		commands := [][]string{{"show", name}}
		if name == "ordres" || name == "x" {
			commands = append(commands, []string{"unlock", name, "--force", "--yes"})
		}
		for _, args := range commands {
			r := execute(t, append(args, "--json", "--url", s.URL())...)
			r.want(t, 123, `^\{.*"name":.*\}\n$`, text)
			got := lsDecode[struct {
				lsLock
				Broken bool
				Lock   lsLock
			}](t, r.out)
			if !slices.Equal(got.Similar, want) || got.Similar == nil || got.Broken {
				t.Errorf("%q: similar are %q, want %q: %s", name, got.Similar, want, r.out)
			}
		}
	}
	execute(t, "show", "ordres", "--url", s.URL()).want(t, 123, "", `^holdfast: no lock ordres: `)
	execute(t, "unlock", "ordres", "--force", "--yes", "--url", s.URL()).want(t, 123, "", `^holdfast: no lock ordres: `)
	execute(t, "show", "job?", "--url", s.URL()).want(t, 123, "", `\nThis command takes a name\. For a pattern, use holdfast ls\.\n$`)

	// A lock without data on the server exists if a client waits for it.
	s.Do(t, "ZADD", queueKey("queue"), "1", "a:1")
	execute(t, "show", "queue", "--url", s.URL()).want(t, 0, `none \(the lock is free\)`, "")
	execute(t, "unlock", "queue", "--force", "--yes", "--url", s.URL()).want(t, 0, `queue is free: nothing to break`, "")
}

// TestAbsentMany checks that a wrong name does not cost more than a few requests on a server
// with many locks.
func TestAbsentMany(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "EVAL", `for i = 1, 50000 do redis.call('hset', 'lock:' .. i, 'a:1', 1) redis.call('pexpire', 'lock:' .. i, 600000) end`, "0")
	r := execute(t, "show", "lock:x", "--url", s.URL())
	r.want(t, 123, "", `^holdfast: no lock lock:x: `)
	if n := strings.Count(r.err, " or lock:"); n > 2 {
		t.Errorf("%d names are suggested: %s", n+1, r.err)
	}
	var calls int
	if _, err := fmt.Sscanf(redistestStat(t, s, "hlen"), "calls=%d", &calls); err != nil || calls > 10_000 {
		t.Errorf("%d of 50,000 hashes were read, %v", calls, err)
	}
}

// redistestStat returns the statistics of a command of the server.
func redistestStat(t *testing.T, s *redistest.Server, command string) string {
	t.Helper()
	_, stat, _ := strings.Cut(s.Do(t, "INFO", "commandstats").(string), "cmdstat_"+command+":")
	return stat
}

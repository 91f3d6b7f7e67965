package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// forbidden are commands that managed services do not permit.
var forbidden = []string{
	"ACL", "BGREWRITEAOF", "BGSAVE", "CONFIG", "DEBUG", "FLUSHALL", "FLUSHDB", "KEYS", "MIGRATE", "MODULE", "MONITOR",
	"PSYNC", "REPLICAOF", "SAVE", "SHUTDOWN", "SLAVEOF", "SLOWLOG", "SWAPDB", "SYNC",
}

// without returns the arguments of a server without some commands.
func without(commands ...string) []string {
	var args []string
	for _, c := range commands {
		args = append(args, "--rename-command", c, "")
	}
	return args
}

// All kinds of locks work on a server without the commands that managed services
// forbid, and without CLIENT.
func TestForbiddenCommands(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{"RESP3": "", "RESP2": "?protocol=2", "named": "?client_name=shop"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, without(append(forbidden, "CLIENT")...)...)
			kinds(t, s, s.URL()+query)
		})
	}
}

// kinds runs all kinds of locks and synchronizers on a server: acquire, wait for
// a message, renew, release.
func kinds(t *testing.T, s *redistest.Server, url string) {
	ctx := t.Context()
	a, b := open(t, config(t, url)), open(t, config(t, url))
	for name, of := range map[string]func(c *holdfast.Client) holdfast.Locker{
		"mutex":  func(c *holdfast.Client) holdfast.Locker { return c.Mutex("mutex") },
		"fair":   func(c *holdfast.Client) holdfast.Locker { return c.FairMutex("fair") },
		"fenced": func(c *holdfast.Client) holdfast.Locker { return c.FencedMutex("fenced") },
		"writer": func(c *holdfast.Client) holdfast.Locker { return c.RWMutex("rw") },
		"permits": func(c *holdfast.Client) holdfast.Locker {
			return c.LeasedSemaphore("permits", holdfast.WithPermits(1)).Locker(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := locktest.Lock(t, ctx, of(a))
			w := wait(ctx, of(b))
			locktest.Eventually(t, patience, "a subscription", func() bool { return len(s.Strings(t, "PUBSUB", "CHANNELS")) > 0 })
			renewed(t, held)
			select {
			case <-w.done:
				t.Fatalf("no exclusion: %v", w.err)
			default:
			}
			locktest.Release(t, held)
			locktest.Release(t, w.granted(t))
		})
	}
	t.Run("others", func(t *testing.T) {
		t.Parallel()
		l := locktest.NewLatch(t, a, "latch", 1)
		locktest.CountDown(t, l, 0)
		if _, err := object.NewAtomicLong(a, "number").Add(ctx, 1); err != nil {
			t.Error(err)
		}
		if err := a.Election("leader").Lead(ctx, "me", func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// Check names what it could not see, and finds nothing wrong because of it.
func TestCheckForbidden(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, append(without(append(forbidden, "CLIENT", "WAIT")...), "--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")...)
	c := openIn(t, s.URL(), holdfast.Async)
	fs, err := c.Check(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if f.Severity > holdfast.SeverityInfo && f.Topic != "restart" {
			t.Errorf("a problem: %v", f)
		}
	}
	if !slices.ContainsFunc(fs, func(f holdfast.Finding) bool {
		return f.Topic == "settings" && strings.Contains(f.Text, "not checked: persistence (appendfsync)") && strings.Contains(f.Text, "unknown command")
	}) {
		t.Errorf("no finding says that the settings are hidden: %v", fs)
	}
}

// Without the right to run INFO, CONFIG, CLIENT and ACL, locks work, and Check says
// what it could not see.
func TestWithoutInfo(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithUser("app", first, "~*", "&*", "+@all", "-info", "-config", "-client", "-acl"))
	c := open(t, config(t, s.URL()+"?client_name=shop"))
	locktest.Release(t, locktest.Lock(t, t.Context(), c.Mutex("m")))
	fs, err := c.Check(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if len(fs) == 0 || fs[0].Topic != "rights" || !strings.Contains(fs[0].Text, "'info'") {
		t.Errorf("Check does not say that INFO is refused: %v", fs)
	}
}

// A command that scripts need and the server does not have is an error that names
// it. Check names it, too.
func TestRenamedCommands(t *testing.T) {
	t.Parallel()
	for command, tt := range map[string]struct{ lock, check string }{
		"EVALSHA":   {"unknown command 'EVALSHA'", "unknown command 'EVALSHA'"},
		"EVAL":      {"unknown command 'EVAL'", "unknown command 'EVAL'"},
		"PEXPIRE":   {"the server does not have PEXPIRE, which the script mutex_acquire calls", "need: pexpire"},
		"HSET":      {"the server does not have HSET", "need: hset"},
		"PTTL":      {"the server does not have PTTL", "need: pttl"},
		"PUBLISH":   {"", "need: publish"},
		"SUBSCRIBE": {"", "unknown command 'SUBSCRIBE'"},
		"HELLO":     {"", ""},
		"WAIT":      {"", ""},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--rename-command", command, "x-"+command)
			c := open(t, config(t, s.URL()))
			l, err := c.Mutex("m").Lock(t.Context())
			switch {
			case tt.lock == "" && err == nil:
				locktest.Release(t, l)
			case tt.lock == "" || !errors.Is(err, holdfast.ErrRefused) || !strings.Contains(err.Error(), tt.lock):
				t.Errorf("%v, want %q", err, tt.lock)
			}
			fs, err := c.Check(t.Context(), "m")
			if err != nil {
				t.Fatal(err)
			}
			if found := fs[0].Severity == holdfast.SeverityDanger; found != (tt.check != "") || !strings.Contains(fs[0].Text, tt.check) {
				t.Errorf("Check found %v, want %q", fs, tt.check)
			}
		})
	}
}

// losesLua returns the URL of a server, and a function that removes its Lua engine. Only
// Valkey since 9.1 can run without Lua. Instead of another server, it starts one that
// sends Valkey's reply.
func losesLua(t *testing.T) (url string, remove func()) {
	t.Helper()
	if modules, err := redistest.Start(t).Try("MODULE", "LIST"); err != nil || !strings.Contains(fmt.Sprint(modules), "lua") {
		f := drivertest.NewForger(t, false, "EVALSHA", "-ERR Could not find scripting engine 'lua'\r\n")
		return "redis://" + f.Addr().String(), func() { f.Arm(true) }
	}
	s := redistest.Start(t, "--enable-module-command", "yes")
	return s.URL(), func() { s.Do(t, "MODULE", "UNLOAD", "lua") }
}

// On a server without Lua, Open fails, and so does every call of a client that is open.
// The errors and Check say what to change.
func TestWithoutLua(t *testing.T) {
	t.Parallel()
	const lacks, advice = "the server has no Lua engine", "loadmodule"
	url, remove := losesLua(t)
	c := open(t, config(t, url))
	remove()
	_, lock := c.Mutex("m").Lock(t.Context())
	_, again := holdfast.Open(t.Context(), url, nil)
	for op, err := range map[string]error{"Lock": lock, "Open": again} {
		if !errors.Is(err, holdfast.ErrRefused) || !errors.Is(err, driver.ErrNoLua) || !strings.Contains(err.Error(), lacks) || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v", op, err)
		}
	}
	fs, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := fs[0]; f.Severity != holdfast.SeverityDanger || f.Topic != "commands" || !strings.Contains(f.Text, lacks) || !strings.Contains(f.Change, advice) {
		t.Errorf("Check found %v", fs)
	}
}

package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// all returns the documented rights for names that begin with app:, those of
// locks and of all features.
func all(cluster bool) (keys, channels, commands []string) {
	for _, f := range append([]script.Feature{""}, script.Features...) {
		k, ch, c := check.Rule(f, "app:", 0, cluster)
		keys, channels, commands = append(keys, k...), append(channels, ch...), append(commands, c...)
	}
	slices.Sort(commands)
	return keys, channels, slices.Compact(commands)
}

// rule returns all of them but for some.
func rule(cluster bool, without ...string) []string {
	keys, channels, commands := all(cluster)
	rule := slices.Concat(keys, []string{"resetchannels"}, channels, []string{"-@all"}, commands)
	if !redistest.HasSharded() {
		without = append(without, "+spublish", "+ssubscribe", "+sunsubscribe")
	}
	return slices.DeleteFunc(rule, func(right string) bool { return slices.Contains(without, right) })
}

var ours = []string{"app:some", "app:{other}"}

// as connects as a user who has the documented rights, but for some.
func as(t *testing.T, s *redistest.Server, without ...string) driver.Driver {
	t.Helper()
	user := "app"
	s.Do(t, slices.Concat([]string{"ACL", "SETUSER", user, "reset", "on", ">secret"}, rule(false, without...))...)
	return connect(t, "redis://app:secret@"+s.Addr())
}

// A user with the documented rights gets no finding. If a right is missing, the
// finding names it.
func TestEachRight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, good...)
	wants := check.Wants{Mode: check.Acked}
	if fs := run(t, as(t, s), wants, ours...); len(fs) != 0 {
		t.Fatalf("with all rights: %+v", fs)
	}
	_, _, needed := check.Rule("", "app:", 0, false)
	_, _, commands := all(false)
	for _, right := range commands {
		t.Run(right, func(t *testing.T) {
			fs := run(t, as(t, s, right), wants, ours...)
			granted := func(f check.Finding) bool {
				return slices.Contains(strings.Fields(strings.ReplaceAll(f.Change, ",", " ")), right)
			}
			if !slices.ContainsFunc(fs, granted) {
				t.Fatalf("no finding says to grant it: %+v", fs)
			}
			if more := slices.DeleteFunc(slices.Clone(fs), granted); len(more) != 0 {
				t.Errorf("wrong findings: %+v", more)
			}
			for _, f := range fs {
				if need := slices.Contains(needed, right); need != (f.Severity > check.Info) {
					t.Errorf("locks need %s: %v; and found: %+v", right, need, f)
				}
			}
			// Following the advice helps.
			give(t, s, fs[0])
			if fs := run(t, connect(t, "redis://app:secret@"+s.Addr()), wants, ours...); len(fs) != 0 {
				t.Errorf("granted, and still found: %+v", fs)
			}
		})
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("keys left: %q", keys)
	}
}

// give does what a finding says.
func give(t *testing.T, s *redistest.Server, f check.Finding) {
	t.Helper()
	_, rights, ok := strings.Cut(f.Change, "ACL SETUSER <user> ")
	rights, _, _ = strings.Cut(rights, ",")
	if !ok {
		t.Fatalf("it does not say what to grant: %+v", f)
	}
	s.Do(t, slices.Concat([]string{"ACL", "SETUSER", "app"}, strings.Fields(rights))...)
}

// If a key or channel pattern is missing, the finding names it.
func TestEachPattern(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, good...)
	keys, channels, _ := all(false)
	for _, right := range slices.Concat(keys, channels) {
		t.Run(right, func(t *testing.T) {
			fs := run(t, as(t, s, right), check.Wants{}, ours...)
			begin := strings.TrimSuffix(right, "*")
			if len(fs) == 0 || slices.ContainsFunc(fs, func(f check.Finding) bool { return !strings.Contains(f.Change, " "+begin) }) {
				t.Fatalf("found %+v", fs)
			}
			for _, f := range fs {
				give(t, s, f)
			}
			if fs := run(t, connect(t, "redis://app:secret@"+s.Addr()), check.Wants{}, ours...); len(fs) != 0 {
				t.Errorf("granted, and still found: %+v", fs)
			}
		})
	}
}

// Without names, the check does not know which keys the user needs. It tests the
// commands nevertheless.
func TestRightsWithoutNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, good...)
	fs := run(t, as(t, s), check.Wants{})
	want{"rights", "info", "names"}.check(t, fs)
	fs = topic(run(t, as(t, s, "+hset"), check.Wants{}), "rights")
	if len(fs) != 2 || fs[0].Severity != check.Danger || !strings.HasSuffix(fs[0].Change, "+hset") {
		t.Errorf("found %+v", fs)
	}
	s.Do(t, "ACL", "SETUSER", "app", "allkeys", "allchannels")
	want{"rights", "danger", "+hset"}.check(t, run(t, connect(t, "redis://app:secret@"+s.Addr()), check.Wants{}))
}

// A user of a cluster needs some more rights, on every node.
func TestRightsInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithUser("app", "secret", rule(true)...),
		redistest.Args(append([]string{"--cluster-require-full-coverage", "no"}, good...)...))
	d := connect(t, c.URL())
	names := []string{"app:a", "app:b", "app:c", "app:d", "app:e", "app:f"}
	if fs := topic(run(t, d, check.Wants{}, names...), "rights"); len(fs) != 0 {
		t.Fatalf("with all rights: %+v", fs)
	}
	publish, subscribe := "publish", "subscribe"
	if redistest.HasSharded() {
		publish, subscribe = "spublish", "ssubscribe"
	}
	for _, right := range []string{"hset", publish, subscribe} {
		for _, m := range c.Masters() {
			t.Run(right, func(t *testing.T) {
				m.Do(t, "ACL", "SETUSER", "app", "-"+right)
				fs := topic(run(t, d, check.Wants{}, names...), "rights")
				want{"rights", map[bool]string{true: "warning", false: "danger"}[right == subscribe], "+" + right}.check(t, fs)
				if len(fs) > 0 && fs[0].Node != m.Addr() {
					t.Errorf("the wrong node: %+v", fs)
				}
				// Following the advice helps, also on a server without sharded channels.
				give(t, m, fs[0])
				if fs := topic(run(t, d, check.Wants{}, names...), "rights"); len(fs) != 0 {
					t.Errorf("granted, and still found: %+v", fs)
				}
			})
		}
	}
}

// A cluster before 7.0 lacks SPUBLISH. A client that must use it is told to use another.
func TestShardedOnOldServers(t *testing.T) {
	t.Parallel()
	if redistest.HasSharded() {
		t.Skip("the server has sharded channels")
	}
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithMasters(1))
	for query, w := range map[string]want{"?sharded=on": {"commands", "danger", "sharded=auto"}, "": {topic: "commands"}, "?sharded=off": {topic: "commands"}} {
		w.check(t, run(t, connect(t, c.URL()+query), check.Wants{}, "app:a"))
	}
}

// The advice names only commands that the server has: ACL SETUSER refuses others.
func TestRightsToPublish(t *testing.T) {
	for _, c := range []struct {
		version string
		cluster bool
		want    []string
	}{
		{"6.2.14", true, []string{"+publish"}},
		{"7.0.15", true, []string{"+publish", "+spublish"}},
		{"8.0.6", true, []string{"+publish", "+spublish"}},
		{"8.0.6", false, []string{"+publish"}},
	} {
		if got := check.Publishing(driver.Facts{Version: c.version, Cluster: c.cluster}); !slices.Equal(got, c.want) {
			t.Errorf("version %s, cluster %v: %q, want %q", c.version, c.cluster, got, c.want)
		}
	}
}

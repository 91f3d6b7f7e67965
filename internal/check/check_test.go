package check_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func connect(t *testing.T, url string) driver.Driver {
	t.Helper()
	c, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c.Timeout = 20 * time.Second // the usual 2 s may pass while a busy machine stands still
	d, err := rueidis.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// run checks the servers behind a driver. It leaves out that an old server has no
// sharded channels; TestVersions checks that.
func run(t *testing.T, d driver.Driver, w check.Wants, names ...string) []check.Finding {
	t.Helper()
	fs, err := check.Run(t.Context(), d, w, names)
	if err != nil {
		t.Fatal(err)
	}
	worst := check.Danger
	for _, f := range fs {
		if f.Node == "" || f.Topic == "" || f.Text == "" || f.Change == "" {
			t.Errorf("a finding says too little: %+v", f)
		}
		if f.Severity > worst {
			t.Errorf("not the worst first: %+v", fs)
		}
		worst = f.Severity
	}
	return slices.DeleteFunc(fs, func(f check.Finding) bool { return f.Topic == "version" && !redistest.HasSharded() })
}

// topic returns the findings of a topic.
func topic(fs []check.Finding, name string) []check.Finding {
	return slices.DeleteFunc(slices.Clone(fs), func(f check.Finding) bool { return f.Topic != name })
}

// A want is a finding to be, or, without a severity, not to be.
type want struct {
	topic    string
	severity string // "danger"
	change   string // is part of what is to be changed
}

var severities = map[string]check.Severity{"info": check.Info, "warning": check.Warning, "danger": check.Danger}

func (w want) check(t *testing.T, fs []check.Finding) {
	t.Helper()
	found := topic(fs, w.topic)
	switch {
	case w.severity == "" && len(found) == 0:
	case w.severity != "" && len(found) == 1 && found[0].Severity == severities[w.severity] && strings.Contains(found[0].Change, w.change):
	default:
		t.Errorf("of %s: %+v, want %q, change %q", w.topic, found, w.severity, w.change)
	}
}

var good = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestSettings(t *testing.T) {
	t.Parallel()
	strict := check.Wants{Mode: check.Strict, Required: 1}
	for _, tt := range []struct {
		name  string
		args  []string
		wants check.Wants
		want  want
	}{
		{"no limit of memory", []string{"--maxmemory-policy", "allkeys-lru"}, strict, want{topic: "memory"}},
		{"full", []string{"--maxmemory", "100mb"}, strict, want{topic: "memory"}},
		{"evicts all", []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, strict, want{"memory", "danger", "maxmemory-policy noeviction"}},
		{"evicts what has a TTL", []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, strict, want{"memory", "danger", "maxmemory-policy noeviction"}},
		{"on disk", good, strict, want{topic: "persistence"}},
		{"not on disk", nil, strict, want{"persistence", "warning", "appendonly yes"}},
		{"snapshots", []string{"--save", "3600 1"}, strict, want{"persistence", "warning", "appendonly yes"}},
		{"every second", []string{"--appendonly", "yes", "--appendfsync", "everysec"}, strict, want{"persistence", "info", "appendfsync always"}},
		{"when it likes", []string{"--appendonly", "yes", "--appendfsync", "no"}, strict, want{"persistence", "warning", "appendfsync always"}},
		{"too few replicas", nil, strict, want{"replicas", "danger", "connect"}},
		{"never had a replica", nil, check.Wants{Mode: check.Acked}, want{topic: "replicas"}},
		{"came up lately", nil, check.Wants{Lease: time.Hour}, want{"restart", "warning", "time"}},
		{"came up lately with all", good, check.Wants{Lease: time.Hour}, want{"restart", "info", "time"}},
		{"came up long ago", nil, check.Wants{Lease: 0}, want{topic: "restart"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := redistest.Start(t, tt.args...)
			tt.want.check(t, run(t, connect(t, s.URL()), tt.wants))
		})
	}
}

// There is nothing to say of a good server.
func TestGoodServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, good...)
	if fs := run(t, connect(t, s.URL()), check.Wants{Mode: check.Acked}, "some", "other:{1}"); len(fs) != 0 {
		t.Errorf("found %+v", fs)
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("keys left: %q", keys)
	}
	eventually(t, "no channel is left", func() bool { return len(s.Channels(t)) == 0 })
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	if !redistest.Poll(30*time.Second, cond) {
		t.Fatalf("not in time: %s", what)
	}
}

// A server that hides its settings from the user says in INFO whether it evicts,
// and whether it has an append-only file. Check names the rest as not checked.
func TestHiddenSettings(t *testing.T) {
	t.Parallel()
	hiding := []redistest.Option{redistest.WithUser("app", "secret", "~*", "&*", "+@all", "-config")}
	s := redistest.StartWith(t, append(hiding, redistest.Args("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))...)
	fs := run(t, connect(t, s.URL()), check.Wants{})
	want{"memory", "danger", "noeviction"}.check(t, fs)
	want{"persistence", "warning", "appendonly yes"}.check(t, fs)
	want{topic: "settings"}.check(t, fs)

	s = redistest.StartWith(t, append(hiding, redistest.Args(good...))...)
	fs = run(t, connect(t, s.URL()), check.Wants{})
	want{topic: "memory"}.check(t, fs)
	want{topic: "persistence"}.check(t, fs)
	want{"settings", "info", "ACL SETUSER <user> +config|get, as an alternative, lets this user read all settings, including passwords"}.check(t, fs)
	if found := topic(fs, "settings"); len(found) != 1 || !strings.HasPrefix(found[0].Text, "not checked: persistence (appendfsync)") {
		t.Errorf("found %+v", found)
	}
}

// On a server without the command CONFIG no right helps.
func TestNoConfigCommand(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.Args(append([]string{"--rename-command", "CONFIG", ""}, good...)...))
	fs := run(t, connect(t, s.URL()), check.Wants{})
	want{"settings", "info", "in the configuration of the server"}.check(t, fs)
	if found := topic(fs, "settings"); len(found) == 1 && (strings.Contains(found[0].Change, "ACL") || !strings.Contains(found[0].Text, "unknown command")) {
		t.Errorf("found %+v", found)
	}
}

// Of a replica that hides its settings, and of a cluster, Check says what it has
// not seen.
func TestNotChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		w    check.Wants
		f    driver.Facts
		want string
	}{
		"nothing known":   {check.Wants{}, driver.Facts{}, "not checked: memory (maxmemory); persistence (appendonly)"},
		"replicas":        {check.Wants{Mode: check.Acked}, driver.Facts{Replicas: 1}, "min-replicas (min-replicas-to-write, min-replicas-max-lag)"},
		"cluster":         {check.Wants{}, driver.Facts{Cluster: true}, "coverage (cluster-require-full-coverage)"},
		"strange in INFO": {check.Wants{}, driver.Facts{Info: map[string]string{"aof_enabled": "2"}}, "persistence (appendonly)"},
	} {
		tt.f.Node, tt.f.Role, tt.f.Version = "n", "master", "7.0.0"
		found := topic(check.Settings(tt.w, tt.f), "settings")
		if len(found) != 1 || !strings.Contains(found[0].Text, tt.want) {
			t.Errorf("%s: found %+v, want %q", name, found, tt.want)
		}
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1, redistest.Args(good...))
	master, replica := r.Master(), r.Replicas()[0]
	d := connect(t, master.URL())
	strict := func(n int) check.Wants { return check.Wants{Mode: check.Strict, Required: n} }
	fs := run(t, d, strict(1))
	want{topic: "replicas"}.check(t, fs)
	want{topic: "links"}.check(t, fs)
	want{topic: "role"}.check(t, fs)
	want{"min-replicas", "warning", "min-replicas-to-write 1"}.check(t, fs)
	want{"replicas", "danger", "connect"}.check(t, run(t, d, strict(2)))

	fs = run(t, d, check.Wants{Mode: check.Acked})
	want{topic: "replicas"}.check(t, fs)
	want{"min-replicas", "info", "min-replicas-to-write 1"}.check(t, fs)
	fs = run(t, d, check.Wants{Mode: check.Async})
	want{"replicas", "info", "Acked"}.check(t, fs)
	want{topic: "min-replicas"}.check(t, fs)

	for _, before := range [][2]string{{"0", "10"}, {"1", "0"}, {"0", "0"}} {
		master.Do(t, "CONFIG", "SET", "min-replicas-to-write", before[0])
		master.Do(t, "CONFIG", "SET", "min-replicas-max-lag", before[1])
		found := topic(run(t, d, strict(1)), "min-replicas")
		if len(found) != 1 {
			t.Fatalf("%v: %+v", before, found)
		}
		commands, _, _ := strings.Cut(found[0].Change, ";")
		for command := range strings.SplitSeq(commands, " and ") {
			words := strings.Fields(command)
			if len(words) != 4 { // servers before 7.0 change one setting at a time
				t.Fatalf("%q", command)
			}
			master.Do(t, words...)
		}
		want{topic: "min-replicas"}.check(t, run(t, d, strict(1)))
	}
	if lag := master.Strings(t, "CONFIG", "GET", "min-replicas-max-lag")[1]; lag != "10" {
		t.Errorf("min-replicas-max-lag is %s", lag)
	}

	want{"role", "danger", "master"}.check(t, run(t, connect(t, replica.URL()), check.Wants{}))

	replica.Pause()
	eventually(t, "the replica lags", func() bool { return len(topic(run(t, d, strict(1)), "links")) == 1 })
	want{"links", "warning", "network"}.check(t, run(t, d, strict(1)))
	replica.Resume()
	replica.Stop()
	eventually(t, "the replica is gone", func() bool {
		return len(topic(run(t, d, check.Wants{Mode: check.Acked}), "replicas")) == 1
	})
	want{"replicas", "warning", "start"}.check(t, run(t, d, check.Wants{Mode: check.Acked}))
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, s.URL())
	s.Stop()
	fs := run(t, d, check.Wants{}, "some")
	want{"answer", "danger", "start"}.check(t, fs)
	if len(fs) != 1 {
		t.Errorf("more is known of a server that does not answer: %+v", fs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if fs, err := check.Run(ctx, d, check.Wants{}, nil); err == nil {
		t.Errorf("found %v when there was no time", fs)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if fs, err := check.Run(t.Context(), d, check.Wants{}, nil); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("on a closed driver: %v, %v", fs, err)
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.WithClock())
	d := connect(t, c.URL())
	skew := check.Wants{Skew: 3 * time.Second}
	fs := run(t, d, skew)
	want{topic: "clock"}.check(t, fs)
	want{topic: "skew"}.check(t, fs)

	fast := c.Masters()[1]
	fast.MoveClock(2 * time.Second)
	fs = run(t, d, skew)
	want{"clock", "warning", "NTP"}.check(t, fs)
	want{topic: "skew"}.check(t, fs)
	want{"skew", "warning", "NTP"}.check(t, run(t, d, check.Wants{}))

	c.Masters()[0].MoveClock(-2 * time.Second)
	fs = run(t, d, skew)
	want{"skew", "danger", "NTP"}.check(t, fs)
	if found := topic(fs, "skew"); len(found) == 1 && found[0].Node != fast.Addr() {
		t.Errorf("the wrong server: %+v", found)
	}
	if found := topic(fs, "clock"); len(found) != 2 || !strings.Contains(found[0].Text+found[1].Text, "behind") {
		t.Errorf("two clocks are wrong, found %+v", found)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.WithReplicas(0), redistest.Args(good...))
	d := connect(t, c.URL())
	fs := run(t, d, check.Wants{}, "some", "other:{1}")
	if found := topic(fs, "coverage"); len(found) != 3 || len(fs) != 3 {
		t.Errorf("three servers want full coverage, found %+v", fs)
	}
	for _, m := range c.Masters() {
		m.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	if fs := run(t, d, check.Wants{}, "some", "other:{1}"); len(fs) != 0 {
		t.Errorf("found %+v", fs)
	}
	for _, m := range c.Masters() {
		if keys := m.Keys(t); len(keys) != 0 {
			t.Errorf("keys left: %q", keys)
		}
	}
	c.Masters()[2].Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
	c.Masters()[0].Stop()
	c.Watchful()
	eventually(t, "the cluster is down", func() bool {
		fs := run(t, d, check.Wants{})
		return len(topic(fs, "answer")) == 2 && strings.Contains(topic(fs, "answer")[0].Text+topic(fs, "answer")[1].Text, "CLUSTERDOWN")
	})
}

func TestVersions(t *testing.T) {
	for version, w := range map[string]want{
		"5.0.14": {"version", "danger", "6.2"},
		"6.0.20": {"version", "info", "later"},
		"6.2.14": {"version", "info", "later"},
		"7.0.15": {topic: "version"},
		"7.2.4":  {topic: "version"},
		"":       {"version", "info", "Redis"},
	} {
		w.check(t, check.Settings(check.Wants{}, driver.Facts{Node: "n", Version: version, Role: "master"}))
	}
}

// A blind driver gets no answer to INFO from its server.
type blind struct{ driver.Driver }

func (b blind) Facts(context.Context, ...string) []driver.Facts {
	return []driver.Facts{{Node: b.Place("").Node, Err: driver.ServerError("ERR unknown command 'INFO'")}}
}

// A server without INFO works, and its rights are checked.
func TestServerWithoutInfo(t *testing.T) {
	t.Parallel()
	s := redistest.StartWith(t, redistest.WithUser("app", "secret", "~*", "&*", "+@all", "-pexpire"))
	fs := run(t, blind{connect(t, s.URL())}, check.Wants{Mode: check.Async}, "m")
	if found := topic(fs, "settings"); len(found) != 1 || found[0].Severity != check.Warning || !strings.Contains(found[0].Text, "'INFO'") {
		t.Errorf("found %+v", fs)
	}
	if found := topic(fs, "rights"); len(found) == 0 || !strings.Contains(found[0].Text, "pexpire") {
		t.Errorf("the rights were not checked: %+v", fs)
	}
}

// Of a system that is not supported, Check says only that: the other findings
// are about Redis and Valkey.
func TestUnsupportedSystems(t *testing.T) {
	t.Parallel()
	others := map[string]redistest.Other{
		"Codis":                     redistest.Recorded["Codis de1ad02"],
		"KeyDB with active-replica": redistest.Recorded["KeyDB 603ebb2, active-replica yes"],
	}
	maps.Copy(others, redistest.Documented)
	for name, o := range others {
		fs := run(t, connect(t, "redis://"+o.Play(t)+"?protocol=2"), check.Wants{Mode: check.Strict, Required: 1}, "some")
		want{"system", "danger", "use Redis or Valkey"}.check(t, fs)
		if len(fs) != 1 || !strings.HasPrefix(fs[0].Text, "the server is "+name+", which is not supported: ") {
			t.Errorf("%s: %+v", name, fs)
		}
	}
}

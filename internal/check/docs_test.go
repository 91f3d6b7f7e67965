package check_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// documented returns the commands in docs/operations.md that give rights to a
// user, up to and after the heading of a topology.
func documented(t *testing.T, user string) (all [][]string, inCluster [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	plain, cluster, ok := strings.Cut(string(text), "**Cluster.**")
	if !ok {
		t.Fatal("no word about clusters")
	}
	lines := func(text string) (cs [][]string) {
		for line := range strings.Lines(text) {
			if words := strings.Fields(line); strings.HasPrefix(line, "ACL SETUSER "+user+" ") {
				cs = append(cs, words)
			}
		}
		return cs
	}
	return lines(plain), lines(cluster)
}

// What the documentation tells to type in is the rule, no more and no less, and
// it is enough.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	single, more := documented(t, "app")
	for _, cluster := range []bool{false, true} {
		commands := single
		if cluster {
			commands = slices.Concat(single, more)
		}
		var said []string
		for _, c := range commands {
			said = append(said, c[3:]...)
		}
		said = slices.DeleteFunc(said, func(s string) bool { return slices.Contains([]string{"reset", "on", ">secret", "+role"}, s) })
		keys, channels, rights := check.Rule("app:", 0, cluster)
		rule := slices.Concat(keys, channels, rights)
		for _, right := range rule {
			if !slices.Contains(said, right) {
				t.Errorf("docs/operations.md does not grant %s (cluster: %v)", right, cluster)
			}
		}
		for _, right := range said {
			if !slices.Contains(rule, right) {
				t.Errorf("docs/operations.md grants %s, which nobody needs (cluster: %v)", right, cluster)
			}
		}
	}
	s := redistest.Start(t, good...)
	for _, c := range single {
		s.Do(t, c...)
	}
	if fs := run(t, connect(t, "redis://app:secret@"+s.Addr()), check.Wants{Mode: check.Acked}, ours...); len(fs) != 0 {
		t.Errorf("found %+v", fs)
	}
}

// The documented users are enough to find the master by way of sentinels, also
// after a failover.
func TestDocumentedRightsOfSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t, redistest.WithReplicas(1))
	single, _ := documented(t, "app")
	for _, s := range g.Nodes() {
		for _, c := range single {
			s.Do(t, c...)
		}
	}
	watcher, _ := documented(t, "watcher")
	if len(watcher) != 1 {
		t.Fatalf("the rights at sentinels: %q", watcher)
	}
	for _, s := range g.Sentinels() {
		s.Do(t, watcher[0]...)
	}
	url := "redis-sentinel://app:secret@" + strings.Join(g.Addrs(), ",") + "?master_name=" + g.MasterName() + "&sentinel_username=watcher&sentinel_password=secret"
	d := connect(t, url)
	rights := func() []check.Finding { return topic(run(t, d, check.Wants{Mode: check.Acked}, ours...), "rights") }
	if fs := rights(); len(fs) != 0 {
		t.Errorf("found %+v", fs)
	}
	old := d.Place("app:some").Node
	g.Failover()
	eventually(t, "the client follows", func() bool { return d.Place("app:some").Node != old })
	if fs := rights(); len(fs) != 0 {
		t.Errorf("found after the failover: %+v", fs)
	}
}

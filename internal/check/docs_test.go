package check_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/check"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
)

// documented returns the commands in docs/operations.md that give rights to a
// user, by what they are for: a section, or a paragraph that begins in bold.
func documented(t *testing.T, user string) map[string][][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][][]string)
	what := ""
	for line := range strings.Lines(string(text)) {
		if m := topicLine.FindStringSubmatch(line); m != nil {
			what = strings.TrimSuffix(m[1]+m[2], ".")
		}
		if strings.HasPrefix(line, "ACL SETUSER "+user+" ") {
			all[what] = append(all[what], strings.Fields(line))
		}
	}
	return all
}

var topicLine = regexp.MustCompile(`^##+ (.*)|^\*\*(.*?)\*\*`)

// The headings of docs/operations.md.
const (
	forLocks   = "The rights of the user"
	forCluster = "Cluster"
)

// same compares documented rights with those that are needed.
func same(t *testing.T, what string, commands [][]string, rule []string) {
	t.Helper()
	var said []string
	for _, c := range commands {
		said = append(said, c[3:]...)
	}
	said = slices.DeleteFunc(said, func(s string) bool { return slices.Contains([]string{"reset", "resetchannels", "on", ">secret"}, s) })
	for _, right := range rule {
		if !slices.Contains(said, right) {
			t.Errorf("docs/operations.md does not grant %s to %s", right, what)
		}
	}
	for _, right := range said {
		if !slices.Contains(rule, right) {
			t.Errorf("docs/operations.md grants %s to %s, which does not need it", right, what)
		}
	}
}

// What the documentation tells to type in is the rule, no more and no less, and
// it is enough.
func TestDocumentedRights(t *testing.T) {
	t.Parallel()
	all := documented(t, "app")
	single := all[forLocks]
	for _, cluster := range []bool{false, true} {
		commands := single
		if cluster {
			commands = slices.Concat(single, all[forCluster])
		}
		keys, channels, rights := check.Rule("", "app:", 0, cluster)
		same(t, fmt.Sprintf("locks (cluster: %v)", cluster), commands, slices.Concat(keys, channels, rights))
	}
	for _, c := range single {
		for _, right := range c[3:] {
			if slices.Contains([]string{"+config|get", "+config", "+select", "+restore", "+move", "+copy", "+dump", "allkeys", "~*", "&*", "+@all"}, right) {
				t.Errorf("the least rights contain %s, which gives away more than locks", right)
			}
		}
	}
	s := redistest.Start(t, good...)
	for _, c := range single {
		s.Do(t, c...)
	}
	for _, f := range run(t, connect(t, "redis://app:secret@"+s.Addr()), check.Wants{Mode: check.Acked}, ours...) {
		if f.Severity != check.Info || f.Topic != "rights" && f.Topic != "settings" {
			t.Errorf("found %+v", f)
		}
	}
}

// Users of one prefix reach no key and no channel of names with another prefix, whatever these names
// contain. Only the line for all names and the keys of clients, which all users share, reach further.
func TestDocumentedRightsOfTenants(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--acl-pubsub-default", "allchannels") // the default before 7.0
	for _, user := range []string{"app", "operator"} {
		all := documented(t, user)
		commands := all[forLocks] // begins with a reset
		delete(all, forLocks)
		for _, more := range all {
			commands = append(commands, more...)
		}
		for _, c := range commands {
			if slices.Contains(c, "~*") || slices.Contains(c, "+spublish") && !redistest.HasSharded() {
				continue // the page says when to omit these
			}
			s.Do(t, c...)
		}
		s.Do(t, "ACL", "SETUSER", user, "+get", "+set", "+publish", "+subscribe", "+multi", "+discard")
	}
	as := map[string]func(...string) (any, error){"app": s.As(t, "app", "secret"), "operator": s.As(t, "operator", "secret")}
	may := func(user string, command ...string) bool {
		try := as[user]
		_, begun := try("MULTI")
		_, refused := try(command...) // the server checks rights when it queues a command
		_, ended := try("DISCARD")
		if err := errors.Join(begun, ended); err != nil || refused != nil && !strings.HasPrefix(refused.Error(), "NOPERM") {
			t.Fatalf("%q: %v, %v", command, err, refused)
		}
		return refused == nil
	}
	for _, user := range []string{"app", "operator"} {
		for _, name := range []string{"app:order", "app:{1}"} {
			for _, u := range script.UsesOf(name, 0) {
				for _, channel := range u.Channels {
					locks := !slices.Contains([]string{"Election", "Latch", "Bucket.Watch", "Object.Listen"}, u.By) // breaking tells these nothing
					if channel = strings.ReplaceAll(channel, "*", "c"); locks && !may(user, "PUBLISH", channel, "1") {
						t.Errorf("the %s of the prefix app: cannot publish on %s", user, channel)
					}
				}
			}
			if !may(user, "SET", name, "1") {
				t.Errorf("the %s of the prefix app: does not reach %s", user, name)
			}
		}
		for _, name := range []string{"order", "x:app:", "x:app:order", "x:{app:}", "x:{app:order}", "x:app:{order}", "app", "redisson_x:app:order", "holdfastx:app:{1}"} {
			if err := script.CheckName(name); err != nil {
				t.Fatal(err)
			}
			for _, u := range append(script.UsesOf(name, 0), script.Uses{Keys: []string{name}}) {
				for _, key := range u.Keys {
					if key = strings.ReplaceAll(key, "*", "c"); u.Feature != script.Clients && (may(user, "GET", key) || may(user, "SET", key, "1")) {
						t.Errorf("the %s of the prefix app: reaches %s, a key of %s", user, key, name)
					}
				}
				for _, channel := range u.Channels {
					if channel = strings.ReplaceAll(channel, "*", "c"); may(user, "PUBLISH", channel, "1") || may(user, "SUBSCRIBE", channel) {
						t.Errorf("the %s of the prefix app: reaches the channel %s of %s", user, channel, name)
					}
				}
			}
		}
	}
}

// The user with the documented rights reads no password of the server.
func TestDocumentedRightsHidePasswords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--masterauth", "hidden")
	for _, c := range documented(t, "app")[forLocks] {
		s.Do(t, c...)
	}
	if got, err := s.As(t, "app", "secret")("CONFIG", "GET", "masterauth"); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("CONFIG GET: %v, %v", got, err)
	}
}

// Each feature has a block of its own, which is the rule, no more and no less.
// With that block Check does not miss the right any more.
func TestDocumentedFeatures(t *testing.T) {
	t.Parallel()
	all := documented(t, "app")
	for _, f := range script.Features {
		keys, channels, rights := check.Rule(f, "app:", 0, false)
		same(t, string(f), all[string(f)], slices.Concat(keys, channels, rights))
	}
	same(t, "another database", all["Another database than 0"], []string{"+select"})
	s := redistest.Start(t, good...)
	grant := func(of string) {
		for _, c := range all[of] {
			s.Do(t, c...)
		}
	}
	grant(forLocks)
	d := connect(t, "redis://app:secret@"+s.Addr())
	wants := check.Wants{Mode: check.Acked}
	for _, f := range script.Features {
		needs := func() bool {
			return slices.ContainsFunc(run(t, d, wants, ours...), func(found check.Finding) bool {
				keys, channels, rights := check.Rule(f, "app:", 0, false)
				for _, right := range slices.Concat(keys, channels, rights) {
					if strings.Contains(found.Change, " "+strings.TrimSuffix(right, "*")) {
						return true
					}
				}
				return false
			})
		}
		if !needs() {
			t.Errorf("nothing says that %s lacks rights", f)
		}
		if grant(string(f)); f != script.Objects && needs() { // Dumps still lacks what both need
			t.Errorf("%s has its rights, and something says that it lacks some", f)
		}
	}
	if fs := run(t, d, wants, ours...); len(fs) != 0 {
		t.Errorf("with all features, found %+v", fs)
	}
}

// The documented users are enough to find the master by way of sentinels, also
// after a failover.
func TestDocumentedRightsOfSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t, redistest.WithReplicas(1))
	for _, s := range g.Nodes() {
		for _, c := range documented(t, "app")[forLocks] {
			s.Do(t, c...)
		}
	}
	watcher := documented(t, "watcher")["Sentinel"]
	if len(watcher) != 1 {
		t.Fatalf("the rights at sentinels: %q", watcher)
	}
	for _, s := range g.Sentinels() {
		s.Do(t, watcher[0]...)
	}
	url := "redis-sentinel://app:secret@" + strings.Join(g.Addrs(), ",") + "?master_name=" + g.MasterName() + "&sentinel_username=watcher&sentinel_password=secret"
	d := connect(t, url)
	rights := func() []check.Finding {
		return slices.DeleteFunc(topic(run(t, d, check.Wants{Mode: check.Acked}, ours...), "rights"), func(f check.Finding) bool {
			return f.Severity == check.Info // features
		})
	}
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

// The README, docs/operations.md and the check name the same oldest version.
func TestOldestVersion(t *testing.T) {
	fs := check.Settings(check.Wants{}, driver.Facts{Node: "n", Version: "5.0.14", Role: "master"})
	found := topic(fs, "version")
	if len(found) != 1 || found[0].Severity != check.Danger {
		t.Fatalf("found %+v", fs)
	}
	oldest := strings.TrimSuffix(strings.TrimPrefix(found[0].Change, "use "), " or later")
	want{"version", "info", "later"}.check(t, check.Settings(check.Wants{}, driver.Facts{Node: "n", Version: oldest + ".0", Role: "master"}))
	for file, text := range map[string]string{"../../README.md": "Redis " + oldest + " or later", "../../docs/versions.md": "| Redis | " + oldest + " and later |"} {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), text) {
			t.Errorf("%s does not say %q (%v)", file, text, err)
		}
	}
}

// What a server says of itself does not make a finding endless.
func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := vast{connect(t, s.URL())}
	for _, f := range run(t, d, check.Wants{Mode: check.Async}) {
		if len(f.Text) > 5000 || len(f.Change) > 5000 {
			t.Errorf("%s has a text of %d bytes", f.Topic, len(f.Text))
		}
	}
}

// vast is a server that says much.
type vast struct{ driver.Driver }

func (v vast) Facts(ctx context.Context, nodes ...string) []driver.Facts {
	fs := v.Driver.Facts(ctx, nodes...)
	much := strings.Repeat("x", 1<<20)
	for i := range fs {
		fs[i].Version, fs[i].Role = "6.0."+much, much
		fs[i].Settings = map[string]string{"maxmemory": "1", "maxmemory-policy": much, "appendonly": "yes", "appendfsync": much}
		fs[i].Info = map[string]string{"slave0": "ip=" + much}
	}
	return fs
}

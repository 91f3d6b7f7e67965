package repo_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/observability.md lists the alerts and the reasons of warnings, and no others.
func TestObservabilityLists(t *testing.T) {
	page := readDoc(t, "docs/observability.md")
	for _, list := range []struct{ file, item, row string }{
		{"prom/alerts/holdfast.rules.yml", `(?m)^ +- alert: (\w+)$`, "(?m)^\\| `(Holdfast\\w+)` \\|"},
		{"observe/observe.go", `(?m)^\tWarn\w+ += "([a-z ]+)"`, "(?m)^\\| `([a-z ]+)` \\| [A-Z]"},
	} {
		want, got := captured(list.item, readDoc(t, list.file)), captured(list.row, page)
		if !slices.Equal(want, got) || len(want) == 0 {
			t.Errorf("%s has %q, the page %q", list.file, want, got)
		}
	}
}

// captured returns what the group of a pattern matches, sorted.
func captured(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

// docs/performance.md has the figures and the bounds of make bench-peers, and scenarios that exist.
func TestPerformanceTargets(t *testing.T) {
	page, source := readDoc(t, "docs/performance.md"), readDoc(t, "bench/peers/targets.go")
	targets := regexp.MustCompile(`add\("([^"]+)", (least|most), ([\d.]+),`).FindAllStringSubmatch(source, -1)
	if n := strings.Count(source, "\tadd(\""); len(targets) != n || n == 0 {
		t.Fatalf("%d of %d targets were recognized", len(targets), n)
	}
	bounds := 0
	for _, m := range targets {
		sign := map[string]string{"least": "≥", "most": "≤"}[m[2]]
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(m[1]) + ` \| [^|]+ \| ` + sign + ` ` + regexp.QuoteMeta(m[3]) + " \\| `-scenario ")
		if !row.MatchString(page) {
			t.Errorf("the page lacks a row %q with the bound %s %s", m[1], sign, m[3])
		}
		bounds++
	}
	if n := len(regexp.MustCompile(`\| [≥≤] `).FindAllString(page, -1)); n != bounds {
		t.Errorf("the page has %d bounds, the program %d", n, bounds)
	}
	known := captured(`\tname: "([a-z-]+)"`, readDoc(t, "bench/peers/scenarios.go"))
	for _, name := range captured(`-scenario ([a-z-]+)`, page) {
		if !slices.Contains(known, name) {
			t.Errorf("there is no scenario %s, only %q", name, known)
		}
	}
}

// docs/operations.md lists the topics of Client.Check.
func TestOperationsTopics(t *testing.T) {
	page := readDoc(t, "docs/operations.md")
	topics := append(captured(`(?m)^\t\{"([a-z-]+)", \w+\},$`, readDoc(t, "internal/check/rules.go")), "answer", "system", "rights", "settings", "commands", "clock", "skew")
	for _, topic := range topics {
		if !strings.Contains(page, "\n| "+topic+" | ") {
			t.Errorf("the page lacks the topic %s", topic)
		}
	}
	if len(topics) < 15 {
		t.Errorf("there are only %q", topics)
	}
}

// docs/configuration.md has the schemes and the parameters of URLs.
func TestConfigurationURLs(t *testing.T) {
	page, source := readDoc(t, "docs/configuration.md"), readDoc(t, "driver/rueidis/url.go")
	parameters := captured(`(?m)^\t"(\w+)": +(?:nil|\{(?:Single|Replicated|Sentinel|Cluster)[^}]*\}),$`, source)
	schemes := captured(`(?m)^\t"([\w-]+)": +\{(?:mode|secure|\})`, source)
	if len(parameters) < 15 || len(schemes) < 13 {
		t.Fatalf("parameters %q, schemes %q", parameters, schemes)
	}
	table, _, _ := strings.Cut(page, "\n## By file")
	for _, name := range parameters {
		if !regexp.MustCompile("(?m)^\\| (?:`\\w+`, )*`" + name + "`").MatchString(table) {
			t.Errorf("the table lacks the parameter %s", name)
		}
	}
	for _, name := range schemes {
		if !strings.Contains(table, name+"://") && !strings.Contains(table, "`"+name+"`") {
			t.Errorf("the page lacks the scheme %s", name)
		}
	}
}

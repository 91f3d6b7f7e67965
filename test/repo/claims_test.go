package repo_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pages returns the text of all pages, by their files, without decisions.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files := []string{"CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for _, pattern := range []string{"README*.md", "docs/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) < 3 {
			t.Fatal(more, err)
		}
		files = append(files, more...)
	}
	texts := make(map[string]string)
	for _, file := range files {
		texts[file] = readDoc(t, file)
	}
	return texts
}

// Every link to a part of a page leads to a heading.
func TestAnchors(t *testing.T) {
	texts, links := pages(t), 0
	link := regexp.MustCompile(`\]\(([^)#:]*)#([^)]+)\)`)
	for file, text := range texts {
		for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			links++
			target := file
			if m[1] != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(file), m[1]))
			}
			page, ok := texts[target]
			if !ok {
				page = readDoc(t, target)
			}
			if !slices.Contains(anchors(page), m[2]) && !strings.Contains(page, `<a id="`+m[2]+`"></a>`) {
				t.Errorf("%s links to %s, which has no heading for #%s", file, target, m[2])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// anchors returns the anchors that GitHub makes of the headings of a page.
func anchors(text string) (all []string) {
	for _, h := range headings(text) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N}\- _]`).ReplaceAllString(strings.ToLower(h), "")
		all = append(all, strings.ReplaceAll(anchor, " ", "-"))
	}
	return all
}

// What pages name exists: targets of make, scripts, files, folders, and variables of the environment.
func TestNamedThings(t *testing.T) {
	makefile := readDoc(t, "Makefile")
	code := sources(t)
	top, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range top {
		if e.IsDir() && e.Name() != "testing" {
			folders = append(folders, regexp.QuoteMeta(e.Name()))
		}
	}
	named := map[string]int{}
	for file, text := range pages(t) {
		for what, check := range map[string]struct {
			pattern string
			exists  func(name string) bool
		}{
			"target of make": {"`make ([a-z-]+)", func(name string) bool {
				return name == "-" || strings.Contains(makefile, "\n"+name+":")
			}},
			"file": {"`((?:" + strings.Join(folders, "|") + `)/[\w./*-]+)` + "`", func(name string) bool {
				found, err := filepath.Glob(name)
				return err == nil && len(found) > 0
			}},
			"script": {`\b(scripts/\w+)`, func(name string) bool {
				_, err := os.Stat(name)
				return err == nil
			}},
			"variable": {`\b(HOLDFAST_[A-Z_]+)\b`, func(name string) bool { return strings.Contains(code, `"`+name) }},
		} {
			for _, name := range captured(check.pattern, text) {
				named[what]++
				if !check.exists(name) {
					t.Errorf("%s names the %s %s, which does not exist", file, what, name)
				}
			}
		}
	}
	for what, least := range map[string]int{"target of make": 15, "file": 50, "script": 2, "variable": 12} {
		if named[what] < least {
			t.Errorf("pages name only %d times a %s", named[what], what)
		}
	}
}

// sources returns the code of all packages in Go, except for this one.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(".", func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasPrefix(filepath.ToSlash(file), "test/repo/") {
			return err
		}
		data, err := os.ReadFile(file)
		b.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Pages state the defaults of Options that the code sets, as in `Options.PollInterval` (5 s).
func TestNamedDefaults(t *testing.T) {
	units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "ms": time.Millisecond, "s": time.Second, "": 1}
	amount := func(number, unit string) time.Duration {
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(n) * units[unit]
	}
	defaults := make(map[string]time.Duration)
	source := readDoc(t, "client.go")
	for _, m := range regexp.MustCompile(`set\(&o\.(\w+), (\d+)\*time\.(\w+)\)|\to\.(\w+) = (\d+)\n`).FindAllStringSubmatch(source, -1) {
		defaults[m[1]+m[4]] = amount(m[2]+m[5], m[3])
	}
	defaults["RenewEvery"] = defaults["WatchdogTimeout"] / 3
	if len(defaults) < 6 {
		t.Fatalf("the defaults are %v", defaults)
	}
	claim := regexp.MustCompile("`(?:Options\\.)?(\\w+)`,? \\(?(\\d+)(?: (ms|s))?(?: by default|\\)|, or )")
	claims := 0
	for file, text := range pages(t) {
		for _, m := range claim.FindAllStringSubmatch(text, -1) {
			want, ok := defaults[m[1]]
			if !ok {
				continue
			}
			claims++
			if got := amount(m[2], m[3]); got != want {
				t.Errorf("%s: %s is %v, the code has %v", file, m[0], got, want)
			}
		}
	}
	if claims < 6 {
		t.Errorf("only %d claims were found", claims)
	}

	page := readDoc(t, "docs/configuration.md")
	times := regexp.MustCompile(`&c\.(\w+): +(?:(\d+) \* )?time\.Second`).FindAllStringSubmatch(readDoc(t, "driver/rueidis/config.go"), -1)
	for _, m := range times {
		name := strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(m[1], "${1}_$2"))
		if !regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*\\| `" + max(m[2], "1") + "s` \\|$").MatchString(page) {
			t.Errorf("docs/configuration.md lacks the default %ss of %s", max(m[2], "1"), name)
		}
	}
	if len(times) < 3 {
		t.Errorf("the driver has the defaults %q", times)
	}
}

// Pages state times and numbers that the code has, in these words.
func TestNamedNumbers(t *testing.T) {
	for _, claim := range []struct{ page, words, file, code string }{
		{"guarantees", "5 % of the lease earlier, at least 50 ms and at most 5 s, but at most a quarter of the lease", "internal/watchdog/watched.go", "min(max(lease/20, 50*time.Millisecond), 5*time.Second, lease/4)"},
		{"guarantees", "A release grants a lock for three seconds", "internal/script/lua/lib/queue.lua", "local GRANT = 3000 -- ms"},
		{"guarantees", "if it holds the lock for longer than 5 ms", "internal/watchdog/watchdog.go", "firstRenewal = 5 * time.Millisecond"},
		{"guarantees", "20 s if the first of a long queue has died", "internal/engine/queue.go", "maxLook = 20 * time.Second"},
		{"guarantees", "1 s, and 2.5 s for each waiter ahead that has died", "internal/script/lua/lib/fair.lua", "local LIFE = 2500 "},
		{"guarantees", "or up to 250 ms later if it must leave a queue at the server first", "internal/engine/limits.go", "withdrawTime = 250 * time.Millisecond"},
		{"guarantees", "with pauses of up to half a second", "internal/engine/errors.go", ", 500*time.Millisecond)"},
		{"guarantees", "waits up to 100 ms for the log handler", "client.go", "userTime = 100 * time.Millisecond"},
		{"guarantees", "For 5 ms after a grant or a refusal, a client uses what it\nknows of a rate limiter", "internal/engine/limits.go", "refusalLife = 5 * time.Millisecond"},
		{"guarantees", "waited for a quarter of a second may take its first locks", "internal/engine/limits.go", "groupTime = 250 * time.Millisecond"},
		{"guarantees", "unreachable for less than ten minutes", "internal/script/once.go", "MarkLife = 10 * time.Minute"},
		{"operations", "mark](protocol.md#numbered-requests) for ten minutes", "internal/script/once.go", "MarkLife = 10 * time.Minute"},
		{"operations", "was silent for 5 s", "internal/check/rules.go", "lag = 5 * time.Second"},
		{"operations", "at most 100 holders, 100 waiters of each queue", "inspect/locks.go", "brief = 100 "},
		{"operations", "at most five minutes after the last request", "internal/script/lua/lib/enqueue.lua", "'pexpire', queue, '300000'"},
		{"observability", "After a second of waiting, it looks for a\ncycle", "internal/deadlock/detector.go", "waitEvery = time.Second "},
		{"observability", "has not returned for five seconds", "internal/async/queue.go", "BlockedTime = 5 * time.Second"},
		{"operations", "`SCAN` over 250 keys at a time", "inspect/locks.go", "stride = 250 "},
	} {
		if page := "docs/" + claim.page + ".md"; !strings.Contains(readDoc(t, page), claim.words) {
			t.Errorf("%s does not say %q any more: change the test with it", page, claim.words)
		}
		code := regexp.MustCompile(` +`).ReplaceAllString(readDoc(t, claim.file), " ")
		if !strings.Contains(code, claim.code) {
			t.Errorf("%s has no %q any more: correct what docs/%s.md says of it, %q", claim.file, claim.code, claim.page, claim.words)
		}
	}
}

// Pages name the versions of other programs that tests use.
func TestNamedVersions(t *testing.T) {
	table, _, _ := strings.Cut(readDoc(t, "CONTRIBUTING.md"), "\n## Simulation")
	page := readDoc(t, "docs/versions.md")
	for _, server := range []string{"Redis", "Valkey"} {
		tested := captured(`(?m)^\| `+server+` ([\d.]+) \|`, table)
		_, list, _ := strings.Cut(page, "\n| "+server+" |")
		list, _, _ = strings.Cut(list, "\n")
		_, list, ok := strings.Cut(list, "in turn ")
		if got := captured(`(\d+\.\d+\.\d+)`, list); !ok || !slices.Equal(got, tested) || len(tested) < 2 {
			t.Errorf("docs/versions.md says that %s is tested with %q, CONTRIBUTING.md %q", server, got, tested)
		}
	}
	mod := readDoc(t, "bench/go.mod") + readDoc(t, "driver/goredis/go.mod") + readDoc(t, "go.mod")
	java := readDoc(t, "interop/pom.xml")
	for _, v := range []struct{ file, claim, source, used string }{
		{"docs/versions.md", `\| Redisson \| [^|]+ \| ([\d., ]+) \|`, java, `<redisson.version>([\d.]+)<`},
		{"docs/from-redisson.md", `with Redisson (\d[\d.]+\d and \d[\d.]+\d)\.`, java, `<redisson.version>([\d.]+)<`},
		{"docs/performance.md", `beside Redisson ([\d.]+);`, java, `<redisson.version>(4[\d.]+)<`},
		{"docs/versions.md", `\| go-redis \| [^|]+ \| ([\d.]+) \|`, readDoc(t, "driver/goredis/go.mod"), `redis/go-redis/v9 v([\d.]+)`},
		{"docs/performance.md", `\(https://github\.com/go-redsync/redsync\) ([\d.]+),`, mod, `go-redsync/redsync/v4 v([\d.]+)`},
		{"docs/performance.md", `\(https://github\.com/bsm/redislock\) ([\d.]+)\s`, mod, `bsm/redislock v([\d.]+)`},
		{"docs/performance.md", `rueidislock \(rueidis ([\d.]+)\)`, mod, `redis/rueidis v([\d.]+)`},
		{"docs/from-rueidislock.md", `rueidislock\) v([\d.]+\d)`, mod, `redis/rueidis v([\d.]+)`},
	} {
		claimed := captured(v.claim, readDoc(t, v.file))
		used := slices.Compact(captured(v.used, v.source))
		if len(claimed) != 1 || !slices.Equal(captured(`(\d+(?:\.\d+)+)`, claimed[0]), used) {
			t.Errorf("%s names %q, tests use %q", v.file, claimed, used)
		}
	}
}

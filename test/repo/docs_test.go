package repo_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Links between documents lead somewhere, every decision is in the index and has
// its sections, and every test that a document names exists.
func TestDocs(t *testing.T) {
	docs := []string{"README.md", "README.ko.md", "README.zh-CN.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md"}
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, more...)
	}
	tests := declared(t)
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	block := regexp.MustCompile("(?s)\n```.*?\n```") // code such as f[T](x) is no link
	named := regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]*)`")
	decision := regexp.MustCompile(`(?s)^# \d+\. [^\n]+\n\nDate: \d{4}-\d\d-\d\d · Status: (?:Proposed|Accepted|Superseded by [^\n]+)\n\n## Context\n.*\n## Decision\n.*\n## Consequences\n`)
	index := ""
	for _, doc := range docs {
		data, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if doc == "docs/adr/README.md" {
			index = text
		}
		for _, m := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
	for _, doc := range docs {
		if !strings.HasPrefix(doc, "docs/adr/0") {
			continue
		}
		if !strings.Contains(index, "("+filepath.Base(doc)+")") {
			t.Errorf("%s is not in the index", doc)
		}
		if !decision.MatchString(readDoc(t, doc)) {
			t.Errorf("%s is not a decision with date, status, context, decision and consequences", doc)
		}
	}
}

// declared returns the names of all tests of the module.
func declared(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example|Benchmark)\w*)\(`)
	err := filepath.WalkDir(".", func(file string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		data, err := os.ReadFile(file)
		for _, m := range decl.FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The program that the README opens with compiles.
func TestReadmeProgram(t *testing.T) {
	programs := fenced(readDoc(t, "README.md"), "go")
	if len(programs) == 0 {
		t.Fatal("README.md has no program")
	}
	compile(t, programs[0], "internal/readme")
}

// The program in docs/observability.md compiles. All other code there is a part of an
// example.
func TestObservabilityCode(t *testing.T) {
	var examples string
	for _, file := range []string{"example_observe_test.go", "otel/example_test.go", "prom/example_test.go"} {
		examples += readDoc(t, file)
	}
	programs := 0
	for _, code := range fenced(readDoc(t, "docs/observability.md"), "go") {
		switch {
		case strings.HasPrefix(code, "package main\n"):
			compile(t, code, "prom/internal/page")
			programs++
		case !strings.Contains(examples, code):
			t.Errorf("no example contains\n%s", code)
		}
	}
	if programs != 1 {
		t.Errorf("%d programs", programs)
	}
}

// The code in these pages is that of tests that run.
func TestPagesCode(t *testing.T) {
	for page, files := range map[string][]string{
		"docs/command.md":          {"dashboard/dashboard_test.go"},
		"docs/cookbook.md":         {"holdfasttest/cookbook/*_test.go", "cmd/holdfast/cookbook_test.go"},
		"docs/from-etcd.md":        {"bench/from_etcd_test.go"},
		"docs/from-redislock.md":   {"bench/from_redislock_test.go"},
		"docs/from-redsync.md":     {"bench/from_redsync_test.go"},
		"docs/from-rueidislock.md": {"bench/from_rueidislock_test.go"},
		"docs/unit-tests.md":       {"holdfasttest/page_test.go"},
	} {
		var tests strings.Builder
		for _, pattern := range files {
			found, err := filepath.Glob(pattern)
			if err != nil || len(found) == 0 {
				t.Errorf("%s: no files %s: %v", page, pattern, err)
			}
			for _, file := range found {
				tests.WriteString(readDoc(t, file))
			}
		}
		blocks := fenced(readDoc(t, page), "go")
		for _, code := range blocks {
			if !strings.Contains(tests.String(), code) {
				t.Errorf("%v of %s do not contain\n%s", files, page, code)
			}
		}
		if len(blocks) == 0 {
			t.Errorf("%s has no code", page)
		}
	}
}

// Workflows name every action by the hash of a commit, which no one can move to other code as they
// can move a tag, with the version as a comment.
func TestActionsPinned(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.y*ml")
	if err != nil || len(files) == 0 {
		t.Fatal("no workflows", err)
	}
	uses := regexp.MustCompile(`(?m)^[ -]*uses:.*$`)
	pinned := regexp.MustCompile(`^[ -]*uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range files {
		for _, line := range uses.FindAllString(readDoc(t, file), -1) {
			if !pinned.MatchString(line) && !strings.Contains(line, "uses: ./") {
				t.Errorf("%s: want <action>@<hash of a commit> # v1.2.3: %s", file, strings.TrimSpace(line))
			}
		}
	}
}

// Dependabot looks at every module: those of go.work by the root, the others by their folders.
func TestDependabot(t *testing.T) {
	config, work := readDoc(t, ".github/dependabot.yml"), readDoc(t, "go.work")
	err := filepath.WalkDir(".", func(file string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(file))
		switch filepath.Base(file) {
		case "go.mod":
			if !strings.Contains(work, "\t./"+folder+"\n") && !strings.Contains(config, "      - "+path.Join("/", folder)+"\n") {
				t.Errorf("neither go.work nor .github/dependabot.yml names the module in %s", folder)
			}
		case "pom.xml", "Dockerfile":
			if !strings.Contains(config, "    directory: /"+folder+"\n") {
				t.Errorf(".github/dependabot.yml does not name %s", file)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// compile compiles a program. It has to stand in a folder of its module to find the packages
// that it imports, if only for the compiler.
func compile(t *testing.T, program, folder string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, folder, "main.go"): file}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "program"), "./"+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

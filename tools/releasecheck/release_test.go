package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dateOf dates the heading of the version in the changelog of good.
const dateOf = "(unreleased)→(2026-01-31)"

// releasable returns a repository like good with changes, as one commit on main.
func releasable(t *testing.T, changes map[string]string) string {
	t.Helper()
	all := map[string]string{"CHANGELOG.md": dateOf}
	for name, change := range changes {
		all[name] = change
	}
	root := repositoryOf(t, all)
	do(t, root, "symbolic-ref", "HEAD", "refs/heads/main")
	do(t, root, "config", "user.name", "Test")
	do(t, root, "config", "user.email", "test@example.com")
	commit(t, root)
	return root
}

func commit(t *testing.T, root string) {
	t.Helper()
	do(t, root, "add", "--all")
	do(t, root, "commit", "--quiet", "--message", "all")
}

func do(t *testing.T, root string, args ...string) string {
	t.Helper()
	out, err := git(root, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// change replaces text in a file.
func change(t *testing.T, root, name, old, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("%s does not contain %q", name, old)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(data), old, text)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// next turns v0.3.0, which it tags, into another version with another API.
func next(version, old, text string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		do(t, root, "tag", "v0.3.0")
		for _, name := range []string{"VERSION", "CHANGELOG.md", "go.work", "more/go.mod", "private/go.mod"} {
			change(t, root, name, "v0.3.0", version)
		}
		change(t, root, "lib.go", old, text)
		commit(t, root)
	}
}

func TestRelease(t *testing.T) {
	tests := []struct {
		name    string
		version string
		changes map[string]string
		prepare func(t *testing.T, root string)
		dry     bool
		test    func(string) error
		want    string // a pattern of the error
	}{
		{name: "good", version: "v0.3.0"},
		{name: "dry", version: "v0.3.0", dry: true},
		{name: "no version", version: "0.3", want: `^"0.3" is not a version such as v1.2.3: run make release VERSION=`},
		{name: "a short version", version: "v0.3", want: `^"v0.3" is not a version`},
		{name: "another version", version: "v0.4.0", want: `(?m)^VERSION is v0.3.0: write v0.4.0 into it and run make tidy`},
		{
			name: "no date", version: "v0.3.0", changes: map[string]string{"CHANGELOG.md": "→"},
			want: `^CHANGELOG.md: the heading "## v0.3.0 \(unreleased\)" has no date: change it to "## v0.3.0 \(\d{4}-\d\d-\d\d\)"$`,
		},
		{
			name: "not a date", version: "v0.3.0", changes: map[string]string{"CHANGELOG.md": "(unreleased)→(2026-02-31)"},
			want: `^CHANGELOG.md: the heading "## v0.3.0 \(2026-02-31\)" has no date`,
		},
		{
			name: "no section", version: "v0.3.0", changes: map[string]string{"CHANGELOG.md": "v0.3.0→v0.3.01"},
			want: `^CHANGELOG.md has no section of v0.3.0: add "## v0.3.0 \(`,
		},
		{
			name: "a file is changed", version: "v0.3.0",
			prepare: func(t *testing.T, root string) { change(t, root, "lib.go", "42", "43") },
			want:    `^the work tree has changes: commit or discard\nM lib.go$`,
		},
		{
			name: "another branch", version: "v0.3.0",
			prepare: func(t *testing.T, root string) { do(t, root, "switch", "--quiet", "--create", "topic") },
			want:    `^the branch is "topic": run git switch main$`,
		},
		{
			name: "no branch", version: "v0.3.0",
			prepare: func(t *testing.T, root string) { do(t, root, "checkout", "--quiet", "--detach") },
			want:    `^the branch is "": run git switch main$`,
		},
		{
			name: "the tag exists", version: "v0.3.0",
			prepare: func(t *testing.T, root string) { do(t, root, "tag", "v0.3.0") },
			want:    `^the tag v0.3.0 exists: release another version`,
		},
		{
			name: "the tag of a nested module exists", version: "v0.3.0",
			prepare: func(t *testing.T, root string) { do(t, root, "tag", "more/v0.3.0") },
			want:    `^the tag more/v0.3.0 exists`,
		},
		{
			name: "a later version exists", version: "v0.3.0",
			prepare: func(t *testing.T, root string) { do(t, root, "tag", "v0.10.0") },
			want:    `^v0.10.0 is released already: release a later version$`,
		},
		{
			name: "the release check fails", version: "v0.3.0", changes: map[string]string{"README.md": "go get→go got"},
			want: `^README.md: release-check cannot run`,
		},
		{
			name: "a test fails", version: "v0.3.0", test: func(string) error { return errors.New("make test: exit status 2") },
			want: `^make test: exit status 2$`,
		},
		{
			name: "a test leaves a file", version: "v0.3.0",
			test: func(root string) error { return os.WriteFile(filepath.Join(root, "left"), nil, 0o644) },
			want: `^the work tree has changes: commit or discard\n\?\? left$`,
		},
		{
			name: "a patch breaks the API", version: "v0.3.1", prepare: next("v0.3.1", `42`, `"42"`),
			want: `(?s)^v0.3.1 must not break the API of v0.3.0: undo these changes.*\nexample.com/lib: Answer: changed from untyped int to untyped string\n`,
		},
		{name: "a patch adds to the API", version: "v0.3.1", prepare: next("v0.3.1", "Answer = 42", "Answer, More = 42, 43")},
		{name: "a minor version breaks the API", version: "v0.4.0", prepare: next("v0.4.0", `42`, `"42"`)},
		{
			name: "a patch removes a package", version: "v0.3.1",
			changes: map[string]string{"old/old.go": "→package old"},
			prepare: func(t *testing.T, root string) {
				next("v0.3.1", "42", "43")(t, root)
				do(t, root, "rm", "--quiet", "old/old.go")
				commit(t, root)
			},
			want: `\nexample.com/lib/old: the package is removed$`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := releasable(t, tt.changes)
			if tt.prepare != nil {
				tt.prepare(t, root)
			}
			if tt.test == nil {
				tt.test = func(string) error { return nil }
			}
			before := strings.Fields(do(t, root, "tag"))
			err := release{tt.version, tt.dry, tt.test, map[string]string{"private": "is a test"}}.run(root)
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error())):
				t.Errorf("%v\nwant %s", err, tt.want)
			}
			want := before
			if tt.want == "" && !tt.dry {
				want = append(want, "more/"+tt.version, tt.version)
				slices.Sort(want)
				if kind := do(t, root, "cat-file", "-t", "more/"+tt.version); kind != "tag" {
					t.Errorf("the tag of a module is a %s, want an annotated tag", kind)
				}
			}
			if got := strings.Fields(do(t, root, "tag")); !slices.Equal(got, want) {
				t.Errorf("the tags are %q, want %q", got, want)
			}
		})
	}
}

func TestMayBreak(t *testing.T) {
	for _, tt := range []struct {
		last, next string
		want       bool
	}{
		{"v0.1.0", "v0.1.1", false},
		{"v0.1.0", "v0.2.0", true},
		{"v0.9.0", "v1.0.0", true},
		{"v1.0.0", "v1.0.1", false},
		{"v1.0.0", "v1.1.0", false},
		{"v1.4.0", "v2.0.0", true},
	} {
		if got := mayBreak(tt.last, tt.next); got != tt.want {
			t.Errorf("%s to %s: %v, want %v", tt.last, tt.next, got, tt.want)
		}
	}
}

// TestTags checks that a module is tagged after those that it requires.
func TestTags(t *testing.T) {
	root := repositoryOf(t, map[string]string{
		"a/go.mod":    "→module example.com/lib/a\n\ngo 1.25.0\n\nrequire example.com/lib/more v0.3.0\n",
		"more/go.mod": "→",
	})
	r, err := open(root, map[string]string{"private": "is a test"})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.tags(); !slices.Equal(got, []string{"v0.3.0", "more/v0.3.0", "a/v0.3.0"}) {
		t.Error(got)
	}
}

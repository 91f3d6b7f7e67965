package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// good is a repository of a library with a command for its own tests, a nested
// module with a package and a command, and a module that is not released.
var good = map[string]string{
	"VERSION":          "v0.3.0\n",
	"CHANGELOG.md":     "# Changelog\n\n## v0.3.0 (unreleased)\n",
	"README.md":        "# Lib\n\n## Install\n\n```sh\ngo get example.com/lib # Go 1.25\ngo install example.com/lib/more/cmd/tell@latest\n```\n\n## Use\n\n```sh\nmake test\n```\n",
	"go.work":          "go 1.25.0\n\nuse (\n\t.\n\t./more\n)\n\nreplace example.com/lib v0.3.0 => ./\n",
	"go.mod":           "module example.com/lib\n\ngo 1.25.0\n",
	"lib.go":           "package lib\n\nconst Answer = 42\n",
	"test/run/main.go": "package main\n\nfunc main() { panic(\"not installed\") }\n",
	"more/go.mod":      "module example.com/lib/more\n\ngo 1.25.0\n\nrequire example.com/lib v0.3.0\n",
	"more/more.go":     "package more\n\nimport \"example.com/lib\"\n\nvar Answer = lib.Answer\n",
	"more/cmd/tell/main.go": `package main

import (
	"fmt"
	"runtime/debug"

	_ "example.com/lib/more"
)

func main() {
	b, _ := debug.ReadBuildInfo()
	fmt.Println("tell", b.Main.Version)
}
`,
	"private/go.mod": "module example.com/lib/private\n\ngo 1.25.0\n\nrequire example.com/lib v0.3.0\n",
}

func TestReleaseCheck(t *testing.T) {
	tests := []struct {
		name    string
		changes map[string]string // file: old text, an arrow, new text
		want    string            // a pattern of the error
	}{
		{"good", nil, ""},
		{
			"another version is required",
			map[string]string{"more/go.mod": "lib v0.3.0→lib v0.2.0"},
			`^more/go.mod: requires example.com/lib v0.2.0, but VERSION is v0.3.0: run make tidy$`,
		},
		{
			"another version is required by a module that is not released",
			map[string]string{"private/go.mod": "lib v0.3.0→lib v0.2.0"},
			`^private/go.mod: requires example.com/lib v0.2.0`,
		},
		{
			"a replace is needed",
			map[string]string{"more/go.mod": "require example.com/lib v0.3.0→require example.com/lib v0.3.0\n\nreplace example.com/lib => ../"},
			`^more/go.mod: replaces example.com/lib, which dependents ignore: remove`,
		},
		{
			"the workspace hides a missing requirement",
			map[string]string{"more/go.mod": "require example.com/lib v0.3.0→"},
			`(?s)^more: does not (load|build) outside of the workspace: .*providing package example.com/lib.*make tidy`,
		},
		{
			"a package is not in the module",
			map[string]string{"lib.go": "package lib→package lib\n\nimport _ \"example.com/lib/left\"", ".gitignore": "→left/", "left/left.go": "→package left"},
			`(?s)^\.: does not (load|build) outside of the workspace: .*example.com/lib/left`,
		},
		{
			"the command does not know its version",
			map[string]string{"more/cmd/tell/main.go": "b.Main.Version→b.GoVersion"},
			`tell --version prints "tell go1`,
		},
		{"a line of the README does not work", map[string]string{"README.md": "cmd/tell@→cmd/say@"}, `(?s)^README.md: go install example.com/lib/more/cmd/say@latest: .*cmd/say`},
		{"a line of the README is missing", map[string]string{"README.md": "go install example.com/lib/more/cmd/tell@latest\n→"}, `^README.md: add to the section Install: go install example.com/lib/more/cmd/tell@latest$`},
		{"the README does not install the library", map[string]string{"README.md": "go get example.com/lib →go get example.com/lib/more "}, `^README.md: add to the section Install: go get example.com/lib$`},
		{"a line of the README is not run", map[string]string{"README.md": "go get example.com→brew install lib\ngo get example.com"}, `^README.md: release-check cannot run "brew install lib": write go get`},
		{"the version is not in the changelog", map[string]string{"CHANGELOG.md": "v0.3.0→v0.3.01"}, `^CHANGELOG.md has no heading "## v0.3.0"`},
		{"no version", map[string]string{"VERSION": "v0.3.0→0.3"}, `^VERSION: "0.3" is not a version`},
		{"a module is not in the workspace", map[string]string{"go.work": "\t./more\n→"}, `^go.work: add "use ./more"$`},
		{"the release is not replaced in the workspace", map[string]string{"go.work": "lib v0.3.0→lib v0.2.0"}, `go.work: add "replace example.com/lib v0.3.0 => ./\."`},
		{"a module has the wrong path", map[string]string{"more/go.mod": "lib/more→lib/less"}, `^more/go.mod: the module is example.com/lib/less, want example.com/lib/more`},
		{
			"a module that is not released is required",
			map[string]string{"more/go.mod": "require example.com/lib v0.3.0→require (\n\texample.com/lib v0.3.0\n\texample.com/lib/private v0.3.0\n)"},
			`more/go.mod: requires example.com/lib/private, which is not released`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := repositoryOf(t, tt.changes)
			err := run(root, map[string]string{"private": "is a test"})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && err == nil:
				t.Errorf("no error, want %s", tt.want)
			case tt.want != "" && !regexp.MustCompile(tt.want).MatchString(err.Error()):
				t.Errorf("%v\nwant %s", err, tt.want)
			}
		})
	}
	t.Run("an ignored module is gone", func(t *testing.T) {
		t.Parallel()
		err := run(repositoryOf(t, nil), map[string]string{"private": "is a test", "gone": "was a test"})
		if err == nil || !strings.Contains(err.Error(), "names gone, which has no go.mod") {
			t.Error(err)
		}
	})
}

// repositoryOf returns the directory of a repository like good, with changes.
func repositoryOf(t *testing.T, changes map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files := make(map[string]string)
	for name, text := range good {
		files[name] = text
	}
	for name, change := range changes {
		old, text, _ := strings.Cut(change, "→")
		if !strings.Contains(files[name], old) {
			t.Fatalf("%s does not contain %q", name, old)
		}
		files[name] = strings.Replace(files[name], old, text, 1)
	}
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

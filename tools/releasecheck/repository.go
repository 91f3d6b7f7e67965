package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// A repository is what a release is made of.
type repository struct {
	root      string
	version   string // the next release, from the file VERSION
	changelog string
	work      *modfile.WorkFile
	modules   []*mod // the root module first
	ignored   map[string]string
}

// A mod is a module of the repository.
type mod struct {
	dir      string // relative to the root, with slashes
	path     string
	file     *modfile.File
	released bool
}

// open reads the repository at root.
func open(root string, ignored map[string]string) (*repository, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &repository{root: root, ignored: ignored}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return nil, err
	}
	r.version = strings.TrimSpace(string(version))
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return nil, fmt.Errorf("VERSION: %q is not a version such as v1.2.3", r.version)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	r.changelog = string(changelog)
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	if r.work, err = modfile.ParseWork("go.work", work, nil); err != nil {
		return nil, err
	}
	files, err := r.files(".")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if path.Base(file) != "go.mod" || strings.Contains(file, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		parsed, err := modfile.Parse(file, text, nil)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(file)
		_, ignore := ignored[dir]
		r.modules = append(r.modules, &mod{dir: dir, path: parsed.Module.Mod.Path, file: parsed, released: !ignore})
	}
	slices.SortFunc(r.modules, func(a, b *mod) int { return strings.Compare(a.dir, b.dir) })
	if len(r.modules) == 0 || r.modules[0].dir != "." {
		return nil, fmt.Errorf("%s has no go.mod that git knows or could add", root)
	}
	return r, nil
}

// files returns the files below a directory of the repository, relative to it:
// those that git tracks and those that it would add.
func (r *repository) files(dir string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = filepath.Join(r.root, filepath.FromSlash(dir))
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w", cmd.Dir, err)
	}
	files := slices.Compact(slices.Sorted(strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00")))
	// A file that was deleted but not committed is still listed.
	return slices.DeleteFunc(files, func(file string) bool {
		_, err := os.Lstat(filepath.Join(cmd.Dir, filepath.FromSlash(file)))
		return errors.Is(err, fs.ErrNotExist)
	}), nil
}

// own returns the module of this repository with an import path.
func (r *repository) own(path string) *mod {
	for _, m := range r.modules {
		if m.path == path {
			return m
		}
	}
	return nil
}

// problems returns what the files of the modules say wrong, each with what to
// change.
func (r *repository) problems() []error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	heading := func(line string) bool {
		rest, ok := strings.CutPrefix(line, "## "+r.version)
		return ok && (rest == "" || rest[0] == ' ')
	}
	if !slices.ContainsFunc(strings.Split(r.changelog, "\n"), heading) {
		add("CHANGELOG.md has no heading \"## %s\": add it, or change VERSION", r.version)
	}
	for _, dir := range slices.Sorted(maps.Keys(r.ignored)) {
		if !slices.ContainsFunc(r.modules, func(m *mod) bool { return m.dir == dir }) {
			add("notReleased in tools/releasecheck/main.go names %s, which has no go.mod: remove the entry", dir)
		}
	}
	for _, m := range r.modules {
		name := path.Join(m.dir, "go.mod")
		if want := path.Join(r.modules[0].path, m.dir); m.path != want {
			add("%s: the module is %s, want %s", name, m.path, want)
		}
		for _, rep := range m.file.Replace {
			add("%s: replaces %s, which dependents ignore: remove the replace directive (go.work has its own for a clone)", name, rep.Old.Path)
		}
		for _, req := range m.file.Require {
			own := r.own(req.Mod.Path)
			switch {
			case own == nil:
				continue
			case req.Mod.Version != r.version:
				add("%s: requires %s %s, but VERSION is %s: run make tidy", name, own.path, req.Mod.Version, r.version)
			case m.released && !own.released:
				add("%s: requires %s, which is not released: remove it, or take it out of notReleased in tools/releasecheck/main.go", name, own.path)
			case !r.workReplaces(own):
				add("go.work: add \"replace %s %s => ./%s\", because %s requires it before it is published", own.path, r.version, own.dir, name)
			}
		}
		if m.released && !slices.ContainsFunc(r.work.Use, func(u *modfile.Use) bool { return path.Clean(u.Path) == m.dir }) {
			add("go.work: add \"use ./%s\"", m.dir)
		}
	}
	return problems
}

// workReplaces reports whether go.work replaces the next release of a module by
// its directory.
func (r *repository) workReplaces(m *mod) bool {
	return slices.ContainsFunc(r.work.Replace, func(rep *modfile.Replace) bool {
		return rep.Old.Path == m.path && rep.Old.Version == r.version && path.Clean(rep.New.Path) == m.dir
	})
}

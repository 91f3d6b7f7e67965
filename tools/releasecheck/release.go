package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// A release tags the modules of a repository if it passes all checks.
type release struct {
	version string
	dry     bool                    // check, but do not tag
	test    func(root string) error // runs the tests
	ignored map[string]string       // as in run
}

// makeTest runs the tests of the repository at root.
func makeTest(root string) error {
	cmd := exec.Command("make", "test")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=") // this program runs without a workspace, the tests need it
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make test: %w", err)
	}
	return nil
}

// run checks the repository at root, and tags it. It tags nothing if a check
// fails. It does not push.
func (rel release) run(root string) error {
	if !semver.IsValid(rel.version) || semver.Canonical(rel.version) != rel.version {
		return fmt.Errorf("%q is not a version such as v1.2.3: run make release VERSION=v1.2.3", rel.version)
	}
	r, err := open(root, rel.ignored)
	if err != nil {
		return err
	}
	last, problems := rel.state(r)
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if err := rel.compatible(r, last); err != nil {
		return err
	}
	if err := run(r.root, rel.ignored); err != nil {
		return err
	}
	if err := rel.test(r.root); err != nil {
		return err
	}
	if err := clean(r.root); err != nil { // a test may have written files
		return err
	}
	tags := r.tags()
	if rel.dry {
		fmt.Printf("%s can be released. Not tagged: %s\n", rel.version, strings.Join(tags, " "))
		return nil
	}
	return rel.tag(r, tags)
}

// tag makes all tags or none, and prints how to push them.
func (rel release) tag(r *repository, tags []string) error {
	for i, tag := range tags {
		if _, err := git(r.root, "tag", "--annotate", "--message", "Release "+tag, tag); err != nil {
			for _, made := range tags[:i] {
				_, undo := git(r.root, "tag", "--delete", made)
				err = errors.Join(err, undo)
			}
			return err
		}
	}
	fmt.Printf("Tagged. To publish:\n\n\tgit push --atomic origin main %s\n", strings.Join(tags, " "))
	return nil
}

// state returns the last release, or "" if there is none, and what keeps the
// repository from being released.
func (rel release) state(r *repository) (last string, problems []error) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if r.version != rel.version {
		add("VERSION is %s: write %s into it and run make tidy, or release %s", r.version, rel.version, r.version)
	}
	if err := dated(r.changelog, rel.version); err != nil {
		problems = append(problems, err)
	}
	if err := clean(r.root); err != nil {
		problems = append(problems, err)
	}
	if branch, err := git(r.root, "branch", "--show-current"); err != nil {
		problems = append(problems, err)
	} else if branch != "main" {
		add("the branch is %q: run git switch main", branch)
	}
	listed, err := git(r.root, "tag", "--list")
	if err != nil {
		return "", append(problems, err)
	}
	existing := strings.Fields(listed)
	for _, tag := range r.tags() {
		if slices.Contains(existing, tag) {
			add("the tag %s exists: release another version; a published tag must not change", tag)
		}
	}
	for _, tag := range existing {
		if semver.IsValid(tag) && semver.Compare(tag, last) > 0 && tag != rel.version {
			last = tag
		}
	}
	if semver.Compare(last, rel.version) > 0 {
		add("%s is released already: release a later version", last)
	}
	return last, problems
}

// clean checks that the work tree has no changes.
func clean(root string) error {
	changes, err := git(root, "status", "--porcelain")
	if err == nil && changes != "" {
		err = fmt.Errorf("the work tree has changes: commit or discard\n%s", changes)
	}
	return err
}

// dated checks that the changelog has a heading of the version with a date.
func dated(changelog, version string) error {
	want := fmt.Sprintf("## %s (%s)", version, time.Now().Format(time.DateOnly))
	for line := range strings.Lines(changelog) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "## "+version)
		if !ok || rest != "" && rest[0] != ' ' {
			continue
		}
		date := strings.TrimSuffix(strings.TrimPrefix(rest, " ("), ")")
		if _, err := time.Parse(time.DateOnly, date); err != nil || rest != " ("+date+")" {
			return fmt.Errorf("CHANGELOG.md: the heading %q has no date: change it to %q", strings.TrimSpace(line), want)
		}
		return nil
	}
	return fmt.Errorf("CHANGELOG.md has no section of %s: add %q", version, want)
}

// tags returns the tags of a release. The tag of a module follows those of the
// modules that it requires.
func (r *repository) tags() []string {
	var tags []string
	seen := make(map[*mod]bool)
	var visit func(*mod)
	visit = func(m *mod) {
		if m == nil || seen[m] || !m.released {
			return
		}
		seen[m] = true
		for _, req := range m.file.Require {
			visit(r.own(req.Mod.Path))
		}
		tags = append(tags, path.Join(m.dir, r.version))
	}
	for _, m := range r.modules {
		visit(m)
	}
	return tags
}

// git runs git in a directory and returns what it prints.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

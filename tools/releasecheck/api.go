package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// mayBreak reports whether docs/versions.md allows incompatible changes of the
// Go API between two versions.
func mayBreak(last, next string) bool {
	if semver.Major(next) == "v0" {
		return semver.MajorMinor(last) != semver.MajorMinor(next)
	}
	return semver.Major(last) != semver.Major(next)
}

// compatible prints how the Go API differs from the last release. It fails if
// the version must not have incompatible changes, but has some.
func (rel release) compatible(r *repository, last string) (err error) {
	if last == "" {
		fmt.Println("There is no earlier release, so the API is not compared.")
		return nil
	}
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	if _, err := git(tmp, "clone", "--quiet", "--shared", "--branch", last, r.root, "old"); err != nil {
		return err
	}
	old, err := open(filepath.Join(tmp, "old"), rel.ignored)
	if err != nil {
		return err
	}
	var breaks []string
	for _, m := range old.modules {
		if !m.released {
			continue
		}
		found, err := r.compare(old, m)
		if err != nil {
			return err
		}
		breaks = append(breaks, found...)
	}
	switch {
	case len(breaks) == 0:
		fmt.Printf("The API has no incompatible changes since %s.\n", last)
	case mayBreak(last, rel.version):
		fmt.Printf("Incompatible changes since %s, which CHANGELOG.md must explain:\n%s\n", last, strings.Join(breaks, "\n"))
	default:
		return fmt.Errorf("%s must not break the API of %s: undo these changes, or release another version (docs/versions.md)\n%s",
			rel.version, last, strings.Join(breaks, "\n"))
	}
	return nil
}

// compare returns the incompatible changes of a module since an old repository.
func (r *repository) compare(old *repository, m *mod) ([]string, error) {
	if now := r.own(m.path); now == nil || !now.released {
		return []string{m.path + ": the module is removed"}, nil
	}
	before, err := exported(old, m)
	if err != nil {
		return nil, err
	}
	after, err := exported(r, m)
	if err != nil {
		return nil, err
	}
	var breaks []string
	for _, p := range before {
		i := slices.IndexFunc(after, func(q *packages.Package) bool { return q.PkgPath == p.PkgPath })
		if i < 0 {
			breaks = append(breaks, p.PkgPath+": the package is removed")
			continue
		}
		var text bytes.Buffer
		if err := apidiff.Changes(p.Types, after[i].Types).TextIncompatible(&text, false); err != nil {
			return nil, err
		}
		for line := range strings.Lines(text.String()) {
			breaks = append(breaks, p.PkgPath+": "+strings.TrimPrefix(strings.TrimSpace(line), "- "))
		}
	}
	return breaks, nil
}

// exported returns the packages of a module that dependents can import.
func exported(r *repository, m *mod) ([]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		Dir:  filepath.Join(r.root, filepath.FromSlash(m.dir)),
		Env:  append(os.Environ(), "GOWORK="+filepath.Join(r.root, "go.work")),
	}, "./...")
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s of %s: %w", p.PkgPath, r.version, p.Errors[0])
		}
	}
	return slices.DeleteFunc(all, func(p *packages.Package) bool {
		return p.Name == "main" || slices.Contains(strings.Split(p.PkgPath, "/"), "internal")
	}), nil
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// installLines returns the commands of the section Install of a README. Code
// blocks hold them.
func installLines(readme string) []string {
	var lines []string
	section, code := false, false
	for line := range strings.Lines(readme) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case !code && strings.HasPrefix(line, "## "):
			section = line == "## Install"
		case section && code && line != "" && line[0] != '#':
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// readme runs the lines of README.md that install the library and the commands.
// The library and each command must have a line.
func (o *outside) readme(commands []string) error {
	text, err := os.ReadFile(filepath.Join(o.repo.root, "README.md"))
	if err != nil {
		return err
	}
	missing := []string{"go get " + o.repo.modules[0].path}
	for _, c := range commands {
		missing = append(missing, "go install "+c+"@latest")
	}
	for _, line := range installLines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "go" || words[1] != "get" && words[1] != "install" {
			return fmt.Errorf("README.md: release-check cannot run %q: write go get MODULE or go install COMMAND@latest, or move it out of the section Install", line)
		}
		if err := o.follow(line, words[1], words[2]); err != nil {
			return err
		}
		missing = slices.DeleteFunc(missing, func(s string) bool { return s == line })
	}
	if len(missing) > 0 {
		return fmt.Errorf("README.md: add to the section Install: %s", strings.Join(missing, ", "))
	}
	return nil
}

// follow runs one line in a new module, and checks that it has installed the
// version of the repository.
func (o *outside) follow(line, verb, what string) error {
	dir, err := os.MkdirTemp(o.tmp, "readme")
	if err != nil {
		return err
	}
	env := append(slices.Clone(o.env), "GOFLAGS=-modcacherw", "GOBIN="+dir)
	if out, err := command(dir, env, "mod", "init", "example.com/reader"); err != nil {
		return fmt.Errorf("go mod init: %w\n%s", err, out)
	}
	if out, err := command(dir, env, verb, what); err != nil {
		return fmt.Errorf("README.md: %s: %w\n%s%s", line, err, out, advice)
	}
	var got string
	if verb == "get" {
		got, err = command(dir, env, "list", "-m", what)
	} else {
		name, _, _ := strings.Cut(what, "@")
		var out []byte
		out, err = exec.Command(filepath.Join(dir, path.Base(name)), "--version").CombinedOutput()
		got = string(out)
	}
	if err != nil {
		return fmt.Errorf("README.md: after %s: %w\n%s", line, err, got)
	}
	if !slices.Contains(strings.Fields(got), o.repo.version) {
		return fmt.Errorf("README.md: %s installs %q, want %s", line, got, o.repo.version)
	}
	fmt.Printf("README.md: %s works\n", line)
	return nil
}

package main_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/command.md has the commands, the exit statuses and the flags of the help.
func TestCommandPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	flag := regexp.MustCompile(`--[a-z][a-z-]*`)
	helps, run := execute(t, "--help").out, execute(t, "run", "--help").out
	statuses := regexp.MustCompile(`\b1\d\d\b`).FindAllString(helps+run, -1)
	for _, command := range complete(t, "") {
		helps += execute(t, command, "--help").out
		if command != "help" && !strings.Contains(page, "`"+command+"`") {
			t.Errorf("the page lacks the command %s", command)
		}
	}
	known := append(flag.FindAllString(helps, -1), "--full") // of ./backup.sh
	for _, f := range flag.FindAllString(page, -1) {
		if !slices.Contains(known, f) {
			t.Errorf("the page has the flag %s, which no command has", f)
		}
	}
	_, flags, _ := strings.Cut(run, "\nFlags:\n")
	flags, _, _ = strings.Cut(flags, "\nGlobal Flags:\n")
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(flags, -1) {
		if m[1] != "--help" && !strings.Contains(page, "\n| `"+m[1]+"`") && !strings.Contains(page, "\n| `"+m[1]+" ") {
			t.Errorf("the page lacks a row for the flag %s of run", m[1])
		}
	}
	for _, status := range statuses {
		if status != "128" && !regexp.MustCompile(`(?m)^\| (\d+, )?`+status+`[, ]`).MatchString(page) {
			t.Errorf("the page lacks the exit status %s", status)
		}
	}
}

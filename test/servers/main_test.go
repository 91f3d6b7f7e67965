package main

import (
	"os"
	"strings"
	"testing"
)

func TestEnter(t *testing.T) {
	text := "before\n\n| server | single | redisson |\n|---|---|---|\n| Redis 6.2.14 | 2026-01-02, 3m1s | |\n\nafter\n"
	for _, e := range [][3]string{
		{"Valkey 9.1.2", "redisson", "2026-01-03, 4m"},
		{"Redis 8.0.6", "single", "**failed** 2026-01-03, 5m"},
		{"Redis 6.2.14", "single", "2026-01-04, 6m"},
	} {
		var err error
		if text, err = enter(text, e[0], e[1], e[2]); err != nil {
			t.Fatal(err)
		}
	}
	want := "before\n\n| server | single | redisson |\n|---|---|---|\n| Redis 6.2.14 | 2026-01-04, 6m |  |\n" +
		"| Redis 8.0.6 | **failed** 2026-01-03, 5m |  |\n| Valkey 9.1.2 |  | 2026-01-03, 4m |\n\nafter\n"
	if text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if _, err := enter(text, "Redis 8.0.6", "soak", "x"); err == nil {
		t.Error("a suite without a column was entered")
	}
	if _, err := enter("", "Redis 8.0.6", "single", "x"); err == nil {
		t.Error("a result was entered without a table")
	}
}

// The page has a column for each suite, and no failed one.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		if _, err := enter(string(text), "Redis 6.2.14", s.name, "x"); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(string(text), "**failed**") {
		t.Errorf("%s has a suite that failed", page)
	}
}

func TestVersionOf(t *testing.T) {
	if _, err := versionOf("true"); err == nil || !strings.Contains(err.Error(), "not a server") {
		t.Errorf("a program that is not a server: %v", err)
	}
	if _, err := versionOf("./absent"); err == nil {
		t.Error("an absent program has a version")
	}
}

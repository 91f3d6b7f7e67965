package main_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestDocumented checks that the help describes every field of the JSON output.
func TestDocumented(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := lsOpen(t, s)
	const strange = "orders:\xff" // not UTF-8
	s.Do(t, "HSET", strange, "\xff:1", "1")
	s.Do(t, "PEXPIRE", strange, "600000")
	lsHold(t, client.FencedMutex("fenced"))
	lsHold(t, client.FairMutex("queue"))
	lsWait(t, lsOpen(t, s).FairMutex("queue"))
	eventually(t, "the queue has a waiter", func() bool {
		return strings.Contains(execute(t, "show", "queue", "--url", s.URL()).out, "1. ")
	})
	for _, args := range [][]string{
		{"demo", "--shops", "2", "--buyers", "9", "--stock", "4", "--only", "mutex,paused"},
		{"bench", "--for", "200ms"},
		{"doctor"},
		{"ls"},
		{"show", "queue"},
		{"show", "fenced"},
		{"watch", "--count", "1"},
		{"unlock", strange, "--force", "--yes"},
		{"show", "none"},
		{"unlock", "none", "--force", "--yes"},
	} {
		t.Run(strings.ToValidUTF8(strings.Join(args, " "), "?"), func(t *testing.T) {
			r := execute(t, append(args, "--json", "--url", s.URL())...)
			var document any
			if err := json.Unmarshal([]byte(r.out), &document); err != nil {
				t.Fatalf("%v: %s%s", err, r.out, r.err)
			}
			_, help, _ := strings.Cut(execute(t, args[0], "--help").out, "\nWith --json")
			help, _, _ = strings.Cut(help, "\nUsage:\n")
			fields := make(map[string]bool)
			documented(document, fields)
			for f := range fields {
				if !regexp.MustCompile(`\b` + f + `\b`).MatchString(help) {
					t.Errorf("%s is in the JSON, but not in the help:\n%s", f, help)
				}
			}
			if len(fields) < 2 {
				t.Errorf("only %d fields in %s", len(fields), r.out)
			}
		})
	}
}

// documented collects the names of all fields in a document.
func documented(document any, fields map[string]bool) {
	switch v := document.(type) {
	case map[string]any:
		for name, value := range v {
			fields[name] = true
			documented(value, fields)
		}
	case []any:
		for _, value := range v {
			documented(value, fields)
		}
	}
}

package rueidis

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

// The table in ADR 4 counts the lines of every file of this package, and is about
// the version of rueidis that is in use. If the version has changed, compare each
// row with it.
func TestDecisionCounts(t *testing.T) {
	text, err := os.ReadFile("../../docs/adr/0004-rueidis.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "| rueidis "+rueidis.LibVer+" |") {
		t.Errorf("the table is not about rueidis %s", rueidis.LibVer)
	}
	counted := make(map[string]bool)
	name := regexp.MustCompile("`([a-z]+\\.go)`")
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]+\|([^|]+)\| *(\d+) *\|`).FindAllStringSubmatch(string(text), -1) {
		lines := 0
		for _, m := range name.FindAllStringSubmatch(row[1], -1) {
			source, err := os.ReadFile(m[1])
			if err != nil {
				t.Error(err)
			}
			if counted[m[1]] {
				t.Errorf("%s is counted twice", m[1])
			}
			counted[m[1]] = true
			lines += bytes.Count(source, []byte("\n"))
		}
		said, _ := strconv.Atoi(row[2])
		if 100*said < 85*lines || 100*said > 115*lines {
			t.Errorf("%shas %d lines, not %d", row[1], lines, said)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && !counted[file] {
			t.Errorf("%s is in no row", file)
		}
	}
}

package script_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/protocol.md names scripts that exist, and all prefixes of keys and channels.
func TestProtocolPage(t *testing.T) {
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("../../docs/protocol.md")
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) < 80 {
		t.Fatal(len(files), err)
	}
	scripts := []string{"vote_acquire"} // lib/vote and mutex_acquire
	families := make(map[string]bool)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		scripts = append(scripts, name)
		family, _, _ := strings.Cut(name, "_")
		families[family] = true
	}
	named := 0
	for _, m := range regexp.MustCompile("`([a-z]+)_[a-z_]+`").FindAllStringSubmatch(page, -1) {
		if name := strings.Trim(m[0], "`"); (families[m[1]] || m[1] == "vote") && !strings.HasPrefix(name, "uptime") {
			named++
			if !slices.Contains(scripts, name) {
				t.Errorf("the page names the script %s, which does not exist", name)
			}
		}
	}
	if named < 30 {
		t.Errorf("only %d scripts were found on the page", named)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`"((?:holdfast|redisson)[a-z_]*:[a-z_]+|redisson_[a-z_]+)`).FindAllStringSubmatch(read(file), -1) {
			if !strings.Contains(page, m[1]) {
				t.Errorf("the page lacks %s, which %s uses", m[1], file)
			}
		}
	}
}

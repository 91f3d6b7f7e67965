package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/configuration.md names every key that a file may have.
func TestAllKeysAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, rules := range places() {
		for key := range rules {
			if !strings.Contains(string(text), "`"+key+"`") && !strings.Contains(string(text), key+":\n") {
				t.Errorf("%s of %q is not there", key, path)
			}
		}
	}
}

// The files in docs/configuration.md can be read.
func TestDocumentedFiles(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	for _, m := range files {
		file := regexp.MustCompile(`(?m)^holdfast:\n  tls: .*$`).ReplaceAll(m[1], nil) // there is no such certificate
		if _, err := Parse(file, func(string) (string, bool) { return "secret", true }); err != nil {
			t.Errorf("%v in\n%s", err, m[1])
		}
	}
	if len(files) < 4 {
		t.Errorf("the page has %d files", len(files))
	}
}

package config

import (
	"os"
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

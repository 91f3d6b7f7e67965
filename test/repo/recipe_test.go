package repo_test

import (
	"encoding/json"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code in "How to add a kind" of CONTRIBUTING.md makes a kind that keeps the contract of all
// locks, and that is acquired by its own script.
func TestRecipe(t *testing.T) {
	t.Parallel()
	_, recipe, _ := strings.Cut(readDoc(t, "CONTRIBUTING.md"), "\n## How to add a kind\n")
	recipe, _, _ = strings.Cut(recipe, "\n## ")
	files := map[string]string{"test/conformance/foo_test.go": readDoc(t, "test/repo/testdata/foo_test.go")}
	blocks := recipeBlock.FindAllStringSubmatch(recipe, -1)
	for _, b := range blocks {
		file, list, code := b[2], b[3], strings.ReplaceAll("\n"+b[4], "\n   ", "\n")[1:]
		if list == "" {
			files[file] = b[1] + " " + file + "\n" + code
		} else {
			before, after, ok := strings.Cut(readDoc(t, file), "\nvar "+list+" = []Kind{\n")
			if !ok {
				t.Fatalf("%s has no list %s", file, list)
			}
			files[file] = before + "\nvar " + list + " = []Kind{\n" + code + after
		}
		if strings.HasSuffix(file, ".go") {
			if formatted, err := format.Source([]byte(files[file])); err != nil || string(formatted) != files[file] {
				t.Errorf("the code of %s is not formatted: %v", file, err)
			}
		}
	}
	if len(blocks) != 5 {
		t.Fatalf("%d blocks of code, want 5", len(blocks))
	}

	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for file, text := range files {
		added := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(added, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = added
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	noteSources(t)
	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-v", "-overlay", filepath.Join(dir, "overlay.json"),
		"-run", "^(TestFooClaims|Test(CM|PL)[0-9]+[^/]*)$/^foo$", "./test/conformance")
	out, err := cmd.CombinedOutput()
	text := string(out)
	ran := strings.Contains(text, "--- PASS: TestFooClaims ") && strings.Count(text, "/foo (") >= 20
	if err != nil || !ran {
		t.Errorf("%v: %v\n%s", cmd, err, verbose.ReplaceAllString(text, ""))
	}
}

// verbose finds the lines about tests that begin, go on or pass.
var verbose = regexp.MustCompile(`(?m)^ *(=== |--- PASS).*\n`)

// recipeBlock finds a block of code in a list, whose first line is a comment with the name of the
// file, and the name of the list to whose head it is added.
var recipeBlock = regexp.MustCompile("(?s)\n   ```(?:go|lua)\n   (//|--) ([\\w/.]+)(?:, in (\\w+))?\n(   .*?\n)   ```\n")

// noteSources lets go test run this test again after a change of the library or of the contract,
// which other processes compile.
func noteSources(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"internal", "driver", "test/conformance"} {
		err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

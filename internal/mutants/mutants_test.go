package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// mutated returns the file of a mutant with the bug in it.
func mutated(t *testing.T, m Mutant) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte(m.Old)); n != 1 {
		t.Fatalf("%s: %q occurs in %s %d times, want once: adapt the mutant to the code", m.Name, m.Old, m.File, n)
	}
	return bytes.Replace(source, []byte(m.Old), []byte(m.New), 1)
}

// Every mutant applies to the code and compiles.
func TestMutantsApply(t *testing.T) {
	exports := compiled(t)
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			source := mutated(t, m)
			if !declared(t, m.Pkg, m.Test) {
				t.Errorf("package %s has no test that matches %s", m.Pkg, m.Test)
			}
			if filepath.Ext(m.File) == ".go" {
				typeCheck(t, m.File, source, exports)
			}
		})
	}
}

var tests = regexp.MustCompile(`(?m)^func (Test\w*)\(`)

// declared reports whether a package has a test that matches a pattern of -run.
func declared(t *testing.T, pkg, pattern string) bool {
	t.Helper()
	top, _, _ := strings.Cut(pattern, "/")
	match := regexp.MustCompile(top)
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(tests.FindAllSubmatch(source, -1), func(found [][]byte) bool { return match.Match(found[1]) })
	})
}

// compiled returns the files with the compiled packages that this module uses, by import path.
func compiled(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-test", "-f", "{{.ImportPath}}={{.Export}}", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			files[path] = file
		}
	}
	return files
}

// typeCheck type-checks the package of a file with the given source in place of that file.
func typeCheck(t *testing.T, name string, source []byte, exports map[string]string) {
	t.Helper()
	folder := filepath.Join(root, filepath.Dir(name))
	pkg, err := build.ImportDir(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, f := range pkg.GoFiles {
		var contents any
		if f == filepath.Base(name) {
			contents = source
		}
		file, err := parser.ParseFile(fset, filepath.Join(folder, f), contents, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := config.Check(pkg.ImportPath, fset, files, nil); err != nil {
		t.Error(err)
	}
}

// Every mutant is found by the test that it names. The test is slow, so it only
// runs with make mutants.
func TestMutants(t *testing.T) {
	part, parts := 1, 1
	if which := os.Getenv("HOLDFAST_MUTANTS"); which == "" {
		t.Skip("run by make mutants")
	} else if _, err := fmt.Sscanf(which, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		t.Fatalf("HOLDFAST_MUTANTS is %q, want a part such as 1/1 or 2/3", which)
	}
	for i, m := range All {
		if i%parts != part-1 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // one at a time per processor
			text, err := attempt(t, m, m.Pkg, m.Test)
			switch {
			case err == nil:
				t.Errorf("%s is still green:\n%s", m.Test, text)
			case strings.Contains(text, "[build failed]") || strings.Contains(text, "no tests to run"):
				t.Errorf("the mutant was not tried:\n%s", text)
			case !strings.Contains(text, "--- FAIL") && !strings.Contains(text, "panic:"):
				t.Errorf("no test failed:\n%s", text)
			}
		})
	}
}

// attempt runs tests with a mutant.
func attempt(t *testing.T, m Mutant, pkg, test string) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	changed := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(changed, mutated(t, m), 0o644); err != nil {
		t.Fatal(err)
	}
	original, err := filepath.Abs(filepath.Join(root, m.File))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-count=1", "-timeout=60s", "-overlay="+file, "-run="+test, "./"+pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSimulated lists which mutants of the engine the simulation finds as well.
func TestSimulated(t *testing.T) {
	if os.Getenv("HOLDFAST_SIMULATED") == "" {
		t.Skip("HOLDFAST_SIMULATED=1 is needed")
	}
	engine := regexp.MustCompile(`^internal/(engine|watchdog|wait|clock)/`)
	for _, m := range All {
		if !engine.MatchString(m.File) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			out, err := attempt(t, m, "test/simulation", "TestSchedules")
			found := regexp.MustCompile(`(P[0-9]): |panic: .*`).FindString(out)
			t.Log(err != nil, found)
		})
	}
}

package repo_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-go/holdfast"

// mayImport says which packages of this module each package may import, apart
// from its tests. Calls go one way down: primitive, engine, script, driver.
var mayImport = map[string][]string{
	".":                  {"driver", "driver/rueidis", "inspect", "internal/access", "internal/async", "internal/asynclog", "internal/check", "internal/clock", "internal/combine", "internal/config", "internal/deadlock", "internal/engine", "internal/script", "internal/watchdog", "observe"},
	"object":             {".", "driver", "internal/access", "internal/clock", "internal/engine", "internal/ids", "internal/listen", "internal/script"},
	"driver":             {},
	"driver/rueidis":     {"driver"},
	"driver/drivertest":  {"driver", "internal/redistest"},
	"fence":              {"driver", "internal/script"},
	"inspect":            {"driver", "internal/engine", "internal/script"}, // of the engine, the errors
	"dashboard":          {"driver", "inspect", "internal/display", "internal/lockjson", "observe"},
	"debug":              {".", "observe"},
	"observe":            {"internal/engine"}, // the errors
	"internal/access":    {"driver", "internal/engine", "internal/script"},
	"internal/async":     {"internal/clock"},
	"internal/asynclog":  {"internal/async"},
	"internal/check":     {"driver", "internal/script"},
	"internal/clock":     {},
	"internal/config":    {"driver/rueidis"},
	"internal/script":    {"driver", "internal/clock"}, // of the clock, random numbers that a seed repeats
	"internal/wait":      {"driver"},
	"internal/combine":   {"driver", "internal/script"},
	"internal/watchdog":  {"driver", "internal/clock", "internal/script"},
	"internal/settle":    {"driver", "internal/clock"},
	"internal/numbered":  {"driver", "internal/script"},
	"internal/engine":    {"driver", "internal/clock", "internal/numbered", "internal/script", "internal/settle", "internal/wait", "internal/watchdog"},
	"internal/ids":       {"driver", "internal/clock", "internal/engine", "internal/script"},
	"internal/listen":    {"driver", "internal/engine", "internal/script", "internal/wait"},
	"internal/fake":      {"driver"},
	"internal/deadlock":  {"driver", "internal/script"},
	"internal/display":   {},
	"internal/load":      {},
	"internal/lockjson":  {"inspect"},
	"internal/measure":   {"observe"},
	"internal/locktest":  {"internal/check", "internal/redistest", "object"},
	"internal/redistest": {},
	"internal/mutants":   {},
	"test/topology":      {},
	"test/servers":       {},
	"test/repo/walk":     {".", "driver", "driver/rueidis", "test/repo/walk/trace"},

	"test/repo/walk/trace": {}, // imported by all packages, when the functions of an event are recorded

	"internal/measure/measuretest": {"driver", "internal/clock", "internal/fake", "internal/locktest", "internal/measure", "internal/redistest", "observe"},
}

// onlyIn says which files may import something, where not all may. A name that
// ends in a slash is that of a folder.
var onlyIn = map[string][]string{
	module + "/driver/rueidis": {"open.go", "internal/config/config.go", "internal/config/keys.go", "internal/config/servers.go", "test/repo/walk/main.go"},
	"github.com/redis/rueidis": {
		"driver/rueidis/node.go", "driver/rueidis/identity.go", "driver/rueidis/calls.go", "driver/rueidis/facts.go", "driver/rueidis/replicated.go",
		"driver/rueidis/sentinel.go", "driver/rueidis/cluster.go",
	},
	"go.yaml.in/yaml/v3":           {"internal/config/keys.go", "internal/config/node.go", "internal/config/servers.go", "internal/config/value.go"},
	module + "/internal/redistest": {"driver/drivertest/", "internal/locktest/", "internal/measure/measuretest/"},
	module + "/internal/fake":      {"internal/measure/measuretest/"},
	module + "/internal/locktest":  {"internal/measure/measuretest/"},
	module + "/driver/drivertest":  {},
	"math/rand":                    {}, // math/rand/v2
	"unsafe":                       {"internal/clock/boot_linux.go", "internal/load/memory_unix.go", "internal/redistest/clock_linux.go"},
	"golang.org/x/sys":             {},
	"net/http":                     {"dashboard/", "debug/"},
}

func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(path.Join(file, "go.mod")); err == nil && file != "." {
				return filepath.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		file = filepath.ToSlash(file)
		pkg := path.Dir(file)
		seen[pkg] = true
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("package %s has no rule: say in test/repo/imports_test.go what it may import", pkg)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if rel, ours := strings.CutPrefix(imported, module+"/"); ours && !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s, which package %s may not", file, rel, pkg)
			}
			mayIn := func(f string) bool { return f == file || strings.HasSuffix(f, "/") && strings.HasPrefix(file, f) }
			if files, limited := onlyIn[imported]; limited && !slices.ContainsFunc(files, mayIn) {
				t.Errorf("%s imports %s, which only %v may", file, imported, files)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("the rule for %s is about a package that is not there", pkg)
		}
	}
}

// The library requires two other modules, and what those need.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var direct []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
		if f := strings.Fields(line); len(f) == 2 && strings.Contains(f[0], ".") {
			direct = append(direct, f[0])
		}
	}
	if !slices.Equal(direct, []string{"github.com/redis/rueidis", "go.yaml.in/yaml/v3"}) {
		t.Errorf("direct requirements: %v", direct)
	}
}

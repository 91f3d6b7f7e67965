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
	c := newChecker(compiled(t))
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			source := mutated(t, m)
			if !declared(t, m.Pkg, m.Test) {
				t.Errorf("package %s has no test that matches %s", m.Pkg, m.Test)
			}
			if filepath.Ext(m.File) == ".go" {
				c.check(t, m.File, source)
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

// compiled returns the files with the compiled packages that this module and the nested
// modules holdfasttest, otel and cmd/holdfast use, by import path.
func compiled(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-test", "-f", "{{.ImportPath}}={{.Export}}", "./...", "./holdfasttest/...", "./otel/...", "./cmd/holdfast/...")
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

// A checker type-checks packages. It reads each file and each compiled package once.
type checker struct {
	fset    *token.FileSet
	imports types.Importer
	files   map[string]*ast.File
}

func newChecker(exports map[string]string) *checker {
	fset := token.NewFileSet()
	return &checker{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	}), make(map[string]*ast.File)}
}

// check type-checks the package of a file with the given source in place of that file.
func (c *checker) check(t *testing.T, name string, source []byte) {
	t.Helper()
	folder := filepath.Join(root, filepath.Dir(name))
	pkg, err := build.ImportDir(folder, 0)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, f := range pkg.GoFiles {
		path := filepath.Join(folder, f)
		if f == filepath.Base(name) {
			files = append(files, c.parse(t, path, source))
			continue
		}
		if c.files[path] == nil {
			c.files[path] = c.parse(t, path, nil)
		}
		files = append(files, c.files[path])
	}
	config := types.Config{Importer: c.imports}
	if _, err := config.Check(pkg.ImportPath, c.fset, files, nil); err != nil {
		t.Error(err)
	}
}

// parse parses a file, or the source in place of it.
func (c *checker) parse(t *testing.T, path string, source []byte) *ast.File {
	t.Helper()
	var contents any // a nil []byte would be an empty file
	if source != nil {
		contents = source
	}
	file, err := parser.ParseFile(c.fset, path, contents, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Every mutant is found by the test that it names. The test is slow, so it only
// runs with make mutants.
func TestMutants(t *testing.T) {
	part, parts := partOf(t, "HOLDFAST_MUTANTS")
	for i, m := range All {
		if i%parts != part-1 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // one at a time per processor
			text, err := attempt(t, m, m.Pkg, m.Test, "60s")
			switch {
			case err == nil:
				t.Errorf("%s is still green:\n%s", m.Test, text)
			case strings.Contains(text, "[build failed]") || strings.Contains(text, "no tests to run"):
				t.Errorf("the mutant was not tried:\n%s", text)
			case !strings.Contains(text, "--- FAIL") && !strings.Contains(text, "panic:") && !strings.Contains(text, "fatal error:"):
				t.Errorf("no test failed:\n%s", text)
			}
		})
	}
}

// partOf returns which part of how many a variable selects. It skips the test if the
// variable is not set.
func partOf(t *testing.T, variable string) (part, parts int) {
	t.Helper()
	if which := os.Getenv(variable); which == "" {
		t.Skip("set " + variable + " to 1/1, or to a part such as 2/3")
	} else if _, err := fmt.Sscanf(which, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
		t.Fatalf("%s is %q, want a part such as 1/1 or 2/3", variable, which)
	}
	return part, parts
}

// attempt runs tests with a mutant, for at most limit, with these variables.
func attempt(t *testing.T, m Mutant, pkg, test, limit string, env ...string) (output string, err error) {
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
	cmd := exec.Command("go", "test", "-count=1", "-vet=off", "-timeout="+limit, "-run="+test, "./"+pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+file) // also for programs that the test builds
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// schedules is within how many schedules the simulation must find a mutant.
const schedules = "300"

// simulatedFiles are the files whose mutants the simulation should find: the engine, the scripts
// of locks and permits, and what calls them.
var simulatedFiles = regexp.MustCompile(`^internal/(engine|watchdog|wait|clock|combine|settle)/` +
	`|^internal/script/(election|fenced|leased|lock|rwmutex)\.go|^(election|lease|named|parts|redlock)\.go` +
	`|^internal/script/lua/(lib/|batch/)?(acquire|batch|counter|dequeue|election|enqueue|enter|entries|fair|fenced|give|grant|group|hand|held|keep|leased|left|listeners|locked|mutex|pass|pause|permits|queue|raise|read|release|renew|rwmutex|settle|share|tell_all|vote|write)`)

// profilesOf returns the profiles of the simulation that are to find a mutant: they take turns.
// The first pattern counts that matches the file and the name.
func profilesOf(m Mutant) string {
	for _, p := range []struct{ pattern, profiles string }{
		{`read hold is handed off|read holds of a writer end|takes a free lock keeps new readers out`, "quiet rw"},
		{`a waiter that gives up stays`, "hasty"},
		{`a failed release is not retried`, "various"},
		{`queue (of a fair mutex )?grows without|place in a full queue|killed waiters never|(fill|from) (the|a full) queue$`, "full"},
		{`after an outage`, "outage"},
		{`not confirmed soon`, "pauses"},
		{`queue is not used again`, "rights"},
		{`without a pause`, "forged"},
		{`short lease for longer`, "mutex"},
		{`grant by a release is renewed with the other`, "quiet"},
		{`reentry shortens the lease`, "various"},
		{`ForceUnlock is not reported to holders`, "strict kinds"},
		{`a set that fails keeps the locks|counts from its first lock|cancelled at its last lock`, "fair sets"},
		{`valid while any part is valid`, "sets"},
		{`internal/settle/`, "rights,outage,mutex,hasty,stays,weak kinds"},
		{`engine/(acqui|answer|claim|turn\.|waiting)`, "mutex,hasty,quiet rw,quiet few permits,fair,weak kinds,various,rights,readers"},
		{`engine/close`, "mutex,fair,rw,sets,stays,permits,various"},
		{`engine/queue`, "quiet,mutex,quiet few permits,strict,weak,rights,various,fair"},
		{`engine/(gate|rivals)`, "mutex,quiet,quiet few permits,weak,strict,full,various"},
		{`engine/(hold|turnstile|users)`, "quiet rw,quiet few permits,various,strict,weak,mutex,weak kinds"},
		{`engine/release`, "mutex,quiet,stays,various,strict,weak"},
		{`engine/(engine|local|replicate|tokens|grant)\.`, "strict,weak,various,strict kinds,weak kinds,mutex,permits"},
		{`engine/(multi|joint)|lua/(group|mutexes)`, "fair sets,sets,quiet sets"},
		{`quorum|vote|^redlock`, "redlock"},
		{`^(lease|parts)`, "fair sets,sets,redlock,mutex"},
		{`combine|batch`, "combined"},
		{`clock/`, "mutex,various,strict"},
		{`internal/wait/`, "quiet,quiet fair,quiet rw,mutex,fair"},
		{`watchdog/`, "quiet,mutex,various,strict,weak,quiet rw,quiet few permits,weak kinds,strict kinds"},
		{`fair.*:`, "quiet renewed fair,fair,hasty,full,quiet mixed fair,mixed"},
		{`(leased|permits).*:`, "quiet few permits,permits,quiet permits,weak kinds"},
		{`(rwmutex|share|named|read|write|pause|settle|left|enter|raise|tell_all).*:`, "rw,quiet rw,readers,quiet mixed,mixed,strict kinds,weak kinds"},
		{`(fenced|election|counter).*:`, "fenced,quiet,election,combined,mixed,strict kinds"},
		{`keep\.lua`, "stays"},
		{`lua/`, "mutex,quiet,hasty,quiet mixed,full,rights,mixed,fenced,strict,stays"},
	} {
		if regexp.MustCompile(p.pattern).MatchString(m.File + ": " + m.Name) {
			return p.profiles
		}
	}
	return ""
}

// Every mutant that is named as not simulated exists, once. CONTRIBUTING.md has the
// numbers.
func TestNotSimulated(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := func(text string) {
		if !bytes.Contains(page, []byte(text)) {
			t.Errorf("CONTRIBUTING.md does not contain %q", text)
		}
	}
	named := make(map[string]bool)
	for why, names := range notSimulated {
		documented(fmt.Sprintf("| %s | %d |", why, len(names)))
		for _, name := range names {
			if named[name] {
				t.Errorf("%q is named twice", name)
			}
			named[name] = true
			if !slices.ContainsFunc(All, func(m Mutant) bool { return m.Name == name && simulatedFiles.MatchString(m.File) }) {
				t.Errorf("there is no mutant %q in a simulated file", name)
			}
		}
	}
	found := len(simulated())
	documented(fmt.Sprintf("%d of the %d of these kinds", found, found+len(named)))
}

// The simulation finds each mutant of its kinds that is not named as not simulated. The
// test is slow, so it only runs with HOLDFAST_SIMULATED=1/1, or a part such as 2/3.
func TestSimulated(t *testing.T) {
	part, parts := partOf(t, "HOLDFAST_SIMULATED")
	found := regexp.MustCompile(`HOLDFAST_SEED=.*|panic: .*|fatal error: .*`)
	for i, m := range simulated() {
		if i%parts != part-1 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			text, err := attempt(t, m, "test/simulation", "TestSchedules", "10m", "HOLDFAST_SCHEDULES="+schedules, "HOLDFAST_SHRINK=off", "HOLDFAST_PROFILE="+profilesOf(m))
			if by := found.FindString(text); err == nil || by == "" || strings.HasPrefix(by, "panic: test timed out") {
				t.Errorf("the simulation does not find it:\n%s", text)
			} else {
				t.Log(by)
			}
		})
	}
}

// simulated returns the mutants that the simulation must find.
func simulated() (ms []Mutant) {
	for _, m := range All {
		if simulatedFiles.MatchString(m.File) && !isNotSimulated(m.Name) {
			ms = append(ms, m)
		}
	}
	return ms
}

func isNotSimulated(name string) bool {
	for _, names := range notSimulated {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

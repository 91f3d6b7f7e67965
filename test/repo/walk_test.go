package repo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/repo/walk/trace"
)

// walked are the packages whose functions are recorded.
var walked = []string{
	".", "driver", "driver/rueidis", "internal/combine", "internal/engine",
	"internal/script", "internal/settle", "internal/wait", "internal/watchdog",
}

// An event is a section of docs/architecture.md.
type event struct {
	name    string
	heading string
	like    string // the heading of the section whose table this one continues; "": none
	others  bool   // what other goroutines do is a part of it
}

var events = []event{
	{name: "lock", heading: "A free lock"},
	{name: "wait", heading: "A held lock", like: "A free lock"},
	{name: "release", heading: "Release"},
	{name: "renewal", heading: "Renewal", others: true},
	{name: "loss", heading: "Loss", others: true},
}

const (
	architecture = "docs/architecture.md"
	mostHops     = 9 // rows of a table
	mostHelp     = 7 // functions of a helper that an event uses
)

var update = flag.Bool("update", false, "write the lists of helpers in "+architecture)

// docs/architecture.md says which functions and scripts an event uses, in their order:
//
//   - Each function that a table names is used, in the order of the table. Each file that the
//     text names is used.
//   - The scripts of the table are those that are sent.
//   - The table has each file of the library that is on the stack when a script is sent, and
//     each of which the event uses many functions.
//   - The list of helpers has all other files of these packages.
func TestArchitectureWalk(t *testing.T) {
	page := readDoc(t, architecture)
	program, functions := buildWalk(t)
	for _, m := range method.FindAllStringSubmatch(page, -1) {
		if !functions[m[1]] && !strings.HasSuffix(m[1], ".go") {
			t.Errorf("%s names %s, which does not exist", architecture, m[1])
		}
	}
	var mu sync.Mutex
	help := make(map[string]string) // by heading
	t.Run("events", func(t *testing.T) {
		for _, e := range events {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				steps := record(t, program, e)
				for n := 1; e.name == "wait" && !granted(steps) && n < 5; n++ {
					steps = record(t, program, e)
				}
				line := e.check(t, page, steps)
				mu.Lock()
				defer mu.Unlock()
				help[e.heading] = line
			})
		}
	})
	if !*update || t.Failed() {
		return
	}
	for _, e := range events {
		text := section(page, e.heading)
		page = strings.Replace(page, text, helpLine.ReplaceAllString(text, help[e.heading]), 1)
	}
	if err := os.WriteFile(architecture, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	hopRow   = regexp.MustCompile("(?m)^\\| *\\d+ *\\| `([^`]+)` *\\|([^|]*)\\|")
	method   = regexp.MustCompile("`([a-z]\\w*\\.[a-z]\\w*)`")
	goFile   = regexp.MustCompile("`([\\w/]+\\.go)`")
	helpLine = regexp.MustCompile("(?m)^<details><summary>Helpers</summary>.*$")
)

// section returns the text of a section of the page.
func section(page, heading string) string {
	_, text, _ := strings.Cut(page, "\n### "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n#")
	return text
}

// hops returns the steps that a table names, in its order, and its files.
func hops(text string) (steps, files []string) {
	for _, row := range hopRow.FindAllStringSubmatch(text, -1) {
		file := row[1]
		files = append(files, file)
		if strings.HasSuffix(file, ".lua") {
			steps = append(steps, path.Base(file))
		}
		for _, fn := range codeWord.FindAllString(row[2], -1) {
			steps = append(steps, file+" "+strings.Trim(fn, "`"))
		}
	}
	return steps, files
}

// check compares a section with what was recorded. It returns its list of helpers.
func (e event) check(t *testing.T, page string, recorded []trace.Step) (helpers string) {
	text := section(page, e.heading)
	named, files := hops(text)
	if len(named) == 0 || len(files) > mostHops {
		t.Fatalf("the section %q has a table of %d rows, want 1 to %d", e.heading, len(files), mostHops)
	}
	table := text
	text = helpLine.ReplaceAllString(text, "")
	before, more := hops(section(page, e.like))
	files = append(files, more...)

	var steps, scripts []string
	uses := make(map[string]int) // how many functions of a file
	for _, s := range recorded {
		if s.Other && !e.others && !strings.HasPrefix(s.Name, "internal/wait/") {
			continue // such as the watchdog
		}
		steps = append(steps, s.Name)
		if strings.HasSuffix(s.Name, ".lua") {
			scripts = append(scripts, s.Name)
		}
		for _, file := range s.Files {
			if mapped(file) && !slices.Contains(files, file) {
				t.Errorf("%s is sent from %s, which is not in the table", s.Name, file)
			}
		}
		if file, _, ok := strings.Cut(s.Name, " "); ok {
			uses[file]++
		}
	}
	last := -1
	for _, name := range named {
		i := slices.Index(steps, name)
		switch {
		case i < 0:
			t.Errorf("%s is in the table, but is not used", name)
		case i < last:
			t.Errorf("%s is used before %s", name, steps[last])
		}
		last = max(last, i)
	}
	for _, name := range before {
		if !slices.Contains(steps, name) {
			t.Errorf("%s is in the table that this one continues, but is not used", name)
		}
	}
	for _, name := range scripts {
		if !slices.Contains(named, name) && !slices.Contains(before, name) {
			t.Errorf("%s is sent, but is not in the table", name)
		}
	}
	for _, m := range goFile.FindAllStringSubmatch(text, -1) {
		if uses[m[1]] == 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(uses)), func(f string) bool { return strings.HasSuffix(f, "/"+m[1]) }) {
			t.Errorf("%s is named, but is not used", m[1])
		}
	}
	folders := make(map[string][]string)
	for _, file := range slices.Sorted(maps.Keys(uses)) {
		if !mapped(file) || slices.Contains(files, file) {
			continue
		}
		if n := uses[file]; n > mostHelp {
			t.Errorf("%d functions of %s are used: it is no helper, so put it into the table", n, file)
		}
		folders[path.Dir(file)] = append(folders[path.Dir(file)], path.Base(file))
	}
	var lists []string
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		list := strings.Join(folders[folder], ", ")
		if folder != "." {
			list = folder + ": " + list
		}
		lists = append(lists, list)
	}
	helpers = "<details><summary>Helpers</summary>" + strings.Join(lists, "; ") + ".</details>"
	if t.Failed() {
		steps = slices.DeleteFunc(steps, func(s string) bool { return strings.HasPrefix(s, "driver/") })
		t.Logf("recorded:\n%s", strings.Join(steps, "\n"))
	}
	if !*update && helpLine.FindString(table) != helpers {
		t.Errorf("run go test ./test/repo -run TestArchitectureWalk -update, because the section %q should have the line\n%s", e.heading, helpers)
	}
	return helpers
}

// mapped reports whether the page must have a file: those of the driver, and of what watches and
// listens, only if they are of interest.
func mapped(file string) bool {
	return slices.Contains([]string{".", "internal/engine", "internal/script"}, path.Dir(file))
}

// buildWalk compiles the program walk, with a call of trace.Enter in each function of the
// packages. It returns the names of these functions, too.
func buildWalk(t *testing.T) (program string, functions map[string]bool) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	functions = make(map[string]bool)
	replace := make(map[string]string)
	add := func(file, text string) {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, file)] = changed
	}
	for _, pkg := range walked {
		files, err := filepath.Glob(pkg + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(pkg, err)
		}
		name := ""
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				file = filepath.ToSlash(file)
				var text string
				text, name = traced(t, file, functions)
				add(file, text)
			}
		}
		add(path.Join(pkg, "zz_trace.go"), "package "+name+"\n\nimport \""+module+"/test/repo/walk/trace\"\n\nfunc traceEnter(step string) { trace.Enter(step) }\n")
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	add("overlay.json", string(overlay))
	program = filepath.Join(dir, "walk")
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./test/repo/walk")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program, functions
}

// traced returns the text of a file whose functions call trace.Enter first, and its package. It
// adds the names of the functions.
func traced(t *testing.T, file string, functions map[string]bool) (text, pkg string) {
	t.Helper()
	text = readDoc(t, file)
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range slices.Backward(f.Decls) { // an insertion moves what follows
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && fn.Name.Name != "init" {
			functions[funcName(fn)] = true
			at := files.Position(fn.Body.Lbrace).Offset + 1
			text = text[:at] + " traceEnter(\"" + file + " " + funcName(fn) + "\"); " + text[at:]
		}
	}
	return text, f.Name.Name
}

// funcName returns the name of a function as the page has it: Type.Method for a method.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// granted reports whether a release has granted the lock. One release in a hundred leaves it to
// all waiters, and a waiter on a slow machine may ask before.
func granted(steps []trace.Step) bool {
	return slices.ContainsFunc(steps, func(s trace.Step) bool { return strings.HasSuffix(s.Name, " DecodeGrant") })
}

// record runs an event, and returns what it has used.
func record(t *testing.T, program string, e event) (steps []trace.Step) {
	t.Helper()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL()).Mutex("m")
	cmd := exec.Command(program, e.name, s.URL(), m.Name())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var held *holdfast.Lease
	if e.name == "wait" {
		held = locktest.Lock(t, ctx, m)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd, err)
		}
	}()
	if held != nil {
		queued := func() bool { return s.Do(t, "ZCARD", "holdfast:queue:{m}") == int64(1) }
		locktest.Eventually(t, locktest.Late, "the other client waits", queued)
		locktest.Release(t, held)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "held" {
			locktest.Must[bool](t)(m.ForceUnlock(ctx))
		} else if err := json.Unmarshal(lines.Bytes(), &steps); err != nil {
			t.Error(err)
		}
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		for i, file := range step.Files {
			if rel, err := filepath.Rel(root, file); err == nil {
				step.Files[i] = filepath.ToSlash(rel)
			}
		}
	}
	return steps
}

package repo_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// waitsFile lists the functions of test code that wait in real time: the file, the function, how
// often it waits, and why it has to.
const waitsFile = "test/repo/testdata/waits.txt"

// mostWaits is how many waits in real time there are. It only falls.
const mostWaits = 50

// helpers are the packages that help to test, besides the files named _test.go.
var helpers = []string{
	"driver/drivertest", "internal/fake", "internal/locktest", "internal/measure/measuretest", "internal/mutants",
	"internal/redistest", "test", "bench",
}

// Test code waits in real time only where waits.txt says why. Elsewhere, time is faked with
// testing/synctest, or a test awaits a signal. With -update, the file gets the new numbers.
//
// A wait is a call of time.Sleep, After, Tick, NewTicker, NewTimer or AfterFunc, and of a
// function in pauses. A case of a select that ends the test is a deadline, not a wait.
func TestWaitsInRealTime(t *testing.T) {
	found := realWaits(t)
	reasons, listed := readWaits(t)
	if *update {
		writeWaits(t, found, reasons)
		return
	}
	total := 0
	for _, w := range slices.SortedFunc(maps.Keys(found), compareWaiters) {
		n := found[w]
		total += n
		switch {
		case n > listed[w]:
			t.Errorf("%s: %s waits %d times in real time, and %s allows %d: fake the time with testing/synctest, or await a signal (locktest.Eventually)", w.file, w.function, n, waitsFile, listed[w])
		case n < listed[w]:
			t.Errorf("%s: %s waits only %d times in real time, and %s says %d: run go test ./test/repo -run TestWaitsInRealTime -update", w.file, w.function, n, waitsFile, listed[w])
		}
	}
	for w := range listed {
		if found[w] == 0 {
			t.Errorf("%s: %s does not wait in real time: remove it from %s", w.file, w.function, waitsFile)
		}
	}
	t.Logf("%d waits in real time", total)
	if total > mostWaits {
		t.Errorf("there are %d waits in real time, more than the %d of before", total, mostWaits)
	}
	if total < mostWaits {
		t.Errorf("there are only %d waits in real time: set mostWaits to that", total)
	}
}

// A waiter is a function of a test that waits in real time.
type waiter struct{ file, function string }

func compareWaiters(a, b waiter) int {
	return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.function, b.function))
}

func readWaits(t *testing.T) (reasons map[waiter]string, listed map[waiter]int) {
	t.Helper()
	reasons, listed = make(map[waiter]string), make(map[waiter]int)
	for line := range strings.Lines(readDoc(t, waitsFile)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, " ", 4)
		n := 0
		if len(f) == 4 {
			n, _ = strconv.Atoi(f[2])
		}
		if n == 0 {
			t.Fatalf("%s: %q: want a file, a function, a number and a reason", waitsFile, line)
		}
		w := waiter{f[0], f[1]}
		reasons[w], listed[w] = f[3], n
	}
	return reasons, listed
}

func writeWaits(t *testing.T, found map[waiter]int, reasons map[waiter]string) {
	t.Helper()
	out := "# Where test code waits in real time, how often, and why. See TestWaitsInRealTime.\n"
	for _, w := range slices.SortedFunc(maps.Keys(found), compareWaiters) {
		out += fmt.Sprintf("%s %s %d %s\n", w.file, w.function, found[w], cmp.Or(reasons[w], "to be replaced"))
	}
	if err := os.WriteFile(waitsFile, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
}

// realWaits counts the waits in real time by function.
func realWaits(t *testing.T) map[waiter]int {
	t.Helper()
	packages := make(map[string]*testPackage)
	var names []string
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		dir := path.Dir(file)
		if e.IsDir() {
			if base := e.Name(); file != "." && (base == "testdata" || base == "target" || base == "bin" || base[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		helper := slices.ContainsFunc(helpers, func(h string) bool { return dir == h || strings.HasPrefix(dir, h+"/") })
		if !strings.HasSuffix(file, "_test.go") && (!helper || !strings.HasSuffix(file, ".go")) {
			return nil
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p := packages[dir]
		if p == nil {
			p = &testPackage{files: make(map[string]*ast.File), faked: make(map[string]bool), bubbles: make(map[string]bool)}
			packages[dir], names = p, append(names, dir)
		}
		p.files[file] = parsed
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && (called(call) == "clock.Fake" || called(call) == "measuretest.FakeTime") {
				p.clock, p.only = true, p.only || !strings.HasSuffix(file, "_test.go") && helper
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // until nothing more is found: helpers call helpers
		for _, p := range packages {
			p.findBubbles(packages)
		}
	}
	found := make(map[waiter]int)
	for _, dir := range names {
		p := packages[dir]
		for p.findFaked(packages) {
		}
		for file, f := range p.files {
			p.walk(packages, f, func(n ast.Node, function string, faked bool) {
				if waits(n) && !faked {
					found[waiter{file, function}]++
				}
			})
		}
	}
	return found
}

// A testPackage is a package with what is known of its functions, by their names.
type testPackage struct {
	files   map[string]*ast.File
	bubbles map[string]bool // functions that run a function that they get in a bubble
	faked   map[string]bool // functions that are used in bubbles only
	clock   bool            // it fakes its clock, so its methods are called in bubbles
	only    bool            // it helps to test in faked time, and does nothing else
}

// pauses are functions of package locktest that wait whenever they are called.
var pauses = map[string]bool{"Waits": true}

// waits reports whether a node is a call that waits.
func waits(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch name := called(call); name {
	case "time.Sleep", "time.After", "time.Tick", "time.NewTicker", "time.NewTimer", "time.AfterFunc":
		return true
	default:
		pkg, function, ok := strings.Cut(name, ".")
		return ok && pkg == "locktest" && pauses[function]
	}
}

// called returns what a call calls, as in "time.Sleep".
func called(call *ast.CallExpr) string {
	f := call.Fun
	if index, ok := f.(*ast.IndexExpr); ok {
		f = index.X
	}
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}

// inBubble reports whether a call runs the functions among its arguments in a bubble.
func (p *testPackage) inBubble(all map[string]*testPackage, call *ast.CallExpr) bool {
	name := called(call)
	if name == "synctest.Test" || p.bubbles[name] {
		return true
	}
	pkg, function, ok := strings.Cut(name, ".")
	if !ok {
		return false
	}
	for dir, other := range all {
		if path.Base(dir) == pkg && other.bubbles[function] {
			return true
		}
	}
	return p.bubbles[function] // a method
}

// walk calls f for each node of a file, with the function that it is in, and whether its time is
// faked. It leaves out the deadlines of selects.
func (p *testPackage) walk(all map[string]*testPackage, file *ast.File, f func(n ast.Node, function string, faked bool)) {
	var visit func(n ast.Node, function string, faked bool)
	visit = func(root ast.Node, function string, faked bool) {
		ast.Inspect(root, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CommClause:
				if ends(n) {
					for _, s := range n.Body {
						visit(s, function, faked)
					}
					return false
				}
			case *ast.CallExpr:
				if p.inBubble(all, n) {
					for _, arg := range n.Args {
						visit(arg, function, true)
					}
					f(n, function, faked)
					return false
				}
			case nil:
				return true
			}
			f(n, function, faked)
			return true
		})
	}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.FuncDecl)
		switch {
		case !ok:
			visit(d, "var", false)
		case decl.Body != nil: // without its name, which is no use of it
			faked := p.faked[decl.Name.Name] || p.clock && decl.Recv != nil || p.only
			visit(decl.Type, decl.Name.Name, faked)
			visit(decl.Body, decl.Name.Name, faked)
		}
	}
}

// ends reports whether a case of a select fails the test, so that its time is a deadline.
func ends(c *ast.CommClause) (found bool) {
	for _, s := range c.Body {
		ast.Inspect(s, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				name := called(call)
				switch strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]) {
				case "fatal", "fatalf", "error", "errorf", "panic":
					found = true
				}
				found = found || name == "errors.New" // which is returned
			}
			return true
		})
	}
	return found
}

// findBubbles finds the functions that have a function among their parameters, and use it in a
// bubble.
func (p *testPackage) findBubbles(all map[string]*testPackage) {
	for _, file := range p.files {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil || strings.HasPrefix(decl.Name.Name, "Test") {
				continue
			}
			params := make(map[string]bool)
			for _, field := range decl.Type.Params.List {
				if _, ok := field.Type.(*ast.FuncType); ok {
					for _, n := range field.Names {
						params[n.Name] = true
					}
				}
			}
			ast.Inspect(decl.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !p.inBubble(all, call) {
					return true
				}
				for _, arg := range call.Args {
					ast.Inspect(arg, func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok && params[id.Name] {
							p.bubbles[decl.Name.Name] = true
						}
						return true
					})
				}
				return true
			})
		}
	}
}

// findFaked finds the functions that are used in bubbles, and not elsewhere. It reports whether
// it has found more of them.
func (p *testPackage) findFaked(all map[string]*testPackage) (more bool) {
	inside, outside := make(map[string]bool), make(map[string]bool)
	for _, file := range p.files {
		p.walk(all, file, func(n ast.Node, function string, faked bool) {
			id, ok := n.(*ast.Ident)
			switch {
			case !ok:
			case faked:
				inside[id.Name] = true
			case id.Name != function: // a function that calls itself runs where its callers do
				outside[id.Name] = true
			}
		})
	}
	for _, file := range p.files {
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok {
				name := decl.Name.Name
				if inside[name] && !outside[name] && !p.faked[name] {
					p.faked[name], more = true, true
				}
			}
		}
	}
	return more
}

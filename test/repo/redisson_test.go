package repo_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the page for users of Redisson says in Go is Go, and means something: all code in the
// column Holdfast of a table, and all other code that begins with a name of ours.
func TestFromRedisson(t *testing.T) {
	const file, least = "docs/from-redisson.md", 200
	load := exported(t)
	checked := 0
	for _, section := range strings.Split(readDoc(t, file), "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		s, err := newScope(load, preludes(section))
		if err != nil {
			t.Errorf("%s, %s: %v", file, heading, err)
			continue
		}
		for _, c := range goCode(section) {
			checked++
			if err := s.eval(c); err != nil {
				t.Errorf("%s, %s: `%s`: %v", file, heading, c, err)
			}
		}
	}
	if checked < least {
		t.Errorf("%s: %d pieces of code were looked at; where are the others?", file, checked)
	}
}

// The functions that the page shows are those that are run as an example.
func TestFromRedissonExamples(t *testing.T) {
	page, source := readDoc(t, "docs/from-redisson.md"), readDoc(t, "example_redisson_test.go")
	shown := fenced(page, "go")
	for _, f := range shown {
		if !strings.Contains(source, "\n"+f) {
			t.Errorf("example_redisson_test.go lacks what the page shows:\n%s", f)
		}
	}
	if java := fenced(page, "java"); len(java) < 5 || len(shown) < len(java) {
		t.Errorf("%d pieces of Java, %d of Go", len(java), len(shown))
	}
}

func readDoc(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// fenced returns the blocks of code in a language.
func fenced(page, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	prelude  = regexp.MustCompile("`(\\w+) := ([^`]+)`")
	ours     = regexp.MustCompile(`^(holdfast|object|fence|client|lease|Options|[a-z])\.[A-Z]`)
)

// preludes returns what a section says its variables are, as declarations.
func preludes(section string) (decls string) {
	for _, m := range prelude.FindAllStringSubmatch(section, -1) {
		decls += "var " + m[1] + " = " + m[2] + "\n"
	}
	return decls
}

// goCode returns the expressions in a section.
func goCode(section string) (code []string) {
	column := -1
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			cells, column = []string{line}, -1
		} else if i := slices.Index(cells, " Holdfast "); i >= 0 {
			column = i
		}
		for i, cell := range cells {
			for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
				if c := m[1]; ours.MatchString(c) || i == column && strings.ContainsAny(c, ".(") {
					code = append(code, c)
				}
			}
		}
	}
	return code
}

// A scope is where the expressions of a section have their meaning.
type scope struct {
	fset *token.FileSet
	pkg  *types.Package
	end  token.Pos
}

const everywhere = `package page

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/object"
)

var (
	ctx           context.Context
	client        *holdfast.Client
	clients       []*holdfast.Client
	lease         *holdfast.Lease
	Options       holdfast.Options
	x             *holdfast.Mutex
	codec         object.Codec[int64]
	name, url, id string
	ids           []string
	n             int
	v, old, delta int64
	w, d          time.Duration
	t             time.Time
	dump          []byte
	err           error
	fn            func(context.Context) error
	compute       func(context.Context) (int, error)
	acquired      func(*holdfast.Lease)
	released      func(*holdfast.Lease, error)

	_ = errors.Is
	_ fence.SQL
	_ holdfast.RedlockOptions
)

`

func newScope(load types.Importer, decls string) (*scope, error) {
	s := &scope{fset: token.NewFileSet()}
	file, err := parser.ParseFile(s.fset, "page.go", everywhere+decls, 0)
	if err != nil {
		return nil, err
	}
	s.end = file.End()
	s.pkg, err = (&types.Config{Importer: load}).Check("page", s.fset, []*ast.File{file}, nil)
	return s, err
}

func (s *scope) eval(expr string) error {
	_, err := types.Eval(s.fset, s.pkg, s.end-1, expr)
	return err
}

// exported returns an importer for what this module exports, as compiled now.
func exported(t *testing.T) types.Importer {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".", "./fence", "./object").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			files[f[0]] = f[1]
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

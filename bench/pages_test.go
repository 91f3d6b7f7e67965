package bench

import (
	"context"
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The table of each page has everything that the other library exports: functions, methods,
// options and errors.
func TestPagesComplete(t *testing.T) {
	t.Parallel()
	for page, path := range map[string]string{
		"from-etcd.md":        "go.etcd.io/etcd/client/v3/concurrency",
		"from-redislock.md":   "github.com/bsm/redislock",
		"from-redsync.md":     "github.com/go-redsync/redsync/v4",
		"from-rueidislock.md": "github.com/redis/rueidis/rueidislock",
	} {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		said := make(map[string]bool)
		for _, row := range regexp.MustCompile(`(?m)^\|([^|]*)\|`).FindAllStringSubmatch(string(text), -1) {
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(row[1], -1) {
				said[word] = true
			}
		}
		all := exports(t, path)
		for _, name := range all {
			if !said[name] && !said[strings.TrimSuffix(name, "Context")] {
				t.Errorf("the table of docs/%s lacks %s", page, name)
			}
		}
		if len(all) < 10 {
			t.Errorf("%s exports only %q", path, all)
		}
	}
}

// exports returns what a package exports, except transactions of etcd and the methods of errors
// and of options.
func exports(t *testing.T, path string) (names []string) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatal(path, err)
	}
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "stm.go" {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	pkg, err := doc.NewFromFiles(fset, parsed, path)
	if err != nil {
		t.Fatal(err)
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			for _, name := range v.Names {
				if ast.IsExported(name) {
					names = append(names, name)
				}
			}
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			names = append(names, f.Name)
		}
	}
	values(pkg.Vars)
	functions(pkg.Funcs)
	for _, typ := range pkg.Types {
		values(typ.Vars)
		functions(typ.Funcs)
		if strings.Contains(typ.Name, "Err") {
			names = append(names, typ.Name)
			continue
		}
		if !strings.HasPrefix(typ.Name, "Option") {
			functions(typ.Methods)
		}
		for _, spec := range typ.Decl.Specs {
			var members *ast.FieldList
			switch s := spec.(*ast.TypeSpec).Type.(type) {
			case *ast.StructType:
				members = s.Fields
			case *ast.InterfaceType:
				if typ.Name == "Locker" {
					members = s.Methods
				}
			}
			if members == nil {
				continue
			}
			for _, field := range members.List {
				for _, name := range field.Names {
					if name.IsExported() {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// Code of the pages that gives up on a held lock still does so after the migration.
func TestPagesGiveUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Open(t, s.URL())
	other := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = other.Close() })
	rs, locker := redsync.New(goredis.NewPool(other)), redislock.New(other)
	for _, name := range []string{"order:42", "report"} {
		s.Do(t, "SET", name, "another", "PX", "600000")
	}
	for name, call := range map[string]func(context.Context) error{
		"charge, redsync":    func(ctx context.Context) error { return chargeWithRedsync(ctx, rs) },
		"charge, mutex":      func(ctx context.Context) error { return chargeWithMutex(ctx, client) },
		"try, redsync":       func(ctx context.Context) error { return tryWithRedsync(ctx, rs) },
		"try, mutex":         func(ctx context.Context) error { return tryWithMutex(ctx, client) },
		"charge, redislock":  func(ctx context.Context) error { return chargeWithRedislock(ctx, locker) },
		"charge, lease":      func(ctx context.Context) error { return chargeWithLease(ctx, client) },
		"once, redislock":    func(ctx context.Context) error { return onceWithRedislock(ctx, locker) },
		"once, lease":        func(ctx context.Context) error { return onceWithLease(ctx, client) },
		"obtain, transition": func(ctx context.Context) error { _, err := obtain(ctx, locker, "report", time.Minute); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context()) // has no deadline
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			err, ok := locktest.Receive(done, 2*time.Minute)
			switch {
			case !ok:
				t.Error("the call does not give up")
				cancel()
				<-done
			case errors.Is(err, context.DeadlineExceeded): // redislock's own
			case errors.As(err, new(*redsync.ErrTaken)), errors.Is(err, redislock.ErrNotObtained), errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, errBusy):
			default:
				t.Errorf("the lock is held, and the call returns %v", err)
			}
		})
	}
}

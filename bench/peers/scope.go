package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// A scope owns servers, worker processes and files. It is the testing.TB of package
// redistest outside of tests.
type scope struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
}

// failure is the value that a scope panics with.
type failure struct{ error }

// within runs fn in a new scope and returns its error, or that of a helper.
func within(fn func(*scope) error) (err error) {
	s := new(scope)
	defer func() {
		for _, cleanup := range slices.Backward(s.cleanups) {
			cleanup()
		}
		switch f := recover().(type) {
		case nil:
		case failure:
			err = f.error
		default:
			panic(f)
		}
	}()
	return fn(s)
}

func (*scope) Helper()                     {}
func (*scope) Logf(f string, args ...any)  { fmt.Fprintf(os.Stderr, f+"\n", args...) }
func (s *scope) Errorf(f string, a ...any) { s.Logf(f, a...) }
func (*scope) Fatal(args ...any)           { panic(failure{errors.New(fmt.Sprint(args...))}) }
func (*scope) Fatalf(f string, a ...any)   { panic(failure{fmt.Errorf(f, a...)}) }
func (*scope) Skip(args ...any)            { panic(failure{errors.New(fmt.Sprint(args...))}) }

func (s *scope) Cleanup(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, fn)
}

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast-peers-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

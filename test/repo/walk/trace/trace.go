// Package trace records which functions a process enters. The test of docs/architecture.md
// compiles the packages of the library with a call of [Enter] at the beginning of each
// function.
package trace

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
)

// A Step is a file and a function in it, or a script.
type Step struct {
	Name  string
	Other bool     // it is one of another goroutine than that of the event
	Files []string // of a script: where it was sent, the files on the stack
}

var (
	mu    sync.Mutex
	event string          // the goroutine that has called Start
	seen  map[string]bool // nil: nothing is recorded
	steps []Step
)

// Start begins to record an event.
func Start() {
	mu.Lock()
	defer mu.Unlock()
	event, seen, steps = goroutine(), make(map[string]bool), nil
}

// Stop ends the recording. It returns the steps in the order in which each came first.
func Stop() []Step {
	mu.Lock()
	defer mu.Unlock()
	seen = nil
	return steps
}

// Enter records a function, if a recording is under way.
func Enter(name string) { record(name, false) }

// Send records a script that is sent.
func Send(name string) { record(name, true) }

func record(name string, sent bool) {
	mu.Lock()
	defer mu.Unlock()
	if seen == nil {
		return
	}
	s := Step{Name: name, Other: goroutine() != event}
	if s.Other {
		name += " of another goroutine"
	}
	if seen[name] {
		return
	}
	seen[name] = true
	if sent {
		s.Files = stack()
	}
	steps = append(steps, s)
}

// goroutine returns the number of the goroutine.
func goroutine() string {
	var text [64]byte
	id, _, _ := bytes.Cut(bytes.TrimPrefix(text[:runtime.Stack(text[:], false)], []byte("goroutine ")), []byte(" "))
	return string(id)
}

// stack returns the files on the stack, the innermost first.
func stack() (files []string) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasSuffix(f.File, ".go") {
			files = append(files, f.File)
		}
	}
	return files
}

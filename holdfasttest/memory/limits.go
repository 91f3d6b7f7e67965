package memory

import (
	"context"
	"errors"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// The limits of a request. Nothing that Holdfast sends is near them.
const (
	maxArgs  = 1 << 20  // of a command
	maxBytes = 64 << 20 // of all arguments of a command

	maxSource = 256 << 10   // bytes of a script
	maxLevels = 1000        // of nested syntax, and of nested tables in a reply
	maxSteps  = 1 << 25     // of a script
	maxTime   = time.Minute // of a script
	stepBytes = 8           // memory that a script takes for the price of one step
)

// A meter limits the work of a transaction, in steps and in time. A step is an instruction of
// a script, stepBytes of memory that a script takes, or a comparison of a pattern. The number
// of steps does not depend on the machine, and they end a script also when package time uses a
// fake clock. The time is for instructions that take long, such as the length of a table whose
// elements were removed. It must be long enough for a script on a busy machine.
//
// A meter is a context because the interpreter calls Done before each instruction.
type meter struct {
	context.Context
	left  int64
	limit time.Duration
	check int64 // look at the clock when fewer steps than this are left
	began time.Time
	err   error // the limit that is exceeded
	done  chan struct{}
}

func (m *meter) reset() {
	*m = meter{Context: context.Background(), limit: m.limit, left: maxSteps, check: maxSteps - checkSteps}
}

// checkSteps is the number of steps between two looks at the clock.
const checkSteps = 128

// Done implements context.Context. It counts one step.
func (m *meter) Done() <-chan struct{} {
	m.use(1)
	return m.done
}

// Err implements context.Context.
func (m *meter) Err() error { return m.err }

// use counts steps. It reports whether the work may go on.
func (m *meter) use(steps int64) bool {
	if m.left -= steps; m.left < m.check {
		m.look()
	}
	return m.err == nil
}

func (m *meter) look() {
	if m.began.IsZero() {
		m.began = time.Now()
	}
	m.check = max(m.left-checkSteps, 0)
	switch {
	case m.err != nil:
		return
	case m.left < 0:
		m.err = fmt.Errorf("the request needs more than %d steps or %d MB of memory, and was ended", maxSteps, maxSteps*stepBytes>>20)
	case time.Since(m.began) > m.limit:
		m.err = fmt.Errorf("the request takes longer than %v, and was ended", m.limit)
	default:
		return
	}
	m.done = make(chan struct{})
	close(m.done)
}

// step counts steps of a script.
func (m *meter) step(vm *lua.LState, steps int) {
	if !m.use(int64(steps)) {
		vm.RaiseError("%v", m.err)
	}
}

// take counts bytes that a script is about to take.
func (m *meter) take(vm *lua.LState, bytes int) { m.step(vm, bytes/stepBytes+1) }

// errInternal is a bug of the server. It must not end the process of a user.
var errInternal = errors.New("ERR internal error")

// rescue turns a panic into an error.
func rescue(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errInternal, p)
	}
}

package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
)

// longWaitTime is how long a call waits before its caller is told.
const longWaitTime = time.Second

// A Caller is told that its call has waited for longWaitTime. It returns a function that
// the engine calls when the call ends. Neither may block.
type Caller interface {
	WaitsLong(since time.Duration) (ended func())
}

// A longWait tells the caller of a call that the call waits for long.
type longWait struct {
	caller Caller // nil: none
	since  time.Duration
	ended  func() // nil: the caller was not told
}

// left returns how long the call has to wait until its caller is told.
func (w *longWait) left() time.Duration {
	if w.caller == nil || w.ended != nil {
		return never
	}
	return w.since + longWaitTime - clock.Early()
}

// check tells the caller if it is time to.
func (w *longWait) check() {
	if w.left() <= 0 {
		w.ended = w.caller.WaitsLong(w.since)
	}
}

// end tells the caller that the call has ended.
func (w *longWait) end() {
	if w.ended != nil {
		w.ended()
		w.ended, w.caller = nil, nil
	}
}

// never is longer than any wait.
const never time.Duration = 1<<63 - 1

package engine

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Warning is a sign of a bug in the program, or of a machine that is too slow.
type Warning struct {
	Reason string // see package observe
	User   watchdog.LossHandler
	Name   string
	Owner  string
	Err    error // what has happened
}

// warn logs a warning and reports it.
func (e *Engine) warn(w Warning, args ...any) {
	e.o.Log.Warn(w.Err.Error(), append([]any{"name", w.Name, "owner", w.Owner}, args...)...)
	if e.o.Events.Warned != nil {
		e.o.Events.Warned(w)
	}
}

var (
	errLeaked = errors.New("a lease is no longer used, and was not released: the lock stays held until the client is closed; release every lease")
	errLong   = errors.New("a lock is held for long")
	errLate   = errors.New("a renewal was confirmed late: the machine, the network or the server is too slow")
	errOwn    = errors.New("waiting for a lock that another lease of this client holds; to re-enter it, use the context of that lease")
)

// Confirmed is called by the watchdog when the server has renewed the hold. It looks for signs of
// bugs.
func (h *Hold) Confirmed() {
	h.mu.Lock()
	leaked, long := h.users.weaken(h.owner) && !h.warned.leaked, h.e.o.LongHold > 0 && !h.warned.long && clock.Early()-h.origin.at >= h.e.o.LongHold
	h.warned.leaked, h.warned.long = h.warned.leaked || leaked, h.warned.long || long
	user := h.users.first
	h.mu.Unlock()
	w := Warning{User: user, Name: h.Ref.Called(), Owner: h.owner}
	held := clock.Rounded(clock.Early() - h.origin.at)
	if leaked {
		w.Reason, w.Err = "leaked", errLeaked
		h.e.warn(w, "held", held)
	}
	if long {
		w.Reason, w.Err = "long hold", errLong
		h.e.warn(w, "held", held)
	}
}

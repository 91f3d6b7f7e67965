package engine

import (
	"errors"
	"slices"

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

// A user of a hold that can be garbage-collected implements weakener. The hold keeps it
// until the first renewal. Most holds end before.
type weakener interface {
	watchdog.LossHandler
	// Weaken returns a handler that does not keep the user in memory, or nil if it is
	// needed.
	Weaken(owner string) Weak
}

// Weak is a user of a hold that may be gone.
type Weak interface {
	watchdog.LossHandler
	// User returns the user, or nil if the program does not use it any more.
	User() watchdog.LossHandler
}

// Kept is called by the watchdog when the server has renewed the hold. It looks for signs of
// bugs.
func (h *Hold) Kept() {
	h.mu.Lock()
	leaked := h.weaken(&h.user)
	for i := range h.nested {
		leaked = h.weaken(&h.nested[i]) || leaked
	}
	leaked, long := leaked && !h.leaked, h.e.o.LongHold > 0 && !h.long && clock.Early()-h.granted >= h.e.o.LongHold
	h.leaked, h.long = h.leaked || leaked, h.long || long
	user := h.user
	h.mu.Unlock()
	w := Warning{User: user, Name: h.Called(), Owner: h.owner}
	held := clock.Rounded(clock.Early() - h.granted)
	if leaked {
		w.Reason, w.Err = "leaked", errLeaked
		h.e.warn(w, "held", held)
	}
	if long {
		w.Reason, w.Err = "long hold", errLong
		h.e.warn(w, "held", held)
	}
}

// weaken replaces a user by a weak one. It reports whether the program does not use it any
// more.
func (h *Hold) weaken(user *watchdog.LossHandler) (gone bool) {
	u := *user
	if weak, ok := u.(Weak); ok {
		if u = weak.User(); u == nil {
			return true
		}
	}
	if strong, ok := u.(weakener); ok {
		if weak := strong.Weaken(h.owner); weak != nil { // again, because the user may have changed
			*user = weak
		}
	}
	return false
}

// same reports whether a user of a hold is that user.
func same(a, b watchdog.LossHandler) bool {
	if weak, ok := a.(Weak); ok {
		return weak.User() == b
	}
	return a == b
}

// Keep keeps a user in memory until it is told of a loss or removed.
func (h *Hold) Keep(user watchdog.LossHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.user != nil && same(h.user, user) {
		h.user = user
	}
	if i := slices.IndexFunc(h.nested, func(u watchdog.LossHandler) bool { return same(u, user) }); i >= 0 {
		h.nested[i] = user
	}
}

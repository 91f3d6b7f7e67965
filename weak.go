package holdfast

import (
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/watchdog"
	"github.com/holdfast-go/holdfast/observe"
)

// A weakHandler is the loss handler of a lease that the program may not use any more. It does
// not keep the lease in memory. So a lease that was not released can be found.
type weakHandler struct {
	lease weak.Pointer[Lease]
	kind  string
	seen  *observation
	lost  LostError
}

// Weaken implements an interface of the engine. A lease whose context was made stays in
// memory, because a loss must end the context.
func (k *lossHandler) Weaken(owner string) engine.Weak {
	l := (*Lease)(k)
	if l.needed.Load() || l.whole != nil && l.whole.needed.Load() {
		return nil
	}
	return &weakHandler{weak.Make(l), l.kind, l.seen.Load(), LostError{Name: l.Name(), Owner: owner}}
}

// User returns the loss handler of the lease, or nil if the lease is gone.
func (w *weakHandler) User() watchdog.LossHandler {
	if l := w.lease.Value(); l != nil {
		return (*lossHandler)(l)
	}
	return nil
}

// Lost tells the lease that it is lost. If the lease is gone, Lost tells the observers.
func (w *weakHandler) Lost(why watchdog.Reason) {
	if user := w.User(); user != nil {
		user.Lost(why)
		return
	}
	if s := w.seen; s != nil && !s.lost.Swap(true) {
		e, lost := s.event, w.lost
		lost.Reason = lossReasons[why]
		e.Type, e.Time, e.Reason, e.Err = observe.Lost, time.Now(), string(lost.Reason), &lost
		e.Held = s.held(e.Time)
		s.emit(e)
	}
}

// keep makes the engine keep the lease in memory. The caller holds l.mu.
func (l *Lease) keep() {
	l.needed.Store(true)
	all := []*Lease{l}
	if l.parts != nil {
		all = l.parts.leases
	}
	for _, l := range all {
		l.hold.KeepUser((*lossHandler)(l))
	}
}

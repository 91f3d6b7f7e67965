package engine

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// logLocalWait logs, once per lock, that a call waits for a hold of its own client.
func (e *Engine) logLocalWait(h *Hold) {
	e.warned.mu.Lock()
	first := !e.warned.local[h.Ref.Key] && len(e.warned.local) < maxLocalWarned
	if first {
		e.warned.local[h.Ref.Key] = true
	}
	e.warned.mu.Unlock()
	if first {
		e.warn(Warning{Reason: "own client", Name: h.Ref.Called(), Owner: h.owner, Err: errOwn})
	}
}

// warned is what the engine has logged already.
type warned struct {
	late  pace // renewals
	mu    sync.Mutex
	local map[string]bool // by key: see logLocalWait
}

// A pace limits how often something is logged.
type pace struct{ last atomic.Int64 }

// pass reports whether that time has passed since pass last returned true.
func (p *pace) pass(every time.Duration) bool {
	now, last := int64(clock.Early()), p.last.Load()
	return (last == 0 || now-last >= int64(every)) && p.last.CompareAndSwap(last, now)
}

// excludes reports whether a hold excludes holds of a kind with these traits.
func (h *Hold) excludes(t script.Traits) bool {
	own := h.traits
	return own.Queue != script.InOrder && t.Queue != script.InOrder && (own.Queue != script.Together || t.Queue != script.Together)
}

// localHolder returns a hold of this client that excludes the acquisition, or nil.
func (a *acquisition) localHolder() *Hold {
	for _, other := range a.e.watchdog.On(cmp.Or(a.lock, a.last.blocker)) {
		if h := other.Handler.(*Hold); h != a.r.Under && h.excludes(a.traits) {
			return h
		}
	}
	return nil
}

// supersede ends the holds of this client that a grant proves lost. It reports whether a hold is
// newer than the grant, which must then be verified.
func (a *acquisition) supersede(granted *Hold) (stale bool) {
	for _, other := range a.e.watchdog.On(granted.Ref.Key) {
		h := other.Handler.(*Hold)
		switch {
		case h == granted || h == granted.origin.under || !h.excludes(granted.traits):
		case h.origin.token < granted.origin.token:
			a.e.watchdog.Lose(other, a.e.watchdog.Denied(other))
		default:
			stale = true
		}
	}
	return stale
}

// noTurn returns the error of a call that did not get its turn, and whose context has ended or not.
func (g *gate) noTurn(err, ended error) error {
	if errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	b := &Busy{Why: whyTurn, Full: errors.Is(err, ErrQueueFull), Err: ended}
	if h := g.hold.Load(); h != nil {
		b.Local, b.Why, b.TTL = true, "", max(h.Deadline()-clock.Now(), 0)
	}
	return b
}

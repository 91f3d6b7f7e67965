package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
)

// KeepUntil makes the server keep the lock until that time, a value of clock.Now, if the
// hold is released earlier. It never shortens an earlier time.
func (h *Hold) KeepUntil(t time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life.until = max(h.life.until, t)
}

// rest returns for how long the server keeps the lock if the hold is released now.
func (h *Hold) rest() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.until == 0 {
		return 0
	}
	return max(h.life.until-clock.Now(), 0)
}

// keepCall returns the call that keeps the lock for a time.
func (h *Hold) keepCall(rest time.Duration) driver.Call {
	whole := (rest + time.Millisecond - 1).Truncate(time.Millisecond)
	return script.Keep(h.Ref, whole, h.kind.Channels(h.owner)[0])
}

// keep asks the server to keep the lock until the time of KeepUntil, as lower asks it to
// free the lock. If the server does not answer, keep continues in the background. A
// request that arrives late keeps the lock for longer.
func (h *Hold) keep() answer {
	a := h.repeat(answer{}, func(Kind) (script.Freed, error) {
		held, err := script.Kept(h.e.d.Do(context.Background(), h.keepCall(max(h.rest(), time.Millisecond))))
		return script.Freed{Held: held}, err
	})
	if rest := h.rest(); a.err != nil && rest > 0 {
		h.e.settleOwner(settled(h.keepCall(rest), rest, nil))
	}
	return a
}

// ending returns the owner to settle when the engine is closed.
func (h *Hold) ending() *settle.Owner {
	if rest := h.rest(); rest > 0 {
		return settled(h.keepCall(rest), rest, nil)
	}
	return h.e.settling(h.kind, h.owner, h.rests())
}

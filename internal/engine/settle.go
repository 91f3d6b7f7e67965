package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/settle"
)

// grace is for how long a server must have answered before no open request can be executed.
func (o *Options) grace() time.Duration { return o.Patience / 4 }

// settling returns an owner of k to settle.
func (e *Engine) settling(k target, owner string, left settle.Remains) *settle.Owner {
	o := &settle.Owner{Name: owner, Remains: left, From: clock.Now()}
	k = e.withAllowedQueue(k)
	o.Free = k.Free(owner)
	if q := k.Traits().Queued; q != nil {
		o.Unqueued = q.Unqueued().Free(owner)
	}
	return o
}

// settle ends, in the background, what an owner may have.
func (e *Engine) settle(k target, owner string, left settle.Remains) {
	e.settleOwner(e.settling(k, owner, left))
}

// settleOwner settles an owner. It does so at once if the engine is closed.
func (e *Engine) settleOwner(o *settle.Owner) bool {
	if e.settler.Settle(o) {
		return true
	}
	e.free(releaseTime, []*settle.Owner{o})
	return false
}

// free settles owners before it returns. It logs the locks that it could not free.
func (e *Engine) free(limit time.Duration, owners []*settle.Owner) {
	left, err := e.settler.Now(limit, owners)
	if len(left) == 0 {
		return
	}
	var keys []string
	for _, o := range left[:min(len(left), 10)] {
		keys = append(keys, o.Free.Keys[0])
	}
	e.o.Log.Warn("could not free locks, they will expire", "locks", len(left), "keys", keys, "error", err)
}

// rests returns what a hold that is not used any more may have at the server.
func (h *Hold) rests() settle.Remains {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := h.origin.remains
	left.Until = clock.Now() + h.life.maxLease
	return left
}

// settled returns a call to repeat until the server confirms it, for at most that time.
func settled(call driver.Call, life time.Duration, done func()) *settle.Owner {
	now := clock.Now()
	return &settle.Owner{Free: call, From: now, Remains: settle.Remains{Until: now + life}, Done: done}
}

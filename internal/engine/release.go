package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Release releases the hold for one user. When the last user releases it, the hold is
// handed off inside the process or freed at the server. Release returns ErrLost if the
// hold was lost before.
func (h *Hold) Release(user watchdog.LossHandler, renewed bool) error {
	if err := h.e.begin(); err != nil {
		<-h.e.done // Close frees the lock
		return ErrLost
	}
	defer h.e.end()
	if left, err := h.leave(user, renewed); left {
		return err
	}
	h.enterForRelease()
	defer h.nest.Unlock()
	if left, err := h.removeUser(user, renewed); left {
		return err
	}
	if h.count > 1 {
		return h.releaseNested(renewed)
	}
	if renewed && h.renewers == 1 && h.pass() {
		return nil
	}
	return h.free()
}

// removeUser removes a user, so that it is not told of a loss. It reports whether this is
// all that there is to do, because the hold is lost or others share it. The caller holds
// h.nest.
func (h *Hold) removeUser(user watchdog.LossHandler, renewed bool) (left bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if renewed && h.joined > 0 { // since leave
		return h.leaveOthers(user)
	}
	h.forget(user)
	if h.lost != 0 {
		return true, ErrLost
	}
	h.ended = h.count == 1
	return false, nil
}

// forget removes a user. The caller holds h.mu.
func (h *Hold) forget(user watchdog.LossHandler) {
	if h.user != nil && same(h.user, user) {
		h.user = nil
		return
	}
	i := slices.Index(h.nested, user)
	if i < 0 {
		i = slices.IndexFunc(h.nested, func(u watchdog.LossHandler) bool { return same(u, user) })
	}
	if i >= 0 {
		h.nested = slices.Delete(h.nested, i, i+1)
	}
}

// releaseNested releases the hold for one of several users. If the server does not confirm
// it, the count at the server stays too high. This is only visible in inspection: the last
// release frees the lock with any count.
func (h *Hold) releaseNested(renewed bool) error {
	h.count--
	if renewed {
		h.renewers--
		if h.renewers == 0 {
			h.renewal = 0
			h.e.watchdog.Renew(&h.Watched, 0)
		}
	}
	over := !h.Valid()
	freed, _, err := h.lower(h.count)
	switch {
	case err == nil && freed.Held:
		return nil
	case err == nil:
		h.Disown()
		return ErrLost
	case over:
		return ErrLost
	}
	return err
}

// pass hands the hold off to the next call in the queue, if the limits of hand-offs allow
// it.
func (h *Hold) pass() bool {
	o := &h.e.o
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate == nil || h.lost != 0 || !h.passable || h.passes >= o.SlicePasses || !h.gate.waiting(h.Lease) {
		return false
	}
	now := clock.Now()
	if h.until > now || now-h.granted > o.SliceTime || h.Deadline()-now < cmp.Or(h.First, h.Lease)/2 {
		return false
	}
	token := h.token
	h.token = h.nextToken()
	h.passes++
	if !h.gate.pass(h) { // the waiting call has ended
		h.token = token
		h.passes--
		return false
	}
	return true
}

// nextToken returns a token for the next user of the hold. Tokens of the server are its
// time in microseconds. At least half of the time since the grant arrived has also passed
// at the server, even if the clocks run at different speeds. So with one token per two
// microseconds, the next token of the server is higher. A hand-off mostly takes longer
// than that. If it does not, nextToken spins, because a sleep would take thirty times as
// long.
func (h *Hold) nextToken() int64 {
	need := 2 * time.Microsecond * time.Duration(h.token+1-h.base)
	for range 100 {
		if clock.Early()-h.granted >= need {
			break
		}
		runtime.Gosched()
	}
	if short := need - (clock.Early() - h.granted); short > 0 {
		time.Sleep(short)
	}
	return h.e.tokens.fence(h.Key, h.token+1, 0)
}

// abandon passes on or releases a hold that was handed off to a call that has ended.
func (h *Hold) abandon() {
	h.nest.Lock()
	defer h.nest.Unlock()
	if h.pass() || !h.e.watchdog.Drop(&h.Watched) {
		return
	}
	g := h.detach()
	h.e.undo(h.kind, h.owner, h.longest(), h.doubt)
	g.give()
	h.e.leaveGate(g)
}

// detach removes the gate, and with it the turn, from the hold.
func (h *Hold) detach() *gate {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gate
	h.gate = nil
	if g != nil {
		g.setHold(nil)
	}
	return g
}

// releaseTime bounds how long a release waits for a server that does not answer. After
// that, it continues in the background.
const releaseTime = time.Second

// lower asks the server to lower the hold count to left; zero frees the lock. It retries
// for releaseTime. It reports whether a request without an answer may have been executed.
func (h *Hold) lower(left int) (freed script.Freed, doubt bool, err error) {
	return h.settle(func(kind Kind) (script.Freed, error) {
		return kind.Release(context.Background(), h.e.d, h.owner, left)
	})
}

// settle sends a request that ends the hold, or lowers its count. It is described at lower.
func (h *Hold) settle(request func(Kind) (script.Freed, error)) (freed script.Freed, doubt bool, err error) {
	var out outage
	kind := h.kind
	for {
		sent := clock.Early()
		freed, err = request(kind)
		if plain, ok := h.e.withoutQueue(kind, err); ok {
			kind = plain
			continue
		}
		switch {
		case err == nil:
			h.e.outages.answered(h.Key)
			return freed, doubt, nil
		case driver.ClassOf(err) == driver.Fatal:
			return freed, doubt, refusedError(err)
		}
		h.e.outages.failed(h.Key, err)
		doubt = doubt || driver.ClassOf(err) == driver.Ambiguous
		if out.note(err, sent) > releaseTime || h.e.isClosing() {
			return freed, doubt, out.error()
		}
		time.Sleep(out.pause())
	}
}

// free frees the lock at the server, or makes it stay until the time of KeepUntil. It returns nil only if the lock was held until free
// was called. So either the server says that the owner held it, or the request was sent
// twice, the first time while the lease was valid.
func (h *Hold) free() error {
	e := h.e
	ends := h.Deadline()
	over := clock.Now() >= ends
	if !e.watchdog.Drop(&h.Watched) { // it is not renewed any more
		return ErrLost
	}
	h.count = 0
	traits := h.kind.Traits()
	if traits.Shared {
		h.unshare()
	}
	g := h.detach()
	heard := 0
	if g != nil {
		if g.waiter != nil {
			g.waiter.Forget()
		}
		defer func() {
			if !traits.Directed {
				heard -= boolInt(e.hub.Listens(h.kind.Channels(h.owner)[0]))
			}
			g.rivals = max(heard, 0)
			g.yield = g.rivals > 0
			g.give()
			e.leaveGate(g)
		}()
	}
	var freed script.Freed
	var doubt bool
	var err error
	kept := h.rest() > 0
	if kept {
		freed, doubt, err = h.keep()
	} else {
		freed, doubt, err = h.lower(0)
	}
	if !kept && (h.doubt || doubt || err != nil) {
		e.undo(h.kind, h.owner, h.longest(), true) // a request may arrive late, or the server may allow the release later
	}
	switch {
	case err == nil && (freed.Held || doubt && !over):
		heard = freed.Heard
		if traits.Queue == script.InOrder {
			e.Yield(h.kind, heard)
		}
		return nil
	case err == nil:
		why := e.watchdog.Denied(&h.Watched)
		if why == watchdog.NotOwner && clock.Now() >= ends {
			why = watchdog.Expired // the watchdog has not run since then
		}
		return h.setLost(why)
	case over:
		return h.setLost(watchdog.Expired)
	case errors.Is(err, ErrUnavailable):
		return fmt.Errorf("%w; still retrying in the background%s", err, expiry(ends))
	}
	return err
}

// setLost notes why the hold was lost, and returns ErrLost.
func (h *Hold) setLost(why watchdog.Reason) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = why
	h.e.counts.Losses.Add(1)
	return ErrLost
}

// expiry returns the text that says when a lock expires that could not be released.
func expiry(ends time.Duration) string {
	if left := ends - clock.Now(); left > 0 {
		return fmt.Sprintf(", the lock expires in %v at the latest", left.Round(100*time.Millisecond))
	}
	return ""
}

package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Release gives back what user has of the hold. The last time it is passed on
// inside the process or freed at the server. ErrLost says that it was lost
// before.
func (h *Hold) Release(user watchdog.Holder, renewed bool) error {
	if err := h.e.begin(); err != nil {
		<-h.e.done // whatever is held is being freed
		return ErrLost
	}
	defer h.e.end()
	h.enterAlone()
	defer h.nest.Unlock()
	if !h.forget(user) {
		return ErrLost
	}
	if h.count > 1 {
		return h.releaseNested(renewed)
	}
	if renewed && h.renewers == 1 && h.pass() {
		return nil
	}
	return h.free()
}

// forget takes a user off the list of those to be told of a loss. It reports
// whether there was none so far.
func (h *Hold) forget(user watchdog.Holder) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.user == user {
		h.user = nil
	} else if i := slices.Index(h.nested, user); i >= 0 {
		h.nested = slices.Delete(h.nested, i, i+1)
	}
	return h.lost == 0
}

// releaseNested gives back one of several.
func (h *Hold) releaseNested(renewed bool) error {
	h.count--
	if renewed {
		h.renewers--
		if h.renewers == 0 {
			h.e.dog.Renew(&h.Charge, 0)
		}
	}
	freed, err := h.kind.Release(context.Background(), h.e.d, h.owner, h.count)
	if err == nil && !freed.Held {
		h.Disown()
		return ErrLost
	}
	// An error leaves the count at the server too high, which only shows in
	// inspection: the last release frees the lock whatever the count.
	return nil
}

// pass hands the hold to the next in the queue, if the slice allows it.
func (h *Hold) pass() bool {
	o := &h.e.o
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate == nil || h.lost != 0 || !h.passable || h.passes >= o.SlicePasses || !h.gate.waiting() {
		return false
	}
	now := clock.Now()
	if now-h.granted > o.SliceTime || h.Deadline()-now < h.Lease/2 {
		return false
	}
	token := h.token
	h.token = h.nextToken()
	h.passes++
	if !h.gate.pass(h) { // whoever waited has gone
		h.token = token
		h.passes--
		return false
	}
	return true
}

// nextToken returns a token for the next user of the hold. Half of the time
// that has passed since the grant arrived has certainly passed at the server,
// too, so that the next one from there will be higher. Passing a hold mostly
// takes longer than the two microseconds that each token needs; the rest is
// spent spinning, since a sleep would take thirty times as long.
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

// abandon gets rid of a hold that was passed to somebody who has gone.
func (h *Hold) abandon() {
	h.nest.Lock()
	defer h.nest.Unlock()
	if h.pass() || !h.e.dog.Drop(&h.Charge) {
		return
	}
	g := h.detach()
	h.e.undo(h.kind, h.owner, h.longest(), h.doubt)
	g.give()
	h.e.leave(g)
}

// detach takes the gate, and with it the turn, away from the hold.
func (h *Hold) detach() *gate {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gate
	h.gate = nil
	return g
}

// releaseTime bounds how long a release waits for a server that does not
// answer, before it goes on in the background.
const releaseTime = time.Second

// free gives the lock back at the server.
func (h *Hold) free() error {
	e := h.e
	ends := h.Deadline()
	if !e.dog.Drop(&h.Charge) { // from here on nobody renews it
		return ErrLost
	}
	h.count = 0
	g := h.detach()
	heard := 0
	if g != nil {
		if g.waiter != nil {
			g.waiter.Forget()
		}
		defer func() {
			g.rivals = max(heard-boolInt(e.hub.Listens(h.kind.Channels(h.owner)[0])), 0)
			g.yield = g.rivals > 0
			g.give()
			e.leave(g)
		}()
	}
	var out outage
	doubt := false
	for {
		sent := clock.Early()
		freed, err := h.kind.Release(context.Background(), e.d, h.owner, 0)
		switch {
		case err == nil && !freed.Held && !doubt:
			why := e.dog.Denied(&h.Charge)
			if why == watchdog.NotOwner && sent >= ends {
				why = watchdog.Expired // on a busy machine nobody has come to say so yet
			}
			h.mu.Lock()
			h.lost = why
			h.mu.Unlock()
			return ErrLost
		case err == nil:
			heard = freed.Heard
			if h.kind.Traits().Orderly {
				e.Yield(h.kind, heard)
			}
			if h.doubt || doubt {
				e.undo(h.kind, h.owner, h.longest(), true)
			}
			return nil
		case driver.ClassOf(err) == driver.Fatal:
			e.undo(h.kind, h.owner, h.longest(), true) // it may be allowed again before the lease ends
			return refused(err)
		}
		doubt = doubt || driver.ClassOf(err) == driver.Ambiguous
		if out.note(err, sent) > releaseTime || e.isClosing() {
			e.undo(h.kind, h.owner, h.longest(), true)
			return fmt.Errorf("%w; trying on in the background, the lock expires in %v at the latest",
				out.error(), (ends - clock.Now()).Round(100*time.Millisecond))
		}
		time.Sleep(out.pause())
	}
}

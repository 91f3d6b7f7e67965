package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Release releases the hold for one user. When the last user releases it, the hold is handed off
// inside the process or freed at the server. Release returns ErrLost if the hold was lost before.
func (h *Hold) Release(user watchdog.LossHandler, renewed bool) error {
	if err := h.e.begin(); err != nil {
		<-h.e.life.done // Close frees the lock
		return ErrLost
	}
	defer h.e.end()
	if left, err := h.leave(user, renewed, false); left {
		return err
	}
	h.enterForRelease()
	defer h.nest.Unlock()
	f, ends, err := h.depart(user, renewed)
	if !ends {
		return err
	}
	return f.run(answer{})
}

// depart does what a release does before its request. It returns false if the hold goes on or was
// lost. The caller holds h.nest.
func (h *Hold) depart(user watchdog.LossHandler, renewed bool) (f ending, ends bool, err error) {
	if left, err := h.leave(user, renewed, true); left {
		return f, false, err
	}
	if h.nest.count > 1 {
		return f, false, h.releaseNested(renewed)
	}
	if renewed && h.nest.renewers == 1 && h.pass() {
		return f, false, nil
	}
	f = ending{h: h, ends: h.Deadline()}
	f.over = clock.Now() >= f.ends
	if !h.e.watchdog.Drop(&h.Watched) { // it is not renewed any more
		return f, false, ErrLost
	}
	h.nest.count = 0
	if h.origin.share != nil {
		h.origin.share.forget(h)
	}
	if f.gate = h.detach(); f.gate != nil && f.gate.sub.waiter != nil {
		f.gate.sub.waiter.Forget()
	}
	f.kept = h.rest() > 0
	return f, true, nil
}

// releaseNested releases the hold for one of several users. Without an answer, the count at the
// server stays too high. Only inspection shows it: the last release frees the lock with any count.
func (h *Hold) releaseNested(renewed bool) error {
	h.nest.count--
	if renewed {
		h.nest.renewers--
		if h.nest.renewers == 0 {
			h.nest.renewal = 0
			h.e.watchdog.Renew(&h.Watched, 0)
		}
	}
	over := !h.Valid()
	a := h.lower(h.nest.count, answer{})
	switch {
	case a.err == nil && a.freed.Held:
		return nil
	case a.err == nil:
		h.Disown()
		return ErrLost
	case over:
		return ErrLost
	}
	return a.err
}

// pass hands the hold off to the next call in the queue, if the limits of hand-offs allow it.
func (h *Hold) pass() bool {
	o := &h.e.o
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handoff.gate == nil || h.life.lost != 0 || !h.handoff.allowed || h.handoff.passes >= o.SlicePasses || !h.handoff.gate.waiting(h.Lease) {
		return false
	}
	now := clock.Now()
	if h.life.until > now || now-h.origin.at > h.handoff.gate.rivals.sliceTime(now, o.SliceTime) || h.Deadline()-now < cmp.Or(h.First, h.Lease)/2 {
		return false
	}
	token := h.handoff.token
	h.handoff.token = h.nextToken()
	h.handoff.passes++
	if !h.handoff.gate.pass(h) { // the waiting call has ended
		h.handoff.token = token
		h.handoff.passes--
		return false
	}
	return true
}

// nextToken returns a token for the next user of the hold. Tokens of the server are its time in
// microseconds. At least half of the time since the grant arrived has also passed at the server,
// even if the clocks run at different speeds. So with one token per two microseconds, the next
// token of the server is higher. If it is too early, nextToken spins: a sleep would take thirty
// times as long.
func (h *Hold) nextToken() int64 {
	need := 2 * time.Microsecond * time.Duration(h.handoff.token+1-h.origin.token)
	for range 100 {
		if clock.Early()-h.origin.at >= need {
			break
		}
		runtime.Gosched()
	}
	if short := need - (clock.Early() - h.origin.at); short > 0 {
		time.Sleep(short)
	}
	return h.e.tokens.fence(h.Ref.Key, h.handoff.token+1, 0)
}

// abandon passes on or releases a hold that was handed off to a call that has ended.
func (h *Hold) abandon() {
	h.enterForRelease()
	defer h.nest.Unlock()
	if h.pass() || !h.e.watchdog.Drop(&h.Watched) {
		return
	}
	g := h.detach()
	h.e.settle(h.kind, h.owner, h.rests())
	g.give()
	h.e.leaveGate(g)
}

// detach removes the gate, and with it the turn, from the hold.
func (h *Hold) detach() *gate {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.handoff.gate
	h.handoff.gate = nil
	if g != nil {
		g.hold.Store(nil)
	}
	return g
}

// An answer is what a release knows of its request.
type answer struct {
	sent  time.Duration // when the request was sent that the server has answered, or that failed
	known bool          // freed and err are its result; otherwise it has to be sent
	freed script.Freed
	err   error
	doubt bool // a request without an answer may have been executed
}

// lower asks the server to lower the hold count to left; zero frees the lock. It retries for
// releaseTime. If the first request was sent already, first is its answer.
func (h *Hold) lower(left int, first answer) answer {
	return h.repeat(first, func(kind Kind) (script.Freed, error) {
		return kind.Release(context.Background(), h.e.d, h.owner, left)
	})
}

// repeat sends a request that ends the hold, or lowers its count, as lower says.
func (h *Hold) repeat(a answer, request func(Kind) (script.Freed, error)) answer {
	var out outage
	kind := h.kind
	for ; ; a.known = false {
		if !a.known {
			a.sent = clock.Early()
			a.freed, a.err = request(kind)
		}
		if plain, ok := h.e.withoutQueue(kind, a.err); ok {
			kind = plain
			continue
		}
		switch {
		case a.err == nil:
			h.e.outages.answered(h.Ref.Key)
			return a
		case driver.ClassOf(a.err) == driver.Fatal:
			if a.err = refusedError(a.err); h.overwritten(a.err) {
				a.freed, a.err = script.Freed{}, nil
			}
			return a
		}
		h.e.outages.failed(h.Ref.Key, a.err)
		a.doubt = a.doubt || driver.ClassOf(a.err) == driver.Ambiguous
		if out.note(a.err, a.sent) > releaseTime || h.e.IsClosing() {
			a.err = out.error()
			return a
		}
		time.Sleep(out.pause())
	}
}

// overwritten reports whether a request was refused because another program has stored a value of
// another type at the key of the lock. The server then says that the owner does not hold it.
func (h *Hold) overwritten(err error) bool {
	if driver.CodeOf(err) != "WRONGTYPE" {
		return false
	}
	held, err := script.Prolong(context.Background(), h.e.d, h.Ref, time.Millisecond) // which shortens no lease
	return err == nil && !held
}

// An ending is the release of a hold by its last user. The lock is freed, or stays: see KeepUntil.
type ending struct {
	h    *Hold
	gate *gate         // whose turn the hold had, or nil
	ends time.Duration // when the lease ends
	over bool          // it had ended when the release began
	kept bool          // the lock stays
}

// run sends the request, unless first is its answer, and completes the release, under h.nest.
func (f *ending) run(first answer) error {
	var a answer
	if f.kept {
		a = f.h.keep()
	} else {
		a = f.h.lower(0, first)
	}
	err := f.result(a)
	if f.gate != nil {
		f.giveTurn(a, err)
	}
	return err
}

// result returns the error of the release. It is nil only if the lock was held until the release
// began: the server says so, or the request was sent twice, the first time in a valid lease.
func (f *ending) result(a answer) error {
	h, e := f.h, f.h.e
	if h.origin.remains.Entry || h.origin.remains.Open || a.err != nil {
		// A request may arrive late, or the server may allow the release later. It does not free a
		// lock that stays: that has its owner under another name, once this is confirmed.
		if !f.kept || a.err == nil {
			e.settle(h.kind, h.owner, h.rests())
		}
	}
	switch {
	case a.err == nil && (a.freed.Held || a.doubt && !f.over):
		if h.traits.Queue == script.InOrder {
			e.Yield(h.kind, a.freed.Heard)
		}
		return nil
	case a.err == nil:
		why := e.watchdog.Denied(&h.Watched)
		if why == watchdog.NotOwner && clock.Now() >= f.ends {
			why = watchdog.Expired // the watchdog has not run since then
		}
		return h.setLost(why)
	case f.over:
		return h.setLost(watchdog.Expired)
	case errors.Is(a.err, ErrUnavailable):
		text := ""
		if left := f.ends - clock.Now(); left > 0 {
			text = fmt.Sprintf(", the lock expires in %v at the latest", clock.Rounded(left))
		}
		return fmt.Errorf("%w; still retrying in the background%s", a.err, text)
	}
	return a.err
}

// giveTurn gives the turn of the hold to the next call of this process. If other clients have
// received the message of the release, they may ask first.
func (f *ending) giveTurn(a answer, err error) {
	h, e, g := f.h, f.h.e, f.gate
	heard := 0
	if err == nil {
		heard = a.freed.Heard
	}
	g.rivals.note(e.rivals(h.kind, heard))
	g.give()
	e.leaveGate(g)
}

// setLost notes why the hold was lost, and returns ErrLost.
func (h *Hold) setLost(why watchdog.Reason) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.life.lost = why
	h.e.counts.Losses.Add(1)
	return ErrLost
}

// KeepUntil makes the server keep the lock until that time, a value of clock.Now, if the hold is
// released earlier. It never shortens an earlier time.
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

// keep asks the server to keep the lock until the time of KeepUntil. Without an answer, it
// continues in the background. A request that arrives late keeps the lock for longer.
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

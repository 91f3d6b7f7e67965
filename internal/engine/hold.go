package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Hold is a lock that the server has granted to one owner of this process.
type Hold struct {
	watchdog.Charge
	e        *Engine
	kind     Kind
	granted  time.Duration // when the grant arrived
	base     int64         // the token of the grant
	standing bool          // renewed, with the engine's lease time
	doubt    bool          // an earlier request of this owner may still run

	// One nested acquire, extension or release at a time.
	nest     sync.Mutex
	count    int   // how often it is held
	renewers int   // how many of these want it renewed
	passes   int   // since the grant
	token    int64 // of the present user

	mu     sync.Mutex
	gate   *gate // whose turn comes with the hold; nil if none does
	user   watchdog.Holder
	nested []watchdog.Holder // users that have entered again
	lost   watchdog.Reason
	unsure bool          // a renewal or extension may have prolonged it unknown to us
	most   time.Duration // the longest lease ever asked for
	hurry  func()        // ends a claim under way
}

// Lost is called by the watchdog. The user hears of it before anybody else in
// this process can try for the lock.
func (h *Hold) Lost(why watchdog.Reason) {
	h.mu.Lock()
	h.lost = why
	user, nested, g := h.user, h.nested, h.gate
	h.user, h.nested, h.gate = nil, nil, nil
	unsure, most := h.unsure, h.most
	h.mu.Unlock()
	if user != nil {
		user.Lost(why)
	}
	for _, u := range nested {
		u.Lost(why)
	}
	switch {
	case why == watchdog.Forced:
		h.e.undo(h.kind, h.Owner, most, h.doubt) // in case the force fails
	case why == watchdog.Expired && unsure:
		// A renewal without an answer may have prolonged it at the server.
		// Until its known time is over, though, the user is about to stop.
		end := clock.Now() + h.Tail()
		h.e.dog.Bury(h.kind.Free(h.Owner), end, end, end+most)
	}
	if g != nil {
		g.give()
		h.e.leave(g)
	}
}

// Loss returns why the hold was lost, or zero.
func (h *Hold) Loss() watchdog.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Grant returns which user of the hold the present one is, and its token.
func (h *Hold) Grant() (pass int, token int64) {
	h.nest.Lock()
	defer h.nest.Unlock()
	return h.passes, h.token
}

// adopt gives a hold that was passed on to its new user.
func (h *Hold) adopt(user watchdog.Holder) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != 0 {
		return false
	}
	h.user = user
	return true
}

// mine reports whether the hold still belongs to that user. The caller holds
// h.nest.
func (h *Hold) mine(pass int) bool { return h.count > 0 && h.passes == pass }

// Reenter takes the hold once more. ErrNotHeld says that its user has just
// given it back.
func (h *Hold) Reenter(ctx context.Context, pass int, r Request, user watchdog.Holder) error {
	h.nest.Lock()
	defer h.nest.Unlock()
	if !h.mine(pass) {
		return ErrNotHeld
	}
	lease := r.Lease
	if r.renewed() {
		lease = h.e.o.Lease
	}
	if r.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Wait+answerTime)
		defer cancel()
	}
	err := h.claim(ctx, lease, r.patience(h.e), func(ctx context.Context) (bool, error) {
		v, err := h.kind.Acquire(ctx, h.e.d, script.Claim{Owner: h.Owner, Count: h.count + 1, Lease: lease})
		return v.Granted(), err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.nested = append(h.nested, user)
	h.unsure = h.unsure || r.renewed()
	h.standing = h.standing && lease <= h.Lease // or it could not be passed on as it was
	why := h.lost
	h.mu.Unlock()
	if why != 0 {
		return ErrLost // at this very moment
	}
	h.count++
	if r.renewed() {
		h.renewers++
		h.e.dog.Renew(&h.Charge, lease)
	}
	return nil
}

// Extend makes the server keep the hold for at least d from now on.
func (h *Hold) Extend(ctx context.Context, pass int, d time.Duration) error {
	h.nest.Lock()
	defer h.nest.Unlock()
	if !h.mine(pass) {
		return ErrNotHeld
	}
	h.mu.Lock()
	h.standing = false // its time is no longer that of every other hold
	h.mu.Unlock()
	return h.claim(ctx, d, h.e.o.Patience, func(ctx context.Context) (bool, error) {
		r, err := h.e.d.Do(ctx, script.Renew(d, []script.Holding{h.Holding}))
		if err != nil {
			return false, err
		}
		held, err := script.Renewed(r, 1)
		return err == nil && held[0], err
	})
}

// claim asks the server for more of what is held, for at least that lease. It
// tries as long as the hold is valid, and until somebody releases it. What ask
// sends must do nothing if the owner does not hold the lock any more, however
// late it arrives.
func (h *Hold) claim(ctx context.Context, lease, patience time.Duration, ask func(context.Context) (bool, error)) error {
	if err := h.e.begin(); err != nil {
		return err
	}
	defer h.e.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	h.most = max(h.most, lease)
	h.hurry = cancel
	h.mu.Unlock()
	var out outage
	var timer *time.Timer
	for {
		if why := h.Loss(); why != 0 || !h.Valid() {
			return ErrLost
		}
		if err := ctx.Err(); err != nil {
			return gaveUp(err, &out, 0)
		}
		sent := clock.Early()
		granted, err := ask(ctx)
		switch {
		case err == nil && granted:
			if !h.e.dog.Extend(&h.Charge, sent, lease) {
				return ErrLost
			}
			return nil
		case err == nil:
			h.e.dog.Lose(&h.Charge, watchdog.NotOwner)
			return ErrLost
		case driver.ClassOf(err) == driver.Fatal:
			return refused(err)
		}
		if driver.ClassOf(err) == driver.Ambiguous {
			h.mu.Lock()
			h.unsure = true
			h.mu.Unlock()
		}
		if out.note(err, sent) > patience {
			return out.error()
		}
		if _, err := h.e.sleep(ctx, nil, &timer, out.pause()); err != nil {
			return gaveUp(err, &out, 0)
		}
	}
}

// Release gives back what user has of the hold. The last time it is passed on
// inside the process or freed at the server. ErrLost says that it was lost
// before.
func (h *Hold) Release(user watchdog.Holder, renewed bool) error {
	if err := h.e.begin(); err != nil {
		<-h.e.done // whatever is held is being freed
		return ErrLost
	}
	defer h.e.end()
	h.mu.Lock()
	if h.hurry != nil {
		h.hurry() // a release does not wait for an extension
	}
	h.mu.Unlock()
	h.nest.Lock()
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
	freed, err := h.kind.Release(context.Background(), h.e.d, h.Owner, h.count)
	if err == nil && !freed.Held {
		h.e.dog.Lose(&h.Charge, watchdog.NotOwner)
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
	if h.gate == nil || h.lost != 0 || !h.standing || h.passes >= o.SlicePasses || !h.gate.waiting() {
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
	return h.e.fence(h.token+1, 0)
}

// abandon gets rid of a hold that was passed to somebody who has gone.
func (h *Hold) abandon() {
	h.nest.Lock()
	defer h.nest.Unlock()
	if h.pass() || !h.e.dog.Drop(&h.Charge) {
		return
	}
	g := h.detach()
	h.e.undo(h.kind, h.Owner, h.most, h.doubt)
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
			g.rivals = max(heard-boolInt(e.hub.Listens(h.kind.Channel())), 0)
			g.yield = g.rivals > 0
			g.give()
			e.leave(g)
		}()
	}
	var out outage
	doubt := false
	for {
		sent := clock.Early()
		freed, err := h.kind.Release(context.Background(), e.d, h.Owner, 0)
		switch {
		case err == nil && !freed.Held && !doubt:
			h.mu.Lock()
			h.lost = watchdog.NotOwner
			h.mu.Unlock()
			return ErrLost
		case err == nil:
			heard = freed.Heard
			if h.doubt || doubt {
				e.undo(h.kind, h.Owner, h.most, true)
			}
			return nil
		case driver.ClassOf(err) == driver.Fatal:
			e.undo(h.kind, h.Owner, h.most, true) // it may be allowed again before the lease ends
			return refused(err)
		}
		doubt = doubt || driver.ClassOf(err) == driver.Ambiguous
		if out.note(err, sent) > releaseTime || e.isClosing() {
			e.undo(h.kind, h.Owner, h.most, true)
			return fmt.Errorf("%w; trying on in the background, the lock expires in %v at the latest",
				out.error(), (ends - clock.Now()).Round(100*time.Millisecond))
		}
		time.Sleep(out.pause())
	}
}

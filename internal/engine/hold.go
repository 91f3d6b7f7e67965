package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Hold is a lock that the server has granted to one owner of this process.
type Hold struct {
	watchdog.Watched
	owner    string
	e        *Engine
	kind     Kind
	traits   script.Traits  // of the kind
	under    *Hold          // the hold that has admitted this one, or nil
	share    *share         // in which other calls find the hold, or nil
	granted  time.Duration  // when the grant arrived
	base     int64          // the token of the grant
	passable bool           // can be handed off: it is renewed for Watched.Lease, and this client makes its tokens
	remains  settle.Remains // what the owner may have at the server besides the hold

	// One reentry, extension or release at a time.
	nest     turnstile
	count    int           // how many times it is held
	renewers int           // how many of these want it renewed
	renewal  time.Duration // the longest lease time of these; zero: none
	passes   int           // hand-offs since the grant; changes under mu, too
	token    int64         // of the present user; the same

	mu            sync.Mutex
	gate          *gate // whose turn stays with the hold, or nil
	user          watchdog.LossHandler
	nested        []watchdog.LossHandler // users that have re-entered or joined
	joined        int                    // how many users, all renewed, share the hold beside one: see share.go
	ended         bool                   // the last user has released it
	lost          watchdog.Reason
	maybeExtended bool          // a renewal or extension without an answer may have extended it
	maxLease      time.Duration // the longest lease ever asked for
	until         time.Duration // the lock stays until then, even if it is released earlier
	interrupt     func()        // ends a claim under way
	leaked, long  bool          // the warning was given, or is not to be given
}

// Lost is called by the watchdog. It tells the users before the turn goes to another
// call of this process.
func (h *Hold) Lost(why watchdog.Reason) {
	h.mu.Lock()
	h.lost = why
	user, nested, g := h.user, h.nested, h.gate
	h.user, h.nested, h.gate = nil, nil, nil
	unsure, most := h.maybeExtended, h.maxLease
	h.mu.Unlock()
	h.e.counts.Losses.Add(1)
	if h.share != nil {
		h.share.forget(h)
	}
	if user != nil {
		user.Lost(why)
	}
	for _, u := range nested {
		u.Lost(why)
	}
	if (why == watchdog.NotOwner || why == watchdog.Failover) && h.traits.Queue == script.InOrder { // a part of the permits may be left
		h.e.settle(h.kind, h.owner, settle.Remains{Until: clock.Now() + most})
	}
	if (why == watchdog.Expired || why == watchdog.Unacked) && (unsure || h.traits.Queue == script.Together) { // it may still exist at the server
		// A renewal without an answer may have extended it at the server. The release
		// waits until the known lease is over, because the user may still be stopping.
		end := clock.Now() + h.Tail()
		o := h.e.settling(h.kind, h.owner, h.remains)
		o.From, o.Until = end, end+most
		o.Entry = o.Entry || h.traits.Queue == script.Together // its field lasts as long as others hold the lock
		h.e.settleOwner(o)
	}
	if g != nil {
		g.setHold(nil)
		g.give()
		h.e.leaveGate(g)
	}
}

// Owner returns the name under which the server knows the holder.
func (h *Hold) Owner() string { return h.owner }

// Disown ends the hold after the server has said that its owner does not hold the lock.
func (h *Hold) Disown() { h.e.watchdog.Lose(&h.Watched, h.e.watchdog.Denied(&h.Watched)) }

// longest returns the longest lease that was ever asked for.
func (h *Hold) longest() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.maxLease
}

// Loss returns why the hold was lost, or zero if it was not.
func (h *Hold) Loss() watchdog.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Current returns the number of hand-offs so far, which identifies the current user of
// the hold, and its token.
func (h *Hold) Current() (pass int, token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passes, h.token
}

// adopt sets the new user of a hold that was handed off. It returns false if the hold was
// lost.
func (h *Hold) adopt(user watchdog.LossHandler) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost != 0 {
		return false
	}
	h.user = user
	return true
}

// usedBy reports whether the hold still belongs to the user with that number. The caller
// holds h.nest.
func (h *Hold) usedBy(pass int) bool { return h.count > 0 && h.passes == pass }

// Reenter acquires the hold once more for another user. It returns ErrNotHeld if the
// present user has just released it.
func (h *Hold) Reenter(ctx context.Context, pass int, r Request, user watchdog.LossHandler) error {
	limited := ctx
	if r.Wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, r.Wait+answerTime)
		defer cancel()
	}
	err := h.retryInterrupted(func() error { return h.reenter(limited, pass, r, user) })
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		// An earlier call on the same hold waits for the server.
		return fmt.Errorf("%w: no answer within the wait time", ErrUnavailable)
	}
	return hideOwnTimeout(ctx, err)
}

func (h *Hold) reenter(ctx context.Context, pass int, r Request, user watchdog.LossHandler) error {
	if err := h.nest.enter(ctx); err != nil {
		return err
	}
	defer h.nest.Unlock()
	if !h.usedBy(pass) {
		return ErrNotHeld
	}
	lease := r.lease(h.e)
	err := h.claim(ctx, lease, r.patience(h.e), func(ctx context.Context) (bool, error) {
		var v script.Verdict
		err := h.e.claim(ctx, h.kind, h.traits, &script.Claim{Owner: h.owner, Count: h.count + 1, Lease: lease}, &v)
		return v.Granted(), err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.nested = append(h.nested, user)
	h.maybeExtended = h.maybeExtended || r.renewed()
	h.passable = h.passable && lease <= h.Lease // a hold with a longer lease is not handed off
	why := h.lost
	h.mu.Unlock()
	if why != 0 {
		return ErrLost // at the same time
	}
	h.count++
	if r.renewed() {
		h.renewers++
		h.renewal = max(h.renewal, lease)
		h.e.watchdog.Renew(&h.Watched, h.renewal)
	}
	return nil
}

// Admit prepares for another hold of the same user on the same lock, which may extend
// the lock at the server. It returns ErrNotHeld if the hold was just handed off.
func (h *Hold) Admit(pass int, r Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.passes != pass {
		return ErrNotHeld
	}
	h.passable = false // the next user must not share the lock with the other hold
	h.maybeExtended = true
	h.maxLease = max(h.maxLease, r.lease(h.e), h.e.o.Lease)
	return nil
}

// Extend makes the server keep the hold for at least d from now on.
func (h *Hold) Extend(ctx context.Context, pass int, d time.Duration) error {
	return h.retryInterrupted(func() error { return h.extend(ctx, pass, d, h.e.o.Patience) })
}

// Prolong is Extend with the lease and the patience of a request.
func (h *Hold) Prolong(ctx context.Context, pass int, r Request) error {
	return h.retryInterrupted(func() error { return h.extend(ctx, pass, r.Lease, r.patience(h.e)) })
}

func (h *Hold) extend(ctx context.Context, pass int, d, patience time.Duration) error {
	if err := h.nest.enter(ctx); err != nil {
		return err
	}
	defer h.nest.Unlock()
	if !h.usedBy(pass) {
		return ErrNotHeld
	}
	h.mu.Lock()
	h.passable = false // its lease time is no longer Watched.Lease
	h.mu.Unlock()
	return h.claim(ctx, d, patience, func(ctx context.Context) (bool, error) {
		return h.e.prolong(ctx, h.LockRef, d)
	})
}

// claim runs ask until the server grants more of the hold, for at least that lease. It
// stops when the hold is not valid any more, and when a release interrupts it. What ask
// sends must have no effect if the owner does not hold the lock, however late it arrives.
func (h *Hold) claim(ctx context.Context, lease, patience time.Duration, ask func(context.Context) (bool, error)) error {
	if err := h.e.begin(); err != nil {
		return err
	}
	defer h.e.end()
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	h.maxLease = max(h.maxLease, lease)
	h.interrupt = cancel
	h.mu.Unlock()
	var out outage
	var timer *time.Timer
	for {
		if why := h.Loss(); why != 0 || !h.Valid() {
			return ErrLost
		}
		if err := caller.Err(); err != nil {
			return gaveUp(err, &out, 0)
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		sent := clock.Early()
		granted, err := ask(ctx)
		switch {
		case err == nil && granted:
			if !h.e.watchdog.Extend(&h.Watched, sent, lease) {
				return ErrLost
			}
			return nil
		case err == nil || h.overwritten(err):
			h.Disown()
			return ErrLost
		case driver.ClassOf(err) == driver.Fatal:
			return refusedError(err)
		}
		if driver.ClassOf(err) == driver.Ambiguous {
			h.mu.Lock()
			h.maybeExtended = true
			h.mu.Unlock()
		}
		if out.note(err, sent) > patience && ctx.Err() == nil {
			return out.error()
		}
		if _, err := h.e.sleep(ctx, nil, &timer, out.pause()); errors.Is(err, ErrClosed) {
			return err
		}
	}
}

// errInterrupted is the error of a claim that a release has interrupted.
var errInterrupted = errors.New("interrupted by a release")

// retryInterrupted runs a claim, and runs it again if a release has interrupted it. The
// claim then waits behind the release.
func (h *Hold) retryInterrupted(claim func() error) error {
	for {
		if err := claim(); !errors.Is(err, errInterrupted) {
			return err
		}
	}
}

// interruptAfter is how long a release waits for a claim before it interrupts it.
const interruptAfter = 50 * time.Millisecond

// enterForRelease locks h.nest for a release. It interrupts claims that wait for the
// server.
func (h *Hold) enterForRelease() {
	turn := h.nest.queue()
	if turn == nil {
		return
	}
	ticker := time.NewTicker(interruptAfter) // several claims may be ahead
	defer ticker.Stop()
	for {
		select {
		case <-turn:
			return
		case <-ticker.C:
		}
		h.mu.Lock()
		if h.interrupt != nil {
			h.interrupt()
		}
		h.mu.Unlock()
	}
}

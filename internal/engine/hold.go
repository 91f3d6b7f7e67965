package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	owner  string
	e      *Engine
	kind   Kind
	traits script.Traits // of the kind
	origin origin
	nest   nesting

	mu      sync.Mutex // guards what follows
	handoff handoff
	users   users
	life    lifetime
	warned  struct{ leaked, long bool } // the warning was given, or is not to be given
}

// An origin is how a hold was granted. It does not change.
type origin struct {
	at      time.Duration  // when the grant arrived
	token   int64          // of the grant
	under   *Hold          // the hold that has admitted this one, or nil
	share   *share         // in which other calls find the hold, or nil
	remains settle.Remains // what the owner may have at the server besides the hold
}

// A nesting is how many times a hold is held. One call at a time changes it.
type nesting struct {
	turnstile
	count    int           // how many times it is held
	renewers int           // how many of these want it renewed
	renewal  time.Duration // the longest lease time of these; zero: none
}

// A handoff says to whom a hold can be passed on inside the process. What identifies the present
// user changes only while the turnstile is held, too.
type handoff struct {
	gate    *gate // whose turn stays with the hold, or nil
	allowed bool  // it is renewed for Watched.Lease, and this client makes its tokens
	passes  int   // hand-offs since the grant
	token   int64 // of the present user
}

// A lifetime is how long a hold may exist at the server.
type lifetime struct {
	lost          watchdog.Reason
	maybeExtended bool          // a renewal or extension without an answer may have extended it
	maxLease      time.Duration // the longest lease ever asked for
	until         time.Duration // the lock stays until then, even if it is released earlier
	interrupt     func()        // ends a claim under way
}

// Lost is called by the watchdog. It tells the users before the turn goes to another call.
func (h *Hold) Lost(why watchdog.Reason) {
	h.mu.Lock()
	h.life.lost = why
	told, g := h.users.all(), h.handoff.gate
	h.users.first, h.users.more, h.handoff.gate = nil, nil, nil
	unsure, most := h.life.maybeExtended, h.life.maxLease
	h.mu.Unlock()
	h.e.counts.Losses.Add(1)
	if h.origin.share != nil {
		h.origin.share.forget(h)
	}
	for _, u := range told {
		u.Lost(why)
	}
	h.settleLost(why, unsure, most)
	if g != nil {
		g.hold.Store(nil)
		g.give()
		h.e.leaveGate(g)
	}
}

// settleLost settles the owner of a lost hold, if it may have something at the server: what a late
// request brings, or a hold that a renewal without an answer has extended, for at most that time.
func (h *Hold) settleLost(why watchdog.Reason, extended bool, most time.Duration) {
	left, queue := h.origin.remains, h.traits.Queue
	late := left.Entry || left.Open
	from := clock.Now()
	switch why {
	case watchdog.NotOwner, watchdog.Failover:
		if !late && queue != script.InOrder { // otherwise a part of the permits may be left
			return
		}
	case watchdog.Expired, watchdog.Unacked:
		if !late && !extended && queue != script.Together {
			return
		}
		from += h.Tail()                                    // the user may still be stopping
		left.Entry = left.Entry || queue == script.Together // its field lasts as long as others hold the lock
	default:
		return
	}
	left.Until = from + most
	o := h.e.settling(h.kind, h.owner, left)
	o.From = from
	h.e.settleOwner(o)
}

// Owner returns the name under which the server knows the holder.
func (h *Hold) Owner() string { return h.owner }

// Disown ends the hold after the server has said that its owner does not hold the lock.
func (h *Hold) Disown() { h.e.watchdog.Lose(&h.Watched, h.e.watchdog.Denied(&h.Watched)) }

// Loss returns why the hold was lost, or zero if it was not.
func (h *Hold) Loss() watchdog.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life.lost
}

// Current returns the number of hand-offs so far, which identifies the current user, and its token.
func (h *Hold) Current() (pass int, token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.handoff.passes, h.handoff.token
}

// adopt sets the new user of a hold that was handed off. It returns false if the hold was lost.
func (h *Hold) adopt(user watchdog.LossHandler) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.lost != 0 {
		return false
	}
	h.users.first = user
	return true
}

// change runs a claim of the user with that number, one at a time, and again behind the release if
// a release has interrupted it. It returns ErrNotHeld if the hold has another user.
func (h *Hold) change(ctx context.Context, pass int, claim func() error) error {
	for {
		if err := h.nest.enter(ctx); err != nil {
			return err
		}
		err := ErrNotHeld
		if h.nest.count > 0 && h.handoff.passes == pass {
			err = claim()
		}
		h.nest.Unlock()
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
}

// Reenter acquires the hold once more for another user, unless it has just been released.
func (h *Hold) Reenter(ctx context.Context, pass int, r Request, user watchdog.LossHandler) error {
	_, limited, cancel := contexts(ctx, r.Wait)
	defer cancel()
	err := h.change(limited, pass, func() error { return h.reenter(limited, r, user) })
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		// An earlier call on the same hold waits for the server.
		return fmt.Errorf("%w: no answer within the wait time", ErrUnavailable)
	}
	return hideOwnTimeout(ctx, err)
}

func (h *Hold) reenter(ctx context.Context, r Request, user watchdog.LossHandler) error {
	lease := r.lease(h.e)
	err := h.claim(ctx, lease, r.patience(h.e), func(ctx context.Context) (bool, error) {
		var v script.Verdict
		err := h.e.claim(ctx, h.kind, h.traits, &script.Claim{Owner: h.owner, Count: h.nest.count + 1, Lease: lease}, &v)
		return v.Granted(), err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.users.more = append(h.users.more, user)
	h.life.maybeExtended = h.life.maybeExtended || r.renewed()
	h.handoff.allowed = h.handoff.allowed && lease <= h.Lease // a hold with a longer lease is not handed off
	why := h.life.lost
	h.mu.Unlock()
	if why != 0 {
		return ErrLost // at the same time
	}
	h.nest.count++
	if r.renewed() {
		h.nest.renewers++
		h.nest.renewal = max(h.nest.renewal, lease)
		h.e.watchdog.Renew(&h.Watched, h.nest.renewal)
	}
	return nil
}

// Admit prepares for another hold of the same user on the same lock, which may extend the lock at
// the server. It returns ErrNotHeld if the hold was just handed off.
func (h *Hold) Admit(pass int, r Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handoff.passes != pass {
		return ErrNotHeld
	}
	h.handoff.allowed = false // the next user must not share the lock with the other hold
	h.life.maybeExtended = true
	h.life.maxLease = max(h.life.maxLease, r.lease(h.e), h.e.o.Lease)
	return nil
}

// Extend makes the server keep the hold for at least d from now on.
func (h *Hold) Extend(ctx context.Context, pass int, d time.Duration) error {
	return h.Prolong(ctx, pass, Request{Lease: d, Wait: Forever})
}

// Prolong is Extend with the lease and the patience of a request.
func (h *Hold) Prolong(ctx context.Context, pass int, r Request) error {
	return h.change(ctx, pass, func() error {
		h.mu.Lock()
		h.handoff.allowed = false // its lease time is no longer Watched.Lease
		h.mu.Unlock()
		return h.claim(ctx, r.Lease, r.patience(h.e), func(ctx context.Context) (bool, error) {
			return h.e.prolong(ctx, h.Ref, r.Lease)
		})
	})
}

// claim runs ask until the server grants more of the hold, for at least that lease, the hold is not
// valid any more, or a release interrupts it. What ask sends must have no effect if the owner does
// not hold the lock, however late it arrives.
func (h *Hold) claim(ctx context.Context, lease, patience time.Duration, ask func(context.Context) (bool, error)) error {
	if err := h.e.begin(); err != nil {
		return err
	}
	defer h.e.end()
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	h.life.maxLease = max(h.life.maxLease, lease)
	h.life.interrupt = cancel
	h.mu.Unlock()
	var out outage
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
			h.life.maybeExtended = true
			h.mu.Unlock()
		}
		if out.note(err, sent) > patience && ctx.Err() == nil {
			return out.error()
		}
		if _, err := h.e.sleep(ctx, nil, out.pause()); errors.Is(err, ErrClosed) {
			return err
		}
	}
}

// errInterrupted is the error of a claim that a release has interrupted.
var errInterrupted = errors.New("interrupted by a release")

// enterForRelease locks h.nest for a release. It interrupts claims that wait for the server.
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
		if h.life.interrupt != nil {
			h.life.interrupt()
		}
		h.mu.Unlock()
	}
}

// A turnstile is a mutex with a FIFO queue. A caller can also wait for it in a select.
type turnstile struct {
	mu    sync.Mutex
	taken bool
	line  []chan struct{}
}

func (t *turnstile) tryLock() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := !t.taken
	t.taken = true
	return free
}

// queue returns nil if the caller has the turn, or a channel that is closed when it comes.
func (t *turnstile) queue() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		return nil
	}
	turn := make(chan struct{})
	t.line = append(t.line, turn)
	return turn
}

func (t *turnstile) Unlock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 {
		t.taken = false
		return
	}
	close(t.line[0])
	t.line = t.line[1:]
}

// enter waits for its turn, at most until ctx is done.
func (t *turnstile) enter(ctx context.Context) error {
	turn := t.queue()
	if turn == nil {
		return nil
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.line, turn)
	if i >= 0 {
		t.line = slices.Delete(t.line, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // the turn came at the same time
		t.Unlock()
	}
	return ctx.Err()
}

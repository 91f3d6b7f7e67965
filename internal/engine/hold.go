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
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A Hold is a lock that the server has granted to one owner of this process.
type Hold struct {
	watchdog.Watched
	owner    string
	e        *Engine
	kind     Kind
	under    *Hold         // that has admitted this one; nil: none
	granted  time.Duration // when the grant arrived
	base     int64         // the token of the grant
	passable bool          // renewed with the engine's lease time, and tokens can be made here
	doubt    bool          // an earlier request of this owner may still run

	// One nested acquire, extension or release at a time.
	nest     turnstile
	count    int   // how often it is held
	renewers int   // how many of these want it renewed
	passes   int   // since the grant
	token    int64 // of the present user

	mu     sync.Mutex
	gate   *gate // whose turn comes with the hold; nil if none does
	user   watchdog.LossHandler
	nested []watchdog.LossHandler // users that have entered again
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
	if (why == watchdog.NotOwner || why == watchdog.Failover) && h.kind.Traits().Queue == script.InOrder { // perhaps some of it is left
		now := clock.Now()
		h.e.watchdog.ReleaseLater(h.kind.Free(h.owner), now, now, now+most, nil)
	}
	if (why == watchdog.Expired || why == watchdog.Unacked) && (unsure || h.kind.Traits().Queue == script.Together) { // what is shared may outlive it
		// A renewal without an answer may have prolonged it at the server.
		// Until its known time is over, though, the user is about to stop.
		end := clock.Now() + h.Tail()
		if h.kind.Traits().Queue == script.Together {
			most = max(most, longestWait) // the rest of it lasts as long as others hold the lock
		}
		h.e.watchdog.ReleaseLater(h.kind.Free(h.owner), end, end, end+most, nil)
	}
	if g != nil {
		g.keep(nil)
		g.give()
		h.e.leave(g)
	}
}

// Owner returns the name under which the server knows the holder.
func (h *Hold) Owner() string { return h.owner }

// Disown notes that the server has said that the owner does not hold it.
func (h *Hold) Disown() { h.e.watchdog.Lose(&h.Watched, h.e.watchdog.Denied(&h.Watched)) }

// IDs returns the names of the parts of a hold that has some.
func (h *Hold) IDs() []string {
	if k, ok := h.kind.(interface{ IDs(owner string) []string }); ok {
		return k.IDs(h.owner)
	}
	return nil
}

// longest is the longest lease that was ever asked for.
func (h *Hold) longest() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
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
func (h *Hold) adopt(user watchdog.LossHandler) bool {
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
func (h *Hold) Reenter(ctx context.Context, pass int, r Request, user watchdog.LossHandler) error {
	limited := ctx
	if r.Wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, r.Wait+answerTime)
		defer cancel()
	}
	err := h.patiently(func() error { return h.reenter(limited, pass, r, user) })
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		// An earlier call on the same hold waits for the server.
		return fmt.Errorf("%w: no answer in the time to wait", ErrUnavailable)
	}
	return overWait(ctx, err)
}

func (h *Hold) reenter(ctx context.Context, pass int, r Request, user watchdog.LossHandler) error {
	if err := h.nest.enter(ctx); err != nil {
		return err
	}
	defer h.nest.Unlock()
	if !h.mine(pass) {
		return ErrNotHeld
	}
	lease := r.Lease
	if r.renewed() {
		lease = h.e.o.Lease
	}
	err := h.claim(ctx, lease, r.patience(h.e), func(ctx context.Context) (bool, error) {
		v, err := h.e.claim(ctx, h.kind, script.Claim{Owner: h.owner, Count: h.count + 1, Lease: lease})
		return v.Granted(), err
	})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.nested = append(h.nested, user)
	h.unsure = h.unsure || r.renewed()
	h.passable = h.passable && lease <= h.Lease // or it could not be passed on as it was
	why := h.lost
	h.mu.Unlock()
	if why != 0 {
		return ErrLost // at this very moment
	}
	h.count++
	if r.renewed() {
		h.renewers++
		h.e.watchdog.Renew(&h.Watched, lease)
	}
	return nil
}

// Admit prepares for another hold beside this one, which may keep the lock at
// the server for longer. ErrNotHeld says that its user has just given it to the
// next, who admits nobody.
func (h *Hold) Admit(pass int, r Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.passes != pass { // which changes under both locks
		return ErrNotHeld
	}
	h.passable = false // or the other one would be in with a stranger
	h.unsure = true
	h.most = max(h.most, r.Lease, h.e.o.Lease)
	return nil
}

// Extend makes the server keep the hold for at least d from now on.
func (h *Hold) Extend(ctx context.Context, pass int, d time.Duration) error {
	return h.patiently(func() error { return h.extend(ctx, pass, d, h.e.o.Patience) })
}

// Prolong is Extend by the lease of a request, with the patience of that
// request.
func (h *Hold) Prolong(ctx context.Context, pass int, r Request) error {
	return h.patiently(func() error { return h.extend(ctx, pass, r.Lease, r.patience(h.e)) })
}

func (h *Hold) extend(ctx context.Context, pass int, d, patience time.Duration) error {
	if err := h.nest.enter(ctx); err != nil {
		return err
	}
	defer h.nest.Unlock()
	if !h.mine(pass) {
		return ErrNotHeld
	}
	h.mu.Lock()
	h.passable = false // its time is no longer that of every other hold
	h.mu.Unlock()
	return h.claim(ctx, d, patience, func(ctx context.Context) (bool, error) {
		return h.e.prolong(ctx, h.LockRef, d)
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
	caller := ctx
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
		if err := caller.Err(); err != nil {
			return gaveUp(err, &out, 0)
		}
		if ctx.Err() != nil {
			return errHurried
		}
		sent := clock.Early()
		granted, err := ask(ctx)
		switch {
		case err == nil && granted:
			if !h.e.watchdog.Extend(&h.Watched, sent, lease) {
				return ErrLost
			}
			return nil
		case err == nil:
			h.Disown()
			return ErrLost
		case driver.ClassOf(err) == driver.Fatal:
			return refusedError(err)
		}
		if driver.ClassOf(err) == driver.Ambiguous {
			h.mu.Lock()
			h.unsure = true
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

// errHurried is the error of a claim that makes room for a release.
var errHurried = errors.New("a release goes first")

// patiently runs a claim, and runs it again after a release for which it had to
// make room: that was in the queue before.
func (h *Hold) patiently(claim func() error) error {
	for {
		if err := claim(); !errors.Is(err, errHurried) {
			return err
		}
	}
}

// haste is how long a release waits for a claim under way before it asks it to
// make room.
const haste = 50 * time.Millisecond

// enterAlone locks h.nest for a release, which does not wait for a server that
// a claim waits for.
func (h *Hold) enterAlone() {
	turn := h.nest.queue()
	if turn == nil {
		return
	}
	ticker := time.NewTicker(haste) // there may be several before it
	defer ticker.Stop()
	for {
		select {
		case <-turn:
			return
		case <-ticker.C:
		}
		h.mu.Lock()
		if h.hurry != nil {
			h.hurry()
		}
		h.mu.Unlock()
	}
}

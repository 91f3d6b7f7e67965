package engine

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Shared holds. Readers of one client share a hold at the server. The first one asks. The
// others join its hold for a short time after the grant, without a request. The hold is
// freed when the last of them releases it. If several readers come at the same time, one of
// them asks, and the others wait for its answer.
//
// A reader that joins would get the lock from the server, too, because only other readers
// hold it. So sharing does not make a writer wait longer. A writer that goes first is the
// exception. Readers that know of it do not share ([script.Traits]). Readers that do not know
// of it keep it waiting for shareTime at most.

// shareTime returns for how long after the grant a hold can be joined.
func (o *Options) shareTime() time.Duration { return o.SliceTime / 4 }

// A share is what the calls of a client have together for one name.
type share struct {
	hold      *Hold       // can be joined; nil: none
	asking    bool        // a call asks for a hold
	followers []*follower // wait for its answer
}

// A follower is a call that waits for the answer of another call.
type follower struct {
	user  watchdog.LossHandler
	lease time.Duration
	hold  *Hold // that it has joined; nil: none
	done  chan struct{}
}

// canShare reports whether a request can share a hold.
func (e *Engine) canShare(t script.Traits, r *Request) bool {
	return t.Shared && e.o.SlicePasses > 0 && r.renewed() && r.Under == nil
}

// share lets a user share the hold of another call, or the one that another call is asking
// for. If it returns no hold, the call has to ask. If ask is set, others wait for its answer:
// it must call answer.
func (e *Engine) share(ctx context.Context, gate string, r *Request, user watchdog.LossHandler) (h *Hold, ask bool) {
	e.sharing.Lock()
	s := e.shared[gate]
	lease := r.lease(e)
	var f *follower
	switch {
	case s.hold != nil && s.hold.join(lease, user):
		h = s.hold
	case !s.asking:
		e.shared[gate] = share{asking: true}
		ask = true
	default:
		f = &follower{user: user, lease: lease, done: make(chan struct{})}
		s.followers = append(s.followers, f)
		e.shared[gate] = s
	}
	e.sharing.Unlock()
	if f != nil {
		h = e.follow(ctx, gate, f)
	}
	if h != nil {
		r.Report.grant(ByHandoff)
		e.counts.Handoffs.Add(1)
	}
	return h, ask
}

// follow waits for the answer of another call. It returns the hold that both share, or nil.
func (e *Engine) follow(ctx context.Context, gate string, f *follower) *Hold {
	select {
	case <-f.done:
		return f.hold
	case <-ctx.Done():
	case <-e.closing:
	}
	e.sharing.Lock()
	s := e.shared[gate]
	if i := slices.Index(s.followers, f); i >= 0 {
		s.followers = slices.Delete(s.followers, i, i+1)
		e.shared[gate] = s
	}
	h := f.hold
	e.sharing.Unlock()
	if h != nil { // it came at the same time
		if left, _ := h.leave(f.user, true); !left && !e.isClosing() { // Close frees it
			_ = h.Release(f.user, true)
		}
	}
	return nil
}

// answer gives the answer of a call to those that wait for it: the hold, or nil if it has got
// none.
func (e *Engine) answer(gate string, h *Hold) {
	e.sharing.Lock()
	defer e.sharing.Unlock()
	s := e.shared[gate]
	if h != nil {
		h.mu.Lock()
		for _, f := range s.followers {
			if h.lost == 0 && h.Lease == f.lease {
				h.add(f.user)
				f.hold = h
			}
		}
		lost := h.lost != 0
		h.mu.Unlock()
		if lost {
			h = nil
		}
	}
	for _, f := range s.followers {
		close(f.done)
	}
	e.setShare(gate, share{hold: h})
}

// join adds a user that wants the hold to be renewed for that time. It returns false if the
// hold can no longer be shared.
func (h *Hold) join(lease time.Duration, user watchdog.LossHandler) bool {
	o, now := &h.e.o, clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.lost != 0 || !h.passable || h.Lease != lease || now-h.granted > o.shareTime() ||
		h.Deadline()-now < lease/2 || h.Term != h.e.d.Place(h.Key).Term {
		return false
	}
	h.add(user)
	return true
}

// add adds a user. The caller holds h.mu.
func (h *Hold) add(user watchdog.LossHandler) {
	h.joined++
	h.nested = append(h.nested, user)
}

// leave removes a user that shares the hold with others, and reports whether it did.
func (h *Hold) leave(user watchdog.LossHandler, renewed bool) (left bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !renewed || h.joined == 0 {
		return false, nil
	}
	return h.leaveOthers(user)
}

// leaveOthers removes a user that shares the hold with others. The caller holds h.mu.
func (h *Hold) leaveOthers(user watchdog.LossHandler) (left bool, err error) {
	h.joined--
	h.forget(user)
	if h.lost != 0 || !h.Valid() {
		return true, ErrLost
	}
	return true, nil
}

// share lets the call share a hold of another call, as [Engine.share] does.
func (a *acquisition) share() *Hold {
	if a.user == nil || a.shareTried || !a.e.canShare(a.traits, &a.r) {
		return nil
	}
	a.shareTried = true
	h, ask := a.e.share(a.waiting, a.k.Gate(), &a.r, a.user)
	a.asksForAll = ask
	return h
}

// answerShare gives the answer of the call to those that wait for it.
func (a *acquisition) answerShare(h *Hold) {
	if a.asksForAll {
		a.asksForAll = false
		a.e.answer(a.k.Gate(), h)
	}
}

// unshare notes that a hold has ended.
func (h *Hold) unshare() {
	e, gate := h.e, h.kind.Gate()
	e.sharing.Lock()
	defer e.sharing.Unlock()
	if s := e.shared[gate]; s.hold == h {
		s.hold = nil
		e.setShare(gate, s)
	}
}

// setShare stores the share of a gate. The caller holds e.sharing.
func (e *Engine) setShare(gate string, s share) {
	if s.hold == nil && !s.asking {
		delete(e.shared, gate)
	} else {
		e.shared[gate] = s
	}
}

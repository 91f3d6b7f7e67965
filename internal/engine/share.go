package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Shared holds. Readers of one client share a hold at the server. The first one asks. The others
// wait for its answer, or join its hold for a short time after the grant, without a request. The
// hold is freed when the last of them releases it.
//
// A reader that joins would get the lock from the server, too, because only other readers hold it.
// So sharing does not make a writer wait longer, unless the writer goes first. Readers that know of
// such a writer do not share ([script.Traits]). Others keep it waiting for shareTime at most.

// shareTime returns for how long after the grant a hold can be joined.
func (o *Options) shareTime() time.Duration { return o.SliceTime / 4 }

// A share is what the calls of a client have together for one name.
type share struct {
	mu        sync.Mutex
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

// shareOf returns the share of a gate, which may be forgotten while it is not used. Two calls may
// have different shares then, and each asks for a hold of its own.
func (e *Engine) shareOf(gate string) *share {
	e.gates.mu.Lock()
	defer e.gates.mu.Unlock()
	return &e.gates.of(gate).share
}

func (s *share) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold == nil && !s.asking
}

// sharing says how a call uses the holds of others. At most one of followed and joined is set.
type sharing struct {
	tried    bool   // there is no hold to share
	followed *share // other calls wait for the answer of this one; nil: none does
	joined   *Hold  // the hold that the call shares; nil: none
}

// join lets a user share the hold of another call, or the one that another call is asking for. If
// it returns false, the call has to ask, and must give its answer to those that wait for it.
func (g *sharing) join(ctx context.Context, e *Engine, gate string, r *Request, user watchdog.LossHandler, out *outage) bool {
	g.tried = true
	s := e.shareOf(gate)
	h, f := s.use(r.lease(e), user)
	if h == nil && f == nil {
		g.followed = s
		return false
	}
	if f != nil {
		h = s.follow(ctx, e, f, out)
	}
	if h == nil {
		return false
	}
	g.joined = h
	r.Report.grant(ByHandoff)
	e.counts.Handoffs.Add(1)
	return true
}

// use returns the hold that the user has joined, or how to wait for one. Without both, it must ask.
func (s *share) use(lease time.Duration, user watchdog.LossHandler) (*Hold, *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil && s.hold.join(lease, user) {
		return s.hold, nil
	}
	if s.asking {
		f := &follower{user: user, lease: lease, done: make(chan struct{})}
		s.followers = append(s.followers, f)
		return nil, f
	}
	s.hold, s.asking = nil, true
	return nil, nil
}

// errNoShare is the error of a call whose request other calls have waited for.
var errNoShare = &driver.Error{Class: driver.Definite, Err: errors.New("no answer to the request of another reader of this client")}

// follow waits for the answer of another call, for answerTime, and returns their hold, or nil.
func (s *share) follow(ctx context.Context, e *Engine, f *follower, out *outage) *Hold {
	since := clock.Early()
	select {
	case <-f.done:
		return f.hold
	case <-time.After(answerTime):
		out.note(errNoShare, since)
	case <-ctx.Done():
	case <-e.Closing():
	}
	s.mu.Lock()
	if i := slices.Index(s.followers, f); i >= 0 {
		s.followers = slices.Delete(s.followers, i, i+1)
	}
	h := f.hold
	s.mu.Unlock()
	if h != nil { // it came at the same time
		if left, _ := h.leave(f.user, true, false); !left && !e.IsClosing() { // Close frees it
			_ = h.Release(f.user, true)
		}
	}
	return nil
}

// answer gives the answer of a call to those that wait for it: the hold, or nil.
func (s *share) answer(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h != nil && !h.admit(s.followers) {
		h = nil
	}
	for _, f := range s.followers {
		close(f.done)
	}
	s.hold, s.asking, s.followers = h, false, nil
}

// admit adds those that wait for the hold. It returns false if the hold is lost.
func (h *Hold) admit(followers []*follower) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.lost != 0 {
		return false
	}
	for _, f := range followers {
		if h.Lease == f.lease {
			h.add(f.user)
			f.hold = h
		}
	}
	return true
}

// forget notes that a hold has ended.
func (s *share) forget(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold == h {
		s.hold = nil
	}
}

// join adds a user that wants the hold to be renewed for that time, if it can still be shared.
func (h *Hold) join(lease time.Duration, user watchdog.LossHandler) bool {
	o, now := &h.e.o, clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users.ended || h.life.lost != 0 || !h.handoff.allowed || h.Lease != lease || now-h.origin.at > o.shareTime() ||
		h.Deadline()-now < lease/2 || h.Term != h.e.d.Place(h.Ref.Key).Term {
		return false
	}
	h.add(user)
	return true
}

// add adds a user. The caller holds h.mu.
func (h *Hold) add(user watchdog.LossHandler) {
	h.users.joined++
	h.users.more = append(h.users.more, user)
}

// leave removes a user, so that it is not told of a loss. It reports whether this is all that there
// is to do, because others share the hold or it is lost. Unless the caller holds h.nest, leave
// removes only a user that shares the hold.
func (h *Hold) leave(user watchdog.LossHandler, renewed, nest bool) (left bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	shared := renewed && h.users.joined > 0
	if !shared && !nest {
		return false, nil
	}
	h.users.remove(user)
	if shared {
		h.users.joined--
	} else {
		h.users.ended = h.nest.count == 1
	}
	if h.life.lost != 0 || shared && !h.Valid() {
		return true, ErrLost
	}
	return shared, nil
}

// share lets the call share a hold of another call, if it can. It reports whether it does.
func (a *acquisition) share() bool {
	return a.user != nil && !a.sharing.tried && a.e.canShare(a.traits, &a.r) &&
		a.sharing.join(a.waiting, a.e, a.k.Gate(), &a.r, a.user, &a.out)
}

// answerShare gives the answer of the call to those that wait for it.
func (a *acquisition) answerShare(h *Hold) {
	if s := a.sharing.followed; s != nil {
		a.sharing.followed = nil
		s.answer(h)
	}
}

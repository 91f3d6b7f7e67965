package engine

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// users are who is told of the loss of a hold.
type users struct {
	first  watchdog.LossHandler   // of the grant or of the last hand-off; nil: it has left
	more   []watchdog.LossHandler // that have re-entered or joined
	joined int                    // how many users, all renewed, share the hold beside one: see share.go
	ended  bool                   // the last user has released it
}

// all returns all users.
func (u *users) all() []watchdog.LossHandler {
	if u.first == nil {
		return u.more
	}
	return append([]watchdog.LossHandler{u.first}, u.more...)
}

// find returns where a user is, or nil. It prefers the user itself to a weak one.
func (u *users) find(user watchdog.LossHandler) *watchdog.LossHandler {
	if u.first != nil && same(u.first, user) {
		return &u.first
	}
	i := slices.Index(u.more, user)
	if i < 0 {
		i = slices.IndexFunc(u.more, func(other watchdog.LossHandler) bool { return same(other, user) })
	}
	if i < 0 {
		return nil
	}
	return &u.more[i]
}

func (u *users) remove(user watchdog.LossHandler) {
	switch at := u.find(user); at {
	case nil:
	case &u.first:
		u.first = nil
	default:
		*at = nil
		u.more = slices.DeleteFunc(u.more, func(other watchdog.LossHandler) bool { return other == nil })
	}
}

// weaken replaces users by weak ones. It reports whether one of them is not used any more.
func (u *users) weaken(owner string) (gone bool) {
	gone = weaken(&u.first, owner)
	for i := range u.more {
		gone = weaken(&u.more[i], owner) || gone
	}
	return gone
}

// A user of a hold that can be garbage-collected, after the first renewal, implements weakener.
type weakener interface {
	watchdog.LossHandler
	Weaken(owner string) Weak // does not keep the user in memory; nil: it is needed
}

// Weak is a user of a hold that may be gone.
type Weak interface {
	watchdog.LossHandler
	User() watchdog.LossHandler // nil: the program does not use it any more
}

// weaken replaces a user by a weak one. It reports whether the program does not use it any more.
func weaken(user *watchdog.LossHandler, owner string) (gone bool) {
	u := *user
	if weak, ok := u.(Weak); ok {
		if u = weak.User(); u == nil {
			return true
		}
	}
	if strong, ok := u.(weakener); ok {
		if weak := strong.Weaken(owner); weak != nil { // again, because the user may have changed
			*user = weak
		}
	}
	return false
}

// same reports whether a user of a hold is that user.
func same(a, b watchdog.LossHandler) bool {
	if weak, ok := a.(Weak); ok {
		return weak.User() == b
	}
	return a == b
}

// KeepUser keeps a user in memory until it is told of a loss or removed.
func (h *Hold) KeepUser(user watchdog.LossHandler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.users.find(user); at != nil {
		*at = user
	}
}

package dashboard

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

// A snapshot is the state of all locks, as one round of the scanner has seen it. It is
// not changed after it was published.
type snapshot struct {
	at       time.Time // when the round ended
	read     time.Time // when the locks were read; earlier than at if the round failed
	took     time.Duration
	busy     time.Duration // the part of took in which the servers were busy with requests
	load     time.Duration // the average of busy over the last rounds
	every    time.Duration // the time between two rounds
	limit    time.Duration // the locks are out of date when they were read longer ago: two rounds were missed
	locks    []*state      // by name
	byName   map[string]*state
	complete bool  // no limit was reached
	partial  bool  // the first round is still running
	err      error // why the round failed; the locks are those of the last one
	failed   int   // the number of rounds that have failed since then

	clients     []inspect.Client
	clientsErr  error
	deadlocks   []inspect.Deadlock
	deadlocksAt time.Time // when they were read
	limiters    []inspect.Limiter
	limitersErr error

	deadlocksErr error
	free         map[string]int // free permits of semaphores
}

// index sorts the locks.
func (p *snapshot) index() {
	slices.SortFunc(p.locks, func(a, b *state) int { return strings.Compare(a.Name, b.Name) })
	p.byName = make(map[string]*state, len(p.locks))
	for _, l := range p.locks {
		p.byName[l.Name] = l
	}
}

// A state is a lock with times instead of durations.
type state struct {
	inspect.Lock
	read  time.Time
	holds []hold // of Lock.Holders
	waits []time.Time
	label string // the clients of the holders, in lower case, for searches
}

// A hold belongs to a holder of a lock.
type hold struct {
	until   time.Time     // zero: it does not expire
	lease   time.Duration // the time until then when it was last renewed, as far as the scanner has seen it
	since   time.Time     // when the scanner has first seen it
	earlier bool          // it may have begun before
}

// slack is the largest difference of two times that counts as an inaccuracy.
const slack = 700 * time.Millisecond

func newState(l inspect.Lock, now time.Time) *state {
	slices.SortFunc(l.Holders, func(a, b inspect.Holder) int { return strings.Compare(a.Owner, b.Owner) })
	s := &state{Lock: l, read: now, holds: make([]hold, len(l.Holders)), waits: make([]time.Time, len(l.Queue))}
	var label strings.Builder
	for i, h := range l.Holders {
		s.holds[i] = hold{since: now, earlier: true, lease: h.TTL}
		if h.TTL >= 0 {
			s.holds[i].until = now.Add(h.TTL)
		}
		label.WriteString(strings.ToLower(h.Owner + " " + h.Client.String() + " "))
	}
	for i, w := range l.Queue {
		if w.Waited >= 0 {
			s.waits[i] = now.Add(-w.Waited)
		}
	}
	s.label = label.String()
	return s
}

// after copies the times of the previous state, as far as nothing has changed. Small
// differences arise from the time that a request takes. They are not sent to browsers.
// The last state may be nil. If it is exact, a new hold has begun since then.
func (s *state) after(last *state, exact bool) {
	if last == nil {
		last = new(state)
	}
	for i, h := range s.Holders {
		j := last.holder(h.Owner, h.Mode)
		if j < 0 {
			s.holds[i].earlier = !exact
			continue
		}
		s.holds[i].since, s.holds[i].earlier = last.holds[j].since, last.holds[j].earlier
		s.holds[i].until = steady(s.holds[i].until, last.holds[j].until)
		if s.holds[i].until.Equal(last.holds[j].until) {
			s.holds[i].lease = last.holds[j].lease // it was not renewed
		}
	}
	for i, w := range s.Queue {
		for j, v := range last.Queue {
			if v.Owner == w.Owner {
				s.waits[i] = steady(s.waits[i], last.waits[j])
			}
		}
	}
}

// steady returns the earlier value if both are about the same.
func steady(now, last time.Time) time.Time {
	if !now.IsZero() && !last.IsZero() && now.Sub(last).Abs() < slack {
		return last
	}
	return now
}

// holder returns the index of a holder, or -1.
func (s *state) holder(owner string, mode inspect.Mode) int {
	return slices.IndexFunc(s.Holders, func(h inspect.Holder) bool { return h.Owner == owner && h.Mode == mode })
}

// waiting returns how many wait: entries in queues, or clients that listen.
func (s *state) waiting() int { return max(s.Queued, s.Clients, 0) }

// since returns when the oldest of the present holds was first seen. It is zero if the
// lock is free.
func (s *state) since() (at time.Time, earlier bool) {
	for _, h := range s.holds {
		if at.IsZero() || h.since.Before(at) {
			at, earlier = h.since, h.earlier
		}
	}
	return at, earlier
}

// until returns when the first of the holds expires. It is zero if none does.
func (s *state) until() (at time.Time) {
	for _, h := range s.holds {
		if !h.until.IsZero() && (at.IsZero() || h.until.Before(at)) {
			at = h.until
		}
	}
	return at
}

// soon reports whether a hold is about to expire: a quarter of its lease was left when it
// was read. A watchdog renews a lease when two thirds are left.
func (s *state) soon(i int) bool {
	return !s.holds[i].until.IsZero() && s.holds[i].until.Sub(s.read) < s.holds[i].lease/4
}

// anySoon reports whether one of the holds is about to expire.
func (s *state) anySoon() bool {
	for i := range s.holds {
		if s.soon(i) {
			return true
		}
	}
	return false
}

// longest returns since when the first of the waiters has waited. It is zero if that is
// not known.
func (s *state) longest() (at time.Time) {
	for _, w := range s.waits {
		if !w.IsZero() && (at.IsZero() || w.Before(at)) {
			at = w
		}
	}
	return at
}

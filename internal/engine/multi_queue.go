package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// How sets queue.
//
// A group of one lock waits in the queue at the server, as a single lock does. A group of several
// locks cannot: all of them must be free at once, and a release that grants the lock to a client in
// the queue never leaves it free. So a group that has been refused for groupTime is divided. The
// call first queues for the lock that blocks the group, while it holds no other, and then asks for
// the others. If one of these is held, the call releases the first, and then takes all locks in the
// common order, each through its queue, and keeps those that it has. So only calls overtake it that
// were ahead in one of the queues, or that came within groupTime.
//
// A set that holds some locks and waits in the queue of another one looks from time to time who
// holds that lock. If this changes, no deadlock prevents the queue from moving, and the set waits
// on. If the same owner holds it for the patience, it may wait for a lock of the set, or hold the
// lock for long. The set then releases its locks, keeps its place, and starts with that lock. The
// patience doubles each time, and in the end exceeds any time for which a lock is held.

// errDivide says that AcquireAll must queue for the locks of a group.
var errDivide = errors.New("divide the group")

// refused notes that the server has refused a group because of one of its locks. It reports whether
// the group is to be divided. A call that is refused again has its turn in this process.
func (g *group) refused(w *Want) bool {
	now := clock.Early()
	if g.since == 0 {
		g.since = now
	}
	if !g.divisible || now-g.since < groupTime || !g.e.withQueue(w.Kind).Traits().Queued.Joins() {
		return false
	}
	g.blocker = w
	return true
}

// divide plans to queue for the lock that blocks groups[n].
func (o *multiOrder) divide(planned, groups []group, n int) {
	g := &groups[n]
	if g.gate != nil {
		o.gates = append(o.gates, g)
	}
	switch {
	case n > 0: // the call has the earlier groups
		separate(groups[n : n+1])
	case !o.divided:
		o.start, o.foreign = g.blocker, false
		g.blocker.alone = true
	default:
		separate(planned)
		o.start = planned[0].wants[0]
	}
	o.divided = true
}

// separate gives each lock a group of its own.
func separate(groups []group) {
	for _, g := range groups {
		for _, w := range g.wants {
			w.alone = true
		}
	}
}

// leaveGates gives the turns of divided groups to the next calls.
func (o *multiOrder) leaveGates() {
	for _, g := range o.gates {
		g.gate.give()
		g.e.leaveGate(g.gate)
	}
}

// queues reports whether a waiting call for the group has a place in a queue at the server.
func (g *group) queues(r Request) bool {
	if len(g.wants) > 1 {
		return false
	}
	t := g.e.withQueue(g.wants[0].Kind).Traits()
	return t.Queue == script.AtServer || t.Queued.Joins() && r.Pause == nil
}

// takeBehind acquires a group of one lock while the call holds others. If the lock does not change
// hands, it releases the others, waits on, and returns errRestart when it has the lock.
func (g *group) takeBehind(calls, limited context.Context, r Request, held []group, patience time.Duration) error {
	v := holderWatch{g: g, held: held, renewed: r.renewed(), patience: patience, over: make(chan struct{})}
	ctx, cancel := context.WithCancel(limited)
	timer := time.AfterFunc(patience/4, func() {
		defer close(v.over)
		v.keep(ctx)
	})
	err := g.take(calls, limited, r)
	cancel()
	if timer.Stop() || !v.end() {
		return err
	}
	if err != nil {
		select {
		case <-v.over:
		case <-time.After(timeToWithdraw(calls, limited)):
		}
		return err
	}
	<-v.over
	return &errRestart{want: g.wants[0], granted: true, foreign: v.foreign}
}

// A holderWatch looks who holds a lock for which a call waits while it holds others.
type holderWatch struct {
	g        *group
	held     []group // what the call holds
	renewed  bool
	patience time.Duration
	over     chan struct{} // closed when the watch has ended
	foreign  bool          // a foreign client held the lock when the call gave way

	mu    sync.Mutex
	gave  bool // the locks of the call are released
	ended bool // the wait is over
}

// keep looks until the wait is over, or until the call has to give way.
func (v *holderWatch) keep(ctx context.Context) {
	before, known := v.g.holders(ctx)
	for {
		if _, err := sleep(ctx, nil, nil, v.patience/4+clock.Random(v.patience)); err != nil {
			return
		}
		now, ok := v.g.holders(ctx)
		if !known || !ok || slices.ContainsFunc(now, func(owner string) bool { return slices.Contains(before, owner) }) {
			v.giveWay(now)
			return
		}
		before = now
	}
}

// giveWay releases the locks of the call, unless the wait is over.
func (v *holderWatch) giveWay(owners []string) {
	v.mu.Lock()
	var all []Departure
	if !v.ended {
		v.gave = true
		v.foreign = slices.ContainsFunc(owners, isForeign)
		for _, g := range v.held {
			all = append(all, departures(g.wants, v.renewed)...)
		}
	}
	v.mu.Unlock()
	ReleaseAll(all)
}

// end ends the watch. It reports whether the locks of the call are released, or about to be.
func (v *holderWatch) end() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
	return v.gave
}

package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// judge checks P1 and P2. The caller has called lock.
func (w *world) judge() {
	for _, o := range w.objects {
		w.uses[o].clear()
	}
	for _, l := range w.leases {
		valid := l.Valid()
		for _, p := range l.parts {
			kept, holds := 0, w.holds(p.object)
			for _, x := range p.owners {
				if has(holds, x.id) != nil {
					x.gone = time.Time{}
					kept++
				} else if x.gone.IsZero() {
					x.gone = time.Now()
				}
			}
			switch {
			case !valid && !l.lost && l.ctx.Err() != nil:
				l.lost = true
				w.judgeLost(l, p, kept == len(p.owners))
			case valid && p.object.votes:
				if kept <= len(w.nets)/2 && time.Since(w.wiped) > longest {
					w.failf("P2", "the lease of %v is valid, and only %d servers have it", l.call, kept)
				}
			case valid:
				for _, x := range p.owners {
					w.judgeValid(l, p, x)
				}
			case l.ctx.Err() == nil && len(holds) > 0 && p.object.capacity == 0 && !p.kind.shared && !p.object.votes && time.Since(w.resumed) > 1100*time.Millisecond:
				for _, x := range p.owners {
					if !x.gone.IsZero() {
						w.judgeTold("context", l, p, x)
					}
				}
			}
			for _, x := range p.owners {
				x.used = time.Now()
			}
			if !valid {
				continue
			}
			u := w.uses[p.object]
			if !p.kind.shared && !p.owners[0].behind {
				if slices.Contains(u.processes, l.call.process) {
					u.twice = append(u.twice, l.call.process)
				}
				u.processes = append(u.processes, l.call.process)
			}
			if p.owners[0].broken != "" {
				continue
			}
			u.leases++
			u.alone = u.alone || !p.kind.shared
			for _, x := range p.owners {
				if !slices.Contains(u.owners, x) {
					u.owners = append(u.owners, x)
				}
			}
		}
	}
	for _, o := range w.objects {
		if u := w.uses[o]; u.alone && u.leases > 1 || o.capacity > 0 && len(u.owners) > o.capacity {
			w.failf("P1", "%d leases on %s are valid", u.leases, o.name)
		} else if len(u.twice) > 0 {
			w.failf("P1", "several leases of client %d on %s are valid", u.twice[0].number, o.name)
		}
		w.judgeLeft(o)
	}
}

// A use says which valid leases on an object there are.
type use struct {
	leases    int
	alone     bool // one of them may be the only one
	owners    []*owner
	processes []*process // of leases that only one may hold
	twice     []*process // that have several of these

	counted bool // judgeFree has counted used
	used    int  // how many hold the object, and a user uses it, or will
}

func (u *use) clear() { *u = use{owners: u.owners[:0], processes: u.processes[:0]} }

// judgeLost judges that a lease was not lost without a reason.
func (w *world) judgeLost(l *lease, p part, has bool) {
	var lost *holdfast.LostError
	if !errors.As(context.Cause(l.ctx), &lost) || !has || len(w.net.servers) > 1 || len(l.parts) > 1 || p.object.votes {
		return
	}
	if slices.ContainsFunc(p.owners, func(x *owner) bool { return x.late || !x.denied.IsZero() }) {
		return
	}
	if r := lost.Reason; r == holdfast.LossNotOwner || r == holdfast.LossFailover {
		w.failf("P2", "%v has lost its lease (%v), and the server has it", l.call, lost)
	}
}

// judgeLeft judges that the server does not keep what no call uses.
func (w *world) judgeLeft(o *object) {
	if o.votes {
		return
	}
	most := 5 * time.Second
	if w.plan.profile.sets { // a set holds some locks while it waits for others
		most = 12 * time.Second
	}
	for _, h := range w.holds(o) {
		x := w.owner(o, h.id)
		if x.late || x.broken != "" || x.used.IsZero() || x.server != w.net.master && w.plan.profile.setting != steady || w.net.master.connected() < w.net.master.replicas || !w.idle(x) {
			continue
		}
		since, _, _ := x.process.links[x.number].calmSince(w.net.master)
		if unused := min(time.Since(x.used), time.Since(since)); unused > most {
			w.failf("P6", "the server has kept %s of %s for %v, and no call uses it", o.name, x.name, unused)
			x.used = time.Now()
		}
	}
}

// judgeValid judges a lease that is valid.
func (w *world) judgeValid(l *lease, p part, x *owner) {
	if clock.Now() >= x.until {
		w.failf("P2", "the lease of %v is valid for longer than any server has promised to %s", l.call, x.name)
	}
	if l.end > 0 && clock.Now() > l.end {
		w.failf("P2", "the lease of %v is valid for longer than it should", l.call)
	}
	if !x.denied.IsZero() && time.Now().After(x.denied) {
		w.failf("P2", "the lease of %s is valid, and the server has said that it is not the owner", x.name)
	}
	if !x.gone.IsZero() {
		w.judgeTold("lease", l, p, x)
	}
}

// judgeTold judges a holder that no longer has its object at the latest master.
func (w *world) judgeTold(what string, l *lease, p part, x *owner) {
	if x.broken == "" {
		w.failf("P2", "the %s of %v is valid, and the server does not have %s of %s", what, l.call, x.name, p.object.name)
		return
	}
	bound := x.bound
	if slices.ContainsFunc(w.calls, func(c *call) bool {
		return c.process == l.call.process && len(c.objects) == 1 && c.objects[0] == p.object && c.since.Before(x.gone)
	}) {
		bound = min(bound, poll+2*time.Second) // a call that waits for a lease of its own client verifies it
	}
	since, moved, calm := l.call.process.links[0].calmSince(w.net.master)
	late := max(time.Since(x.gone)-bound, 0)
	late = min(late, max(time.Since(since)-answerTimeout-bound, 0)) // a request without an answer may have been sent before
	late = min(late, max(time.Since(moved)-w.toldAtOnce(), 0))
	if calm && late > 0 {
		w.failf("P2", "the %s of %v is valid %v after it was lost (%s)", what, l.call, time.Since(x.gone), x.broken)
	}
}

// renewed notes the answer to a renewal that has reached the client.
func (w *world) renewed(c driver.Call, reply driver.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range reply.List {
		for _, o := range w.objects {
			if o.name != c.Keys[i] {
				continue
			}
			if x := w.owner(o, c.Args[2*i+1]); r.Int == 0 && x.denied.IsZero() {
				x.denied = time.Now()
			}
		}
	}
}

// took notes a lease that a user has got.
func (w *world) took(c *call, l *holdfast.Lease) *lease {
	defer w.lock()()
	held := &lease{Lease: l, call: c, ctx: l.Context()}
	leases := []*holdfast.Lease{l}
	if len(c.objects) > 1 || c.objects[0].votes {
		leases = l.Parts()
	}
	for i, o := range c.objects {
		p := part{object: o, kind: c.kinds[i]}
		j := slices.IndexFunc(leases, func(x *holdfast.Lease) bool { return x.Name() == o.name })
		if len(leases) == 1 {
			j = 0
		}
		for i, x := range leases {
			if i != j && !o.votes {
				continue
			}
			for _, id := range ids(x) {
				x := w.owner(o, id)
				x.taken = true
				if x.first == nil {
					x.first = c
				} else if !p.kind.shared {
					w.judgeHandoff(c, x)
				}
				p.owners = append(p.owners, x)
			}
		}
		if c.atLeast > 0 {
			p.owners[0].kept = true
		}
		if c.fixed && len(c.objects) == 1 && !p.kind.shared && !o.votes && w.plan.profile.setting == steady {
			x := p.owners[0]
			x.most = clock.Now() + max(c.lease, c.atLeast) + 200*time.Millisecond // a verification takes up to 100 ms to arrive
			if x.until > x.most && !x.late {
				w.failf("P6", "%s has a lease time, and got %v more", x.name, x.until-x.most)
			}
		}
		held.parts = append(held.parts, p)
		if p.kind.tokens != "" {
			w.judgeToken(c, p, leases[j].Token())
		}
	}
	if c.fixed {
		held.end = clock.Now() + c.lease
	}
	if c.process.live() {
		w.leases = append(w.leases, held)
		w.grants++
		c.process.served++
	}
	w.judgeGrant(held)
	w.judgeTurn(c)
	if !l.Valid() {
		w.failf("P2", "%v got a lease that is over", c)
	}
	w.judge()
	w.judgeFree()
	return held
}

// judgeGrant judges a lease that a user has just got: the replica has it, and it is not shorter
// than it should be.
func (w *world) judgeGrant(l *lease) {
	if len(l.parts) > 1 && len(w.plan.profile.faults) > 0 || l.parts[0].object.votes {
		return
	}
	x := l.parts[0].owners[0]
	if s := x.server; w.options.Replication.Mode != holdfast.Async && s == w.net.master && s.replicas > 0 && !s.wasCut && s.has < x.write && !x.forced {
		w.failf("P1", "%v has a lock that the replica does not have", l.call)
	}
	since, _, calm := l.call.process.links[0].calmSince(w.net.master)
	awake := time.Since(w.resumed) > answerTimeout // a lease begins with its request
	if l.end > 0 && calm && awake && time.Since(since) > 5*time.Second && !x.late && w.plan.profile.setting == steady {
		if left := time.Until(l.Deadline()); left < l.call.lease*9/10-500*time.Millisecond {
			w.failf("P2", "a lease of %v ends after %v", l.call.lease, left)
		}
	}
}

// judgeToken judges P3. If the server has lost the lock, or was replaced and still grants it,
// the order in which clients get their tokens is not that of the grants.
func (w *world) judgeToken(c *call, p part, token int64) {
	x := p.owners[0]
	if x.broken != "" || w.plan.profile.setting == weak && p.kind.tokens != "clock" {
		return
	}
	key := p.object.name + " " + p.kind.tokens
	own := fmt.Sprint(key, " of client ", c.process.number)
	switch {
	case token <= w.tokens[own]:
		w.failf("P3", "%v got token %d after %d", c, token, w.tokens[own])
	case token <= w.tokens[key] && !x.behind:
		w.failf("P3", "%v got token %d after %d", c, token, w.tokens[key])
	}
	w.tokens[own] = max(token, w.tokens[own])
	w.tokens[key] = max(token, w.tokens[key])
}

// judgeHandoff judges that a client passes a lock on to its own calls as often as its options
// allow, and passes on no lock that has to stay.
func (w *world) judgeHandoff(c *call, x *owner) {
	x.passes++
	if most := w.options.Handoffs; most != 0 && x.passes > max(most, 0) {
		w.failf("order", "%v is the one to which its client passes the lock after %d others", c, x.passes)
	}
	if time.Now().Before(x.least) {
		w.failf("P6", "%v gets %s, which has to stay for %v more", c, x.name, time.Until(x.least))
	}
}

// judgeTurn judges that the calls of one client get permits in the order in which they came.
func (w *world) judgeTurn(c *call) {
	if w.plan.profile.bound == 0 || c.objects[0].capacity == 0 {
		return
	}
	for _, x := range w.calls {
		if x.process == c.process && x.objects[0] == c.objects[0] && time.Since(x.since) > 100*time.Millisecond && c.since.Sub(x.since) > 10*time.Millisecond {
			w.failf("order", "%v gets permits before %v, which came %v earlier", c, x, c.since.Sub(x.since))
		}
	}
}

// entered notes a lock inside a lease. It judges P3 for one that was entered again: a counter does
// not rise.
func (w *world) entered(l *lease, nested *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if nested.Owner() != l.Owner() {
		w.owner(l.parts[0].object, nested.Owner()).kept = true // the judge does not know its lease
	}
	if a, b := l.Token(), nested.Token(); l.parts[0].kind.tokens == "counter" && a != b {
		w.failf("P3", "%v has token %d, and token %d when it enters again", l.call, a, b)
	}
}

// release releases a lease, at once or so that it stays for some time. It judges P8: a release
// after the end of a lease does not succeed.
func (w *world) release(l *lease, stay time.Duration) {
	w.mu.Lock()
	valid := l.Valid()
	gone, kept := false, stay > 0
	for _, p := range l.parts {
		for _, x := range p.owners {
			gone = gone || !x.gone.IsZero()
			x.kept, x.left = x.kept || kept, true
			x.most = 0 // it may have to stay
			if !valid {
				x.ends = x.until
			}
		}
	}
	w.leases = slices.DeleteFunc(w.leases, func(x *lease) bool { return x == l })
	w.tracef("%v releases after %v", l.call, stay)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begun := time.Now()
	var err error
	if stay > 0 {
		err = l.ReleaseAfter(ctx, stay)
	} else {
		err = l.Release(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.tracef("%v: its release fails: %v", l.call, class(err))
	}
	if w.plan.profile.kept && !valid && !l.call.fixed {
		w.failf("P2", "the lease of %v is lost: %v", l.call, class(err))
	}
	if x := l.parts[0].owners[0]; err == nil && x.kept && valid {
		x.least = begun.Add(stay)
		x.stays = begun.Add(max(stay, l.call.atLeast))
		if slices.ContainsFunc(w.leases, func(l *lease) bool { return l.parts[0].owners[0] == x }) {
			w.failf("P6", "%s has to stay for %v more, and another call has it", x.name, stay)
		}
	}
	switch {
	case err == nil && !valid && gone && w.plan.profile.setting == steady && !l.parts[0].object.votes:
		w.failf("P8", "%v released what it had lost", l.call)
	case err != nil && !valid && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrClosed):
		w.failf("P8", "the lease of %v was over before its release, and the error is %v", l.call, err)
	}
}

// judgeKept judges that a lock which stays for a time is free afterwards.
func (w *world) judgeKept() {
	if w.plan.profile.setting != steady {
		return
	}
	for _, o := range w.objects {
		for _, h := range w.holds(o) {
			x := w.owner(o, h.id)
			if late := time.Until(x.stays) - h.left; !x.stays.IsZero() && -late > answerTimeout+500*time.Millisecond {
				w.failf("P6", "%s stays %v longer than it should", x.name, -late)
				x.stays = time.Time{}
			}
		}
	}
}

// judgeFull judges a call that was refused because too many wait.
func (w *world) judgeFull(c *call) {
	// After a late heartbeat of one fair waiter, the others are not dropped for a moment.
	moment := w.net.master.number("ZSCORE", "holdfast:waiting:{"+c.objects[0].name+"}", "")
	if !c.process.live() || w.net.master.now().Sub(time.UnixMilli(moment)) < 2*answerTimeout {
		return
	}
	for _, p := range w.processes { // what a call that has ended may still have, its client settles when it can
		if since, _, calm := p.links[0].calmSince(w.net.master); p.live() && (!calm || time.Since(since) < 2*answerTimeout) {
			return
		}
	}
	n := w.ghosts * w.plan.profile.users
	for _, x := range slices.Concat(w.calls, w.ended) { // what has ended since then may have waited when the server refused
		if x.objects[0] == c.objects[0] && x.process.live() && (x.over.IsZero() || x.over.After(c.since)) {
			n++
		}
	}
	if n < w.options.MaxQueue && w.gone > 0 && time.Since(w.crashed) > 4*time.Second { // a fair waiter counts until its heartbeat is late
		w.failf("P8", "%v was refused because %d wait, and only %d do", c, w.options.MaxQueue, n)
	}
}

// look judges from time to time, until ctx ends.
func (w *world) look(ctx context.Context) {
	for looks := 0; ctx.Err() == nil; {
		unlock := w.lock()
		if looks++; looks%10 == 0 { // a call may have changed what it does not concern
			w.net.master.forgetAll()
		}
		w.judge()
		w.judgeFree()
		w.judgeKept()
		w.judgeWaiters(w.net.master)
		unlock()
		time.Sleep(97*time.Millisecond + 3)
	}
}

package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// A fault is something that goes wrong, or ends what went wrong.
type fault struct {
	name string
	do   func(w *world, p *process, r *rand.Rand, span time.Duration)
}

var (
	freeze = &fault{"freeze", func(w *world, p *process, _ *rand.Rand, d time.Duration) {
		w.note("client %d is cut off for %v", p.number, d)
		for _, l := range p.links {
			l.freeze(d)
		}
	}}
	disconnect = &fault{"disconnect", func(w *world, p *process, _ *rand.Rand, _ time.Duration) {
		w.note("client %d loses its subscriptions", p.number)
		for _, l := range p.links {
			l.disconnect()
		}
	}}
	delay = &fault{"delay", func(w *world, p *process, r *rand.Rand, _ time.Duration) {
		w.disturb(p, faults{delay: upTo(r, 20*time.Millisecond), repeatRequest: r.IntN(10)})
	}}
	slow = &fault{"slow", func(w *world, p *process, r *rand.Rand, _ time.Duration) {
		w.disturb(p, faults{delay: upTo(r, 20*time.Millisecond)})
	}}
	lossy = &fault{"lossy", func(w *world, p *process, r *rand.Rand, _ time.Duration) {
		w.disturb(p, faults{
			loseRequest: r.IntN(30), loseReply: r.IntN(30), repeatRequest: r.IntN(30),
			loseMessage: r.IntN(100), repeatMessage: r.IntN(30),
			delay: upTo(r, 4*time.Second),
		})
	}}
	deaf = &fault{"deaf", func(w *world, p *process, _ *rand.Rand, _ time.Duration) {
		w.disturb(p, faults{loseMessage: 100, delay: time.Millisecond})
	}}
	crash    = &fault{"crash", func(w *world, p *process, _ *rand.Rand, _ time.Duration) { w.crash(p) }}
	shutdown = &fault{"close", func(w *world, p *process, _ *rand.Rand, _ time.Duration) { w.shut(p) }}
	pause    = &fault{"pause", func(w *world, _ *process, r *rand.Rand, d time.Duration) { w.stop(r, d) }}
	short    = &fault{"short pause", func(w *world, _ *process, r *rand.Rand, d time.Duration) { w.stop(r, d/6) }}
	atGrant  = &fault{"pause at a grant", func(w *world, _ *process, _ *rand.Rand, d time.Duration) { w.stopAtGrant(d / 6) }}
	outage   = &fault{"outage", func(w *world, _ *process, r *rand.Rand, d time.Duration) { w.stop(r, d*6) }}
	flush    = &fault{"flush", func(w *world, _ *process, _ *rand.Rand, _ time.Duration) { w.flush() }}
	failover = &fault{"failover", func(w *world, _ *process, r *rand.Rand, _ time.Duration) { w.failOver(r) }}
	isolate  = &fault{"isolate", func(w *world, _ *process, r *rand.Rand, d time.Duration) { w.cut(r, d) }}
	setClock = &fault{"clock", func(w *world, _ *process, r *rand.Rand, _ time.Duration) { w.setClock(r) }}
	suspend  = &fault{"suspend", func(w *world, _ *process, _ *rand.Rand, d time.Duration) { w.suspend(d) }}
	wipe     = &fault{"wipe", func(w *world, _ *process, r *rand.Rand, _ time.Duration) { w.wipe(r) }}
	force    = &fault{"force", func(w *world, p *process, r *rand.Rand, _ time.Duration) { w.force(p, r) }}
	forge    = &fault{"forge", func(w *world, p *process, _ *rand.Rand, _ time.Duration) { w.forge(p) }}
)

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef(format, args...)
}

// disturb sets the faults of a process.
func (w *world) disturb(p *process, f faults) {
	w.note("client %d: %v", p.number, f)
	for _, l := range p.links {
		l.set(f)
	}
}

// crash lets a process die. The connections of every other one are not closed: the server
// believes that it listens.
func (w *world) crash(p *process) {
	if w.crashes == 0 || p.links[0].dead() {
		return
	}
	w.crashes--
	closes := p.number%2 == 0
	for _, l := range p.links {
		l.crash(closes)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("client %d crashes", p.number)
	w.gone, w.crashed = w.gone+1, time.Now()
	if !closes {
		w.ghosts++
	}
	w.leases = slices.DeleteFunc(w.leases, func(x *lease) bool { return x.call.process == p })
	w.calls = slices.DeleteFunc(w.calls, func(x *call) bool { return x.process == p })
}

// shut closes a client.
func (w *world) shut(p *process) {
	if w.crashes == 0 || p.redlock != nil {
		return
	}
	w.crashes--
	w.mu.Lock()
	p.closing = true
	w.tracef("client %d is closed", p.number)
	w.mu.Unlock()
	go func() {
		begun := time.Now()
		err := p.clients[0].Close()
		defer w.lock()()
		since, _, calm := p.links[0].calmSince(w.net.master)
		calm = calm && since.Before(begun.Add(-answerTimeout)) && w.net.master.resumes.Before(begun)
		w.tracef("client %d has closed: %v", p.number, err)
		for _, o := range w.objects {
			for _, h := range w.holds(o) {
				x, while := w.owner(o, h.id), ""
				switch {
				case !x.taken:
					while = " before a call had it"
				case x.left:
					while = " while its release was under way"
				case !calm: // Close retries for two seconds
					continue
				}
				lost := x.taken && h.left < 1100*time.Millisecond // it may have been lost: its client relied on less than the server did
				if err == nil && x.process == p && x.broken == "" && !x.kept && !lost {
					w.failf("P7", "%s has %s for %v more, and its client was closed%s", x.name, o.name, h.left, while)
				}
			}
		}
	}()
}

// stop lets a master do nothing for d.
func (w *world) stop(r *rand.Rand, d time.Duration) {
	i := r.IntN(len(w.nets))
	if w.plan.profile.kept && time.Since(w.nets[i].master.resumes) < 2*time.Second {
		return // two short stops are not a long one
	}
	w.note("server %d stops for %v", i, d)
	n := w.nets[i]
	n.mu.Lock()
	if end := time.Now().Add(d); end.After(n.master.resumes) { // what has arrived is executed at the end
		n.master.stopped, n.master.resumes = time.Now(), end
	}
	n.mu.Unlock()
	for _, p := range w.processes {
		p.links[i].draw(func() { p.links[i].disturbed(d + d/8 + time.Second) })
	}
}

// stopAtGrant lets the master do nothing for d after its next release that grants something.
func (w *world) stopAtGrant(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopsFor = d
}

// flush makes the masters forget all scripts.
func (w *world) flush() {
	defer w.lock()()
	w.tracef("scripts are flushed")
	for _, n := range w.nets {
		_, _ = n.master.data.Do("SCRIPT", "FLUSH")
	}
}

// cut lets the replica receive nothing for d. Often it is promoted then.
func (w *world) cut(r *rand.Rand, d time.Duration) {
	w.net.mu.Lock()
	s := w.net.master
	s.cut, s.wasCut = time.Now().Add(d), true
	w.net.mu.Unlock()
	w.note("the replica receives nothing for %v", d)
	if r.IntN(2) == 0 {
		time.Sleep(upTo(r, d))
		w.failOver(r)
	}
}

// failOver replaces the master by its replica. Clients notice at different times. Until
// then they cannot reach the master, or it refuses writes, or it still answers.
func (w *world) failOver(r *rand.Rand) {
	lacks, gone := r.IntN(20), state(r.IntN(3))
	skew := w.drift(r)
	if w.plan.profile.setting == steady {
		lacks, gone, skew = 0, state(1+r.IntN(2)), 0
	}
	unlock := w.lock()
	old := w.net.master
	next := old.promote(lacks)
	next.step(skew)
	old.state, old.cutOff = gone, true
	w.net.serve(next)
	w.tracef("failover to a replica that lacks %d writes, its clock is %v ahead, and the old master is %d", lacks, skew, gone)
	if w.plan.profile.setting == weak {
		w.breaks("a failover", w.toldAtOnce())
	}
	for _, o := range w.objects { // what was released is held again, if the replica lacks the release
		for _, h := range w.holds(o) {
			x := w.owner(o, h.id)
			x.ends = x.until
		}
	}
	unlock()
	for _, p := range w.processes {
		time.AfterFunc(upTo(r, 3*time.Second), func() {
			w.net.mu.Lock()
			master := w.net.master
			w.net.mu.Unlock()
			p.links[0].move(master)
		})
	}
}

// wipe restarts one of several servers without its data. It does so seldom enough that a
// majority remembers.
func (w *world) wipe(r *rand.Rand) {
	i := r.IntN(len(w.nets))
	unlock := w.lock()
	defer unlock()
	if time.Since(w.wiped) < longest+10*time.Second {
		return
	}
	w.tracef("server %d is restarted without its data", i)
	w.wiped = time.Now()
	n := w.nets[i]
	n.master.state, n.master.cutOff = dead, true
	n.serve(newServer(scripted.Copy(), 0))
	master := n.master
	for _, p := range w.processes {
		time.AfterFunc(upTo(r, time.Second), func() { p.links[i].move(master) })
	}
}

// drift returns by how much the next clock is ahead of the present one.
func (w *world) drift(r *rand.Rand) time.Duration {
	limit := 5 * time.Second
	if w.plan.profile.setting == strict {
		limit = w.options.ClockSkew
	}
	next := upTo(r, limit)
	if r.IntN(2) == 0 { // as far as possible
		next = limit * time.Duration(r.IntN(2))
	}
	return next - limit/2 - (w.net.master.ahead - w.slept)
}

// setClock sets the clock of the master forward or back.
func (w *world) setClock(r *rand.Rand) {
	by := w.drift(r)
	defer w.lock()()
	w.tracef("the clock of the master is set by %v", by)
	w.net.master.step(by)
	if w.plan.profile.setting == weak && by > 0 {
		w.breaks("a clock that was set forward", w.toldByRenewal())
	}
}

// suspend suspends the machine of all clients for d. Their timers do not run, but the
// servers do.
func (w *world) suspend(d time.Duration) {
	defer w.lock()()
	w.tracef("the clients are suspended for %v", d)
	clock.Skip(d)
	w.slept += d
	for _, n := range w.nets {
		for _, s := range n.servers {
			s.step(d)
		}
	}
	w.resumed = time.Now()
}

// force frees an object, whichever client holds it.
func (w *world) force(p *process, r *rand.Rand) {
	o := w.objects[r.IntN(len(w.objects))]
	if o.capacity > 0 {
		return
	}
	f, ok := o.kinds[r.IntN(len(o.kinds))].locker(p, o.name).(interface {
		ForceUnlock(context.Context) (bool, error)
	})
	if !ok {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = f.ForceUnlock(ctx)
	}()
}

// forge publishes messages that no script has sent, as a user could that may only publish. It
// guesses the names of owners: they would be these without their random digits.
func (w *world) forge(p *process) {
	defer w.lock()()
	for _, c := range w.calls {
		if c.process != p {
			continue
		}
		id := p.clients[0].ID()
		channel := "holdfast:queue:{" + c.objects[0].name + "}:" + id
		for n := range 40 {
			for _, secret := range []string{"", "1000000000000"} {
				_, _ = w.net.master.data.Do("PUBLISH", channel, fmt.Sprintf("%s:%d%s 9007199254740990 60000", id, n+1, secret))
			}
		}
		_, _ = w.net.master.data.Do("PUBLISH", channel, "first 3600000")
		_, _ = w.net.master.data.Do("PUBLISH", channel, "")
		w.tracef("messages to client %d are forged", p.number)
		return
	}
}

// A process is what a schedule calls a client: a client of each server.
type process struct {
	number  int
	links   []*link
	clients []*holdfast.Client
	redlock *holdfast.Redlock // nil if there is one server
	served  int               // how many leases its users have got
	closing bool              // its client is closed, or will be
}

func (p *process) live() bool { return !p.links[0].dead() }

func (f faults) String() string {
	var parts []string
	for _, x := range []struct {
		percent int
		what    string
	}{{f.loseRequest, "requests are lost"}, {f.loseReply, "replies are lost"}, {f.loseMessage, "messages are lost"}, {f.repeatRequest, "requests come twice"}, {f.repeatMessage, "messages come twice"}} {
		if x.percent > 0 {
			parts = append(parts, fmt.Sprintf("%d%% of the %s", x.percent, x.what))
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("all takes up to %v", f.delay)), ", ")
}

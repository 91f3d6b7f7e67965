package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// An acquisition is one call that asks the server for a lock until it is granted, the call gives
// up, or the answer is final. The doc of the package has a diagram.
type acquisition struct {
	e      *Engine
	k      target
	traits script.Traits // of k
	lock   string        // the key of the lock; "": a group, or nothing to hold
	group  []*Want       // the locks of a group
	r      Request
	user   watchdog.LossHandler

	waiting context.Context // ends the waiting
	asking  context.Context // ends a request under way
	cancel  context.CancelFunc
	once    bool // stop after the first answer of the server
	long    longWait
	out     outage // of the server

	turn    turn       // in the process: turn.go
	sharing sharing    // of holds: share.go
	claim   claim      // claim.go
	place   place      // in the queue at the server: queue.go
	last    lastAnswer // that the lock is held: answer.go
	wakes   wakes      // waiting.go
}

// run asks the server until it grants the lock.
func (a *acquisition) run(k Kind, user watchdog.LossHandler) (*Hold, error) {
	a.begin()
	a.lock, a.user = k.Ref("").Key, user
	traits := a.traits // a.traits may become those of the kind without its queue
	var g grant
	err := a.ask(&g)
	h := a.sharing.joined
	if err == nil && h == nil {
		if h = new(Hold); !a.hold(h, k, traits, user, &g) {
			a.claim.remains.Open = true
			h, err = nil, ErrClosed
		}
		a.answerShare(h)
	}
	a.end(err)
	return h, err
}

// take asks the server until it grants something that leaves nothing to hold.
func (a *acquisition) take() (script.Verdict, error) {
	a.begin()
	a.claim.Lease = 0
	var g grant
	err := a.ask(&g)
	if err == nil && g.After > 0 && !a.r.Ahead {
		if _, err = a.sleep(nil, g.After-(clock.Early()-g.received)); err != nil {
			a.claim.remains.Open = true // it was granted, but is not used
			a.last.why = g.Why
			err = gaveUp(err, &a.out, max(g.After-(clock.Early()-g.received), time.Millisecond))
		}
	}
	a.end(err)
	return g.Verdict, err
}

// ask sends the claim until it is granted, or the call is over. It sets g to the last answer.
func (a *acquisition) ask(g *grant) error {
	if err := a.letOthersTry(); err != nil {
		return err
	}
	if err := a.lineUp(); err != nil {
		return err
	}
	for {
		if err := a.over(); err != nil {
			return a.gaveUp(err)
		}
		if a.share() {
			return nil
		}
		var err error
		if a.useGrant(g) {
			a.r.Report.grant(ByRelease)
		} else {
			err = a.send(g)
		}
		if err != nil || !g.Granted() {
			a.answerShare(nil) // before any wait: the call that has the turn may wait for this answer
		}
		var pause time.Duration
		again := false
		switch {
		case err != nil:
			pause, err = a.failed(err, g.sent)
		case !g.Granted():
			pause, again, err = a.held(&g.Verdict)
		case a.asking.Err() != nil: // too late for the caller
			a.claim.remains.Open = true
			err = a.gaveUp(a.asking.Err())
		default:
			a.answered()
			return nil
		}
		if err == nil && !again {
			err = a.wait(pause)
		}
		a.sharing.tried = false
		if err != nil {
			return err
		}
	}
}

// send sends the claim once, and sets g to the answer. A grant whose lease is over already, or
// whose token no server can have returned, is an error.
func (a *acquisition) send(g *grant) error {
	a.claim.asked = true
	a.r.Report.look()
	if w := a.subscription().waiter; w != nil {
		w.Forget()
	}
	a.claim.Longest = a.left()
	a.expectGrant()
	g.floor, g.term, g.sent, g.first = a.floor(), a.term(), clock.Now(), 0
	if a.place.first.sent == 0 {
		a.place.first = g.attempt
	}
	err := a.declare()
	if err != nil {
		return err
	}
	changes := a.e.refusals.changes(a.traits.Lasting)
	err = a.e.claim(a.asking, a.k, a.traits, &a.claim.Claim, &g.Verdict)
	if driver.CodeOf(err) == "WRONGTYPE" {
		err = a.claimPlain(err, &g.Verdict)
	}
	g.received = clock.Now()
	if err == nil {
		a.e.refusals.add(a.traits.Lasting, &g.Verdict, g.sent, changes)
		a.claim.remains.Answered(g.sent, a.e.o.grace())
		if g.Place > 0 {
			a.place.since, a.place.entry = g.sent, g.Entry
		}
	}
	if g.Granted() && a.claim.Queue {
		a.claim.remains.Entry = false
	}
	switch {
	case err != nil || !g.Granted():
	case a.claim.Lease > 0 && !a.e.watchdog.InTime(g.received, g.sent, a.claim.Lease):
		g.sent = clock.Now() // the server has answered, and may answer the next request in time
		err = errTooLate
	case !a.credible(&g.Verdict):
		err = errNoGrant
	}
	return err
}

// The errors of grants that are of no use.
var (
	errTooLate = &driver.Error{Class: driver.Ambiguous, Err: errors.New("the lease had expired when the grant arrived")}
	errNoGrant = &driver.Error{Class: driver.Fatal, Err: errors.New("the reply grants the lock with a token that is not a server time: the keys do not belong to a lock, or the server's clock is wrong")}
)

// held takes in the answer that the lock is held. It returns how long to wait before the next
// request, or that it is due at once.
func (a *acquisition) held(v *script.Verdict) (pause time.Duration, again bool, err error) {
	if v.Missing != "" && a.r.Declare != nil && a.claim.create() {
		a.answered()
		return 0, true, nil
	}
	if v.Err != nil {
		return 0, false, v.Err
	}
	a.answered()
	a.last.misses++
	if v.Full {
		if a.prune() {
			return 0, true, nil
		}
		a.claim.remains.Entry = a.claim.remains.Open // not by this request
		return 0, false, &Busy{TTL: v.TTL, Full: true}
	}
	a.last.take(v)
	a.place.n = v.Place
	if a.claim.Queue || a.traits.Queue == script.AtServer {
		a.claim.Most = 0 // if it loses its place, it gets another one
	}
	if a.claim.Check && v.Place > 0 {
		a.e.rights.queueChecked.Store(true)
	}
	if a.wakes.woken {
		a.wakes.missed++
	}
	switch {
	case a.once || v.Final:
		return 0, false, &Busy{TTL: v.TTL, Young: v.Young}
	case v.Missing != "" && a.last.missing.pass(missingEvery):
		a.e.o.Log.Warn("waiting for something that does not exist", "name", v.Missing, "why", v.Why)
	}
	if again, err = a.takeTurn(); err != nil || again {
		return 0, again, err
	}
	pause, again = a.pause()
	return pause, again, nil
}

// failed takes in the error of a request. It returns how long to wait before the next request.
func (a *acquisition) failed(err error, sent time.Duration) (pause time.Duration, _ error) {
	if k, ok := a.e.withoutQueue(a.k, err); ok {
		a.place.unusable = true
		if a.e.isQueueRefused() {
			a.k, a.traits, a.claim.remains.Entry = k, k.Traits(), false
		}
		return 0, nil
	}
	if driver.ClassOf(err) == driver.Fatal {
		// A script may fail after it has written: the server may forbid one of its commands.
		a.claim.remains.Open = !errors.Is(err, driver.ErrClosed)
		return 0, refusedError(err)
	}
	left := &a.claim.remains
	left.Unanswered()
	left.Open = left.Open || driver.ClassOf(err) == driver.Ambiguous
	if a.asking.Err() != nil && a.last.misses > 0 && a.out.err == nil && clock.Early()-sent < answerTime {
		// The caller has ended the request, and the last answer was that the lock is held.
		return 0, &Busy{TTL: a.last.remaining(), Err: a.asking.Err()}
	}
	if a.asking.Err() == nil {
		a.e.outages.failed(a.key(), err)
	}
	if a.out.note(err, sent) > a.r.patience(a.e) {
		return 0, a.out.error()
	}
	return a.out.pause(), nil
}

// answered notes that the server has answered.
func (a *acquisition) answered() {
	a.out.over()
	if a.e.outages.n.Load() > 0 {
		a.e.outages.answered(a.key())
	}
}

func (a *acquisition) gaveUp(err error) error { return gaveUp(err, &a.out, a.last.remaining()) }

// over returns why to stop asking, or nil. A call whose time to wait is over may ask once.
func (a *acquisition) over() error {
	if err := a.asking.Err(); err != nil || !a.claim.asked {
		return err
	}
	return a.waiting.Err()
}

// left returns how long the call can wait for a grant that takes effect later; negative: forever.
func (a *acquisition) left() time.Duration {
	if a.once {
		return 0
	}
	if end, ok := a.waiting.Deadline(); ok {
		return max(time.Until(end), 0)
	}
	return -1
}

// end withdraws what was not granted and leaves the gate.
func (a *acquisition) end(err error) {
	a.answerShare(nil)
	a.long.end()
	a.countWait(false)
	if a.sharing.joined != nil {
		a.withdraw() // it shares the hold of another call
	}
	if err != nil {
		var busy *Busy
		if errors.As(err, &busy) {
			a.last.explain(busy)
			busy.Local = busy.Local || a.localHolder() != nil
		}
		a.withdraw()
		if a.turn.has && errors.Is(err, ErrUnavailable) {
			a.turn.gate.fail(a.out)
		}
	}
	a.endNumbered(err == nil)
	a.wakes.own.end(a.traits.Queue == script.AtServer) // the channel is this owner's alone
	a.turn.leave(err == nil && a.traits.Queue == script.Together)
}

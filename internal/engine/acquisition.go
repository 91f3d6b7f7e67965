package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// An acquisition is one call that asks the server for a lock until it is granted
// or the call gives up.
//
//	yield ─▶ line up ─▶ ask ── granted ──▶ hold
//	                    ▲ ├─── held ─────▶ take the turn, subscribe, wait ──▶ ask
//	                    │ ├─── failed ───▶ pause ──▶ ask
//	                    └─┴─── over ─────▶ withdraw
//
// It is over when the caller's context or time to wait ends, when the server was
// unavailable for too long, or when the server's answer is final.
type acquisition struct {
	e      *Engine
	k      target
	traits script.Traits
	lock   string  // the key of the lock; "": a group, or nothing to hold
	group  []*Want // the parts of a group
	r      Request

	waiting context.Context // ends the waiting
	asking  context.Context // ends a request under way
	cancel  context.CancelFunc
	once    bool // stop after the first answer of the server

	// Shared holds, see share.go.
	user       watchdog.LossHandler
	shareTried bool   // there is no hold to share
	asksFor    *share // other calls wait for the answer of this one; nil: none does
	joined     *Hold  // the hold that the call shares; nil: none

	// The turn at the gate. There is no gate if once, and where the server keeps
	// the queue.
	g        *gate
	lateGate bool // the gate is used only if the lock is held
	turn     bool // the acquisition has the turn
	keep     bool // the turn stays with the hold, and the waiter with the gate

	// The claim.
	claim    script.Claim
	sequence int            // of a numbered claim
	mark     string         // the key by which the server knows a numbered claim
	asked    bool           // the claim was sent at least once
	declared bool           // Request.Declare was called
	missing  bool           // the last answer was that the object does not exist
	created  int            // how often that was the answer
	remains  settle.Remains // what the owner may have at the server, besides a hold

	// The queue at the server.
	unqueue   bool         // it cannot be used until the next wait
	granted   string       // the text of a grant that a release has made; "": none
	ownGrants *wait.Grants // where the gate has none; nil until joined
	first     attempt      // the first request
	out       outage       // of the server

	// The last answer that the lock is held.
	misses  int           // how many there were
	ttl     time.Duration // what the holder had left
	seen    time.Duration // when it had that
	place   int           // in the queue at the server; 0: not queued
	since   time.Duration // when the last request was sent that was answered with a place
	entry   int64         // the number of the entry in the queue, by that answer
	early   time.Duration // when to look for the first time; 0: not yet queued
	pruned  bool          // dead entries of a full queue were removed
	blocker string        // which lock of a group was held
	why     string        // why, if no holder is the reason
	plain   bool          // a client of another library holds it

	// The wait.
	long     longWait
	began    time.Duration // when the acquisition began, before it had an owner
	own      *wait.Waiter  // where the gate has none; nil until joined
	deaf     bool          // own does not listen on the channels of the kind
	timer    *time.Timer
	waits    bool // it is counted among those that wait
	woken    bool // the last wait ended with a message
	yielding bool // this process has just released the lock, and other clients wait for it
	missed   int  // how often another client was faster after a message

	// The log.
	logged        bool          // the log says that the holder is a lease of this client
	missingLogged time.Duration // when logMissing last logged
}

// run asks the server until it grants the lock.
func (a *acquisition) run(k Kind, user watchdog.LossHandler) (*Hold, error) {
	a.begin()
	a.lock, a.user = k.Ref("").Key, user
	traits := a.traits // a.traits may become those of the kind without its queue
	var g grant
	err := a.ask(&g)
	h := a.joined
	if err == nil && h == nil {
		if h = new(Hold); !a.hold(h, k, traits, user, &g) {
			a.remains.Open = true
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
		if _, err = a.e.sleep(a.waiting, nil, &a.timer, g.After-(clock.Early()-g.received)); err != nil {
			a.remains.Open = true // it was granted, but is not used
			a.why = g.Why
			err = gaveUp(err, &a.out, max(g.After-(clock.Early()-g.received), time.Millisecond))
		}
	}
	a.end(err)
	return g.Verdict, err
}

// begin prepares the claim of a new owner.
func (a *acquisition) begin() {
	a.began = clock.Early()
	if a.long.since == 0 {
		a.long.since = a.began
	}
	a.claim = script.Claim{Count: 1, Lease: a.r.lease(a.e), Wait: !a.once, Most: a.e.o.MaxQueue}
	if a.traits.Numbered {
		a.sequence, a.claim.Owner = a.e.newRequest()
		call := a.k.Claim(a.claim)
		a.mark = script.MarkOf(call)
		script.Done(call)
		a.claim.Spent = a.e.takeSpentMark(a.sequence, a.mark)
	} else {
		a.claim.Owner = a.e.owner()
	}
	if a.r.Under != nil {
		a.claim.Under = a.r.Under.owner
	}
}

// ask sends the claim until it is granted, or until the acquisition is over. It sets g to
// the last answer.
func (a *acquisition) ask(g *grant) error {
	if err := a.letOthersTry(); err != nil {
		return err
	}
	if err := a.lineUp(); err != nil {
		return err
	}
	for {
		if err := a.over(); err != nil {
			return gaveUp(err, &a.out, a.remaining())
		}
		if a.joined = a.share(); a.joined != nil {
			return nil
		}
		var err error
		if a.directed(g) {
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
			a.remains.Open = true
			err = gaveUp(a.asking.Err(), &a.out, a.remaining())
		default:
			a.answered()
			return nil
		}
		if err == nil && !again {
			err = a.wait(pause)
		}
		a.shareTried = false
		if err != nil {
			return err
		}
	}
}

// send sends the claim once, and sets g to the answer. A grant whose lease is over already,
// or whose token no server can have returned, is an error.
func (a *acquisition) send(g *grant) error {
	a.asked = true
	a.r.Report.look()
	if w := a.waiter(); w != nil {
		w.Forget()
	}
	a.claim.Longest = a.left()
	a.expectGrant()
	g.floor, g.term, g.sent, g.first = a.floor(), a.term(), clock.Now(), 0
	if a.first.sent == 0 {
		a.first = g.attempt
	}
	err := a.declare()
	if err != nil {
		return err
	}
	changes := a.e.refusals.changes(a.traits.Lasting)
	err = a.e.claim(a.asking, a.k, a.traits, &a.claim, &g.Verdict)
	if driver.CodeOf(err) == "WRONGTYPE" {
		err = a.askForeign(err, &g.Verdict)
	}
	g.received = clock.Now()
	if err == nil {
		a.e.refusals.add(a.traits.Lasting, &g.Verdict, g.sent, changes)
		a.remains.Answered(g.sent, a.e.o.grace())
		if g.Place > 0 {
			a.since, a.entry = g.sent, g.Entry
		}
	}
	if g.Granted() && a.claim.Queue {
		a.remains.Entry = false
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

// maxCreated is how often a call creates a missing object without a pause. Another client
// may delete it again and again.
const maxCreated = 2

// declare calls Request.Declare, if the server has to be told.
func (a *acquisition) declare() error {
	if a.r.Declare == nil || a.declared && !a.missing {
		return nil
	}
	err := a.r.Declare(a.asking, a.missing)
	if err == nil {
		a.declared, a.missing = true, false
		return nil
	}
	var failed *driver.Error
	if errors.As(err, &failed) {
		return failed // it is handled like the error of a claim
	}
	return err
}

// errTooLate is the error of a grant that took too long to be of use.
var errTooLate = &driver.Error{Class: driver.Ambiguous, Err: errors.New("the lease had expired when the grant arrived")}

// errNoGrant is the error of a grant whose token is not a server time.
var errNoGrant = &driver.Error{Class: driver.Fatal, Err: errors.New("the reply grants the lock with a token that is not a server time: the keys do not belong to a lock, or the server's clock is wrong")}

// held takes in the answer that the lock is held. It returns how long to wait
// before the next request, or that the next request is due at once.
func (a *acquisition) held(v *script.Verdict) (pause time.Duration, again bool, err error) {
	if v.Missing != "" && a.r.Declare != nil {
		a.missing = true // the next request creates it
		if a.created++; a.created <= maxCreated {
			a.answered()
			return 0, true, nil
		}
	}
	if v.Err != nil {
		return 0, false, v.Err
	}
	a.answered()
	a.misses++
	if v.Full && !a.pruned && a.prune() {
		return 0, true, nil
	}
	if v.Full {
		a.remains.Entry = a.remains.Open // not by this request
		return 0, false, &Busy{TTL: v.TTL, Full: true}
	}
	a.blocker, a.why, a.place, a.plain = v.Key, v.Why, v.Place, v.Plain
	if a.claim.Queue || a.traits.Queue == script.AtServer {
		a.claim.Most = 0 // if it loses its place, it gets another one
	}
	if a.claim.Check && a.place > 0 {
		a.e.queueChecked.Store(true)
	}
	if a.ttl = v.TTL; a.ttl == 0 {
		a.ttl = time.Millisecond // held, for less than a millisecond
	}
	a.seen = clock.Early()
	if a.woken {
		a.missed++
	}
	if !a.once && v.Missing != "" {
		a.logMissing(v)
	}
	if a.once || v.Final {
		return 0, false, &Busy{TTL: v.TTL, Young: v.Young}
	}
	if again, err = a.queue(); err != nil || again {
		return 0, again, err
	}
	pause, again = a.pause()
	return pause, again, nil
}

// failed takes in the error of a request. It returns how long to wait before the
// next request.
func (a *acquisition) failed(err error, sent time.Duration) (pause time.Duration, _ error) {
	if k, ok := a.e.withoutQueue(a.k, err); ok {
		a.unqueue = true
		if a.e.isQueueRefused() {
			a.k, a.traits, a.remains.Entry = k, k.Traits(), false
		}
		return 0, nil
	}
	if driver.ClassOf(err) == driver.Fatal {
		// A script may fail after it has written: the server may forbid one of its
		// commands.
		a.remains.Open = !errors.Is(err, driver.ErrClosed)
		return 0, refusedError(err)
	}
	a.remains.Unanswered()
	a.remains.Open = a.remains.Open || driver.ClassOf(err) == driver.Ambiguous
	if a.asking.Err() != nil && a.misses > 0 && a.out.err == nil && clock.Early()-sent < answerTime {
		// The caller has ended the request, and the last answer was that the lock
		// is held.
		return 0, &Busy{TTL: a.remaining(), Err: a.asking.Err()}
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

// remaining returns what the holder has left, by the last answer.
func (a *acquisition) remaining() time.Duration {
	if a.ttl <= 0 {
		return a.ttl
	}
	return max(a.ttl-(clock.Early()-a.seen), time.Millisecond)
}

// over returns why to stop asking, or nil. A call whose time to wait is over before
// it has asked may ask once.
func (a *acquisition) over() error {
	if err := a.asking.Err(); err != nil || !a.asked {
		return err
	}
	return a.waiting.Err()
}

// left returns how long the call can wait for a grant that takes effect later;
// negative: without a limit.
func (a *acquisition) left() time.Duration {
	if a.once {
		return 0
	}
	if end, ok := a.waiting.Deadline(); ok {
		return max(time.Until(end), 0)
	}
	return -1
}

// missingLogEvery is the time between two messages of logMissing in one call.
const missingLogEvery = 10 * time.Second

// logMissing logs that the object that the call waits for does not exist.
func (a *acquisition) logMissing(v *script.Verdict) {
	if now := clock.Now(); a.missingLogged == 0 || now-a.missingLogged >= missingLogEvery {
		a.missingLogged = now
		a.e.o.Log.Warn("waiting for something that does not exist", "name", v.Missing, "why", v.Why)
	}
}

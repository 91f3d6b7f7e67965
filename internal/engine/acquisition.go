package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A acquisition is one caller's way to a lock, from the moment it may ask.
type acquisition struct {
	e       *Engine
	waiting context.Context // until it is done
	asking  context.Context // a request under way, until it is done
	once    bool            // ask until the server gives any answer
	g       *gate           // nil if once, and where the server keeps the queue
	turn    bool            // at the gate
	lightly bool            // the turn is for waiting only
	k       target
	traits  script.Traits
	r       Request

	claim    script.Claim
	sequence int           // of a claim that the server knows by its number
	mark     string        // by which it does
	own      *wait.Waiter  // where the gate keeps none; nil until joined
	doubt    bool          // a request of this owner may have run unknown to us
	out      outage        // of the server
	began    time.Duration // when this began
	ttl      time.Duration // what the holder had left
	seen     time.Duration // when it had that
	failures int           // how often the lock was held
	blocker  string        // which of several it was
	why      string        // in words, if not that
	polite   bool          // this process has just had the lock, and others want it
	missed   int           // how often somebody else was faster after a message
	woken    bool          // by a message, just now
	asked    bool          // at least once
	told     bool          // the log says that the holder is a lease of this client
	noticed  time.Duration // when the log last said that there is nothing to wait for; zero: never
	timer    *time.Timer
}

// run asks the server until it grants the lock.
func (c *acquisition) run(k Kind, user watchdog.LossHandler) (*Hold, error) {
	c.begin()
	g, err := c.ask()
	var h *Hold
	if err == nil {
		if h = c.hold(k, user, g); h == nil {
			c.doubt = true
			err = ErrClosed
		}
	}
	c.end(err)
	return h, err
}

// take asks the server until it grants what nobody has to hold.
func (c *acquisition) take() (script.Verdict, error) {
	c.begin()
	c.claim.Lease = 0 // there is none that could be over
	g, err := c.ask()
	if err == nil && g.After > 0 && !c.r.Ahead {
		if _, err = c.e.sleep(c.waiting, nil, &c.timer, g.After-(clock.Early()-g.received)); err != nil {
			c.doubt = true // it was granted, but in vain
			c.why = g.Why
			err = gaveUp(err, &c.out, max(g.After-(clock.Early()-g.received), time.Millisecond))
		}
	}
	c.end(err)
	return g.Verdict, err
}

// begin prepares the claim of a new owner.
func (c *acquisition) begin() {
	c.began = clock.Early()
	c.claim = script.Claim{Count: 1, Lease: c.r.Lease, Wait: !c.once}
	if c.traits.Numbered {
		c.sequence, c.claim.Owner = c.e.number()
		c.mark = script.MarkOf(c.k.Claim(c.claim))
		c.claim.Spent = c.e.spent(c.sequence, c.mark)
	} else {
		c.claim.Owner = c.e.owner()
	}
	if c.r.Under != nil {
		c.claim.Under = c.r.Under.owner
	}
	if c.r.renewed() {
		c.claim.Lease = c.e.o.Lease
	}
}

// end leaves nothing behind but what was granted.
func (c *acquisition) end(err error) {
	if err != nil {
		c.blame(err)
		c.withdraw()
		if c.turn && errors.Is(err, ErrUnavailable) {
			c.g.fail(c.out)
		}
	}
	if c.traits.Numbered && (err == nil || !c.doubt) {
		if mark := c.mark; mark != "" && !c.doubt {
			if err != nil {
				mark = c.claim.Spent // a claim that is not granted leaves no mark
			}
			c.e.answered(c.sequence, mark)
		}
		c.e.reuse(c.sequence) // or when it is undone
	}
	c.leave(err == nil)
}

// blame says which of several locks was held, or what else was in the way.
func (c *acquisition) blame(err error) {
	var busy *Busy
	if errors.As(err, &busy) {
		busy.Key = c.blocker
		busy.Local = busy.Local || c.localHolder() != nil
		if busy.Why == "" {
			busy.Why = c.why
		}
	}
}

// withdrawTime is how long a caller that gives up is kept from returning. What
// is not taken back by then is taken back behind its back.
const withdrawTime = 250 * time.Millisecond

// withdraw takes back what was asked for and may be granted yet, and the place
// in a queue at the server.
func (c *acquisition) withdraw() {
	if c.asked && c.claim.Wait && c.traits.Heartbeat > 0 {
		// Those behind it should not have to wait for the background.
		ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
		defer cancel()
		if _, err := c.e.d.Do(ctx, c.k.Free(c.claim.Owner)); err != nil {
			c.doubt = true
		}
	}
	switch {
	case !c.doubt || c.traits.ReadOnly:
	case c.traits.Numbered:
		c.e.completeLater(c.k.Free(c.claim.Owner), c.sequence)
	default:
		lease := cmp.Or(c.claim.Lease, orderLife)
		if c.traits.Heartbeat > 0 {
			lease = max(lease, outlast) // a place in a queue does not end with it
		}
		c.e.undo(c.k, c.claim.Owner, lease, true)
	}
}

// outlast is longer than anything lasts that a waiter leaves behind.
const outlast = 15 * time.Second

// leave gives up what only a acquisition needs.
func (c *acquisition) leave(granted bool) {
	if c.own != nil {
		if c.traits.ServerQueue {
			c.own.Drop() // nobody else will ever listen there
		} else {
			c.own.Leave()
		}
	}
	switch {
	case !c.turn || c.keeps():
	case granted && c.traits.Shared:
		c.g.open()
	default:
		c.g.give()
	}
}

// ask asks until the lock is granted, or there is a reason to stop.
func (c *acquisition) ask() (grant, error) {
	if err := c.letOthersTry(); err != nil {
		return grant{}, err
	}
	if err := c.lineUp(); err != nil {
		return grant{}, err
	}
	for {
		if err := c.over(); err != nil {
			return grant{}, gaveUp(err, &c.out, c.remaining())
		}
		c.asked = true
		if w := c.waiter(); w != nil {
			w.Forget()
		}
		c.claim.Longest = c.left()
		floor := c.floor()
		place := c.place()
		sent := clock.Now()
		v, err := c.e.claim(c.asking, c.k, c.claim)
		if err == nil && v.Granted() && c.claim.Lease > 0 && !c.e.watchdog.InTime(sent, c.claim.Lease) {
			v, err = script.Verdict{}, errTooLate
			sent = clock.Now() // the server has answered: asking again may give it in time
		}
		if err == nil && v.Granted() && !c.credible(v) {
			err = errNoGrant
		}
		var pause time.Duration
		switch {
		case err == nil && v.Granted():
			if err := c.asking.Err(); err != nil { // too late for the caller, who may be gone
				c.doubt = true
				return grant{}, gaveUp(err, &c.out, c.remaining())
			}
			c.out.over()
			return grant{v, floor, sent, clock.Early(), place}, nil
		case err == nil && v.Err != nil:
			return grant{}, v.Err
		case err == nil:
			c.out.over()
			c.failures++
			c.blocker, c.why = v.Key, v.Why
			if c.ttl = v.TTL; c.ttl == 0 {
				c.ttl = time.Millisecond // held, for a moment
			}
			c.seen = clock.Early()
			if c.woken {
				c.missed++
			}
			if !c.once && v.Missing != "" {
				c.notice(v)
			}
			if c.once || v.Final {
				return grant{}, &Busy{TTL: v.TTL, Young: v.Young}
			}
			again, err := c.queue()
			if err != nil {
				return grant{}, err
			}
			if again {
				continue
			}
			if pause, again = c.pause(); again {
				continue
			}
		case driver.ClassOf(err) == driver.Fatal:
			// A script may fail when it has written already: some of its
			// commands may be forbidden.
			c.doubt = !errors.Is(err, driver.ErrClosed)
			return grant{}, refused(err)
		default:
			c.doubt = c.doubt || driver.ClassOf(err) == driver.Ambiguous
			if c.asking.Err() != nil && c.failures > 0 && c.out.err == nil {
				// The request was cut short by the caller, not by the server,
				// which has said before that the lock is held.
				return grant{}, &Busy{TTL: c.remaining(), Err: c.asking.Err()}
			}
			if c.out.note(err, sent) > c.r.patience(c.e) {
				return grant{}, c.out.error()
			}
			pause = c.out.pause()
		}
		if err := c.wait(pause); err != nil {
			return grant{}, err
		}
	}
}

// floor returns the highest token known for the lock before it is asked for. The
// parts of a group keep theirs.
func (c *acquisition) floor() int64 {
	switch k := c.k.(type) {
	case Kind:
		return c.e.tokens.floor(k.Ref("").Key)
	case group:
		for _, w := range k {
			w.floor = c.e.tokens.floor(w.Kind.Ref("").Key)
		}
	}
	return 0
}

// credible reports whether the tokens of a grant can be what the scripts return
// for one.
func (c *acquisition) credible(v script.Verdict) bool {
	switch k := c.k.(type) {
	case Kind:
		return k.Traits().ServerTokens || isClockToken(v.Token)
	case group:
		for i, w := range k {
			if !w.Kind.Traits().ServerTokens && !isClockToken(v.Tokens[i]) {
				return false
			}
		}
	}
	return true
}

// errNoGrant is the error of a reply that says yes with a token that is not the
// time of any server.
var errNoGrant = &driver.Error{Class: driver.Fatal, Err: errors.New("the reply grants the lock with a token that is not the time of a server: the data under its keys is not that of a lock, or the server's clock is wrong")}

// remaining is what the holder has left, as far as the last answer tells.
func (c *acquisition) remaining() time.Duration {
	if c.ttl <= 0 {
		return c.ttl
	}
	return max(c.ttl-(clock.Early()-c.seen), time.Millisecond)
}

// noticeEvery is how often a wait for something that does not exist is logged.
const noticeEvery = 10 * time.Second

// notice logs that what the caller waits for does not exist.
func (c *acquisition) notice(v script.Verdict) {
	if now := clock.Now(); c.noticed == 0 || now-c.noticed >= noticeEvery {
		c.noticed = now
		c.e.o.Log.Warn("waiting for something that does not exist", "name", v.Missing, "why", v.Why)
	}
}

// place returns where the lock lives now.
func (c *acquisition) place() driver.Place {
	switch k := c.k.(type) {
	case Kind:
		return c.e.d.Place(k.Ref("").Key)
	case group:
		return c.e.d.Place(k[0].Kind.Ref("").Key)
	}
	return driver.Place{} // nothing to hold
}

// errTooLate is the outage of a server whose answer took as long as the lease.
var errTooLate = &driver.Error{Class: driver.Ambiguous, Err: errors.New("the lease was over when it was granted")}

// over returns why to stop asking, or nil. Whoever came here without any time
// left may ask once.
func (c *acquisition) over() error {
	if err := c.asking.Err(); err != nil || !c.asked {
		return err
	}
	return c.waiting.Err()
}

// left is how long the caller would wait for a grant that lies ahead.
func (c *acquisition) left() time.Duration {
	if c.once {
		return 0
	}
	if end, ok := c.waiting.Deadline(); ok {
		return max(time.Until(end), 0)
	}
	return -1
}

// whyQueue is why somebody is not let in who would not wait.
const whyQueue = "others of this client were here before"

// lineUp waits for the turn before anybody is asked, where those who came first
// ask first and somebody waits already.
func (c *acquisition) lineUp() error {
	if !c.traits.FIFO || c.g == nil || c.g.free() {
		return nil
	}
	if _, err := c.queue(); err != nil {
		if c.waiting.Err() != nil && !errors.Is(err, ErrClosed) {
			return &Busy{Local: true, Why: whyQueue, Err: c.waiting.Err()}
		}
		return err
	}
	c.join() // so that one look is enough if it is in vain
	return nil
}

// queue waits for the turn where it is needed only now that the lock was found
// held. It reports whether that took time, so that the next look is due.
func (c *acquisition) queue() (waited bool, err error) {
	if c.turn || c.g == nil {
		return false, nil
	}
	if c.g.tryTake() {
		c.turn = true
		return false, nil
	}
	came := clock.Early()
	_, err = c.e.awaitTurn(c.waiting, c.g, false)
	switch {
	case err == nil:
		c.turn, c.out = true, c.g.outage(came)
		return true, nil
	case !errors.As(err, new(errNoTurn)):
		c.turn = true // it came all the same
	}
	if errors.Is(err, ErrClosed) {
		return false, ErrClosed
	}
	return false, gaveUp(c.waiting.Err(), &c.out, c.remaining())
}

// pause returns how long to wait before the next look at a held lock, or that
// the next look is due at once.
func (c *acquisition) pause() (d time.Duration, again bool) {
	if c.r.Pause != nil {
		return c.beat(c.r.Pause(c.failures)), false
	}
	if c.waiter() == nil && c.join() && len(c.k.Channels(c.claim.Owner)) > 0 {
		return 0, true // it may have been freed before the subscription was ours
	}
	d = c.e.o.PollBlind
	if c.waiter().Live() {
		d = c.e.o.Poll
	}
	if c.ttl >= 0 {
		d = min(d, c.ttl+time.Millisecond)
	}
	if h := c.localHolder(); h != nil && !c.told {
		if clock.Early()-c.began >= localWait {
			c.told = c.e.noteLocalWait(h)
		} else {
			d = min(d, localWait)
		}
	}
	return c.beat(d), false
}

// beat shortens a pause so that the server hears often enough that this waiter
// is alive.
func (c *acquisition) beat(d time.Duration) time.Duration {
	if c.traits.Heartbeat > 0 {
		return min(d, c.traits.Heartbeat)
	}
	return d
}

// keeps reports whether the turn stays with the hold, and the waiter with the
// gate.
func (c *acquisition) keeps() bool { return c.g != nil && !c.lightly }

// waiter returns what is woken by a release, or nil before join.
func (c *acquisition) waiter() *wait.Waiter {
	if c.keeps() {
		return c.g.waiter
	}
	return c.own
}

// join begins to listen for releases. It reports whether messages arrive
// already; if not, the confirmation will wake the waiter.
func (c *acquisition) join() bool {
	w := c.waiter()
	if w == nil {
		w = c.e.hub.Join(nil, c.k.Channels(c.claim.Owner)...)
		if c.keeps() {
			c.g.waiter = w
		} else {
			c.own = w
		}
	}
	return w.Live()
}

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

// A contest is one caller's way to a lock, from the moment it has the turn.
type contest struct {
	e       *Engine
	waiting context.Context // until it is done
	asking  context.Context // a request under way, until it is done
	once    bool            // ask until the server gives any answer, without the turn
	g       *gate           // nil if once
	k       Kind
	r       Request

	claim    script.Claim
	doubt    bool          // a request of this owner may have run unknown to us
	out      outage        // of the server
	ttl      time.Duration // what the holder had left
	failures int           // how often the lock was held
	polite   bool          // this process has just had the lock, and others want it
	missed   int           // how often somebody else was faster after a message
	woken    bool          // by a message, just now
	asked    bool          // at least once
	timer    *time.Timer
}

// run asks the server until it grants the lock.
func (c *contest) run(user watchdog.Holder) (*Hold, error) {
	c.claim = script.Claim{Owner: c.e.owner(), Count: 1, Lease: c.r.Lease}
	if c.r.renewed() {
		c.claim.Lease = c.e.o.Lease
	}
	h, err := c.ask(user)
	if err != nil && c.doubt {
		c.e.undo(c.k, c.claim.Owner, c.claim.Lease, true)
	}
	return h, err
}

func (c *contest) ask(user watchdog.Holder) (*Hold, error) {
	if err := c.letOthersTry(); err != nil {
		return nil, err
	}
	for {
		if err := c.over(); err != nil {
			return nil, gaveUp(err, &c.out, c.ttl)
		}
		c.asked = true
		if c.listening() {
			c.g.waiter.Forget()
		}
		floor := c.e.token.Load()
		sent := clock.Now()
		v, err := c.k.Acquire(c.asking, c.e.d, c.claim)
		if err == nil && v.Granted() && !watchdog.InTime(sent, c.claim.Lease) {
			v, err = script.Verdict{}, errTooLate
			sent = clock.Now() // the server has answered: asking again may give it in time
		}
		var pause time.Duration
		switch {
		case err == nil && v.Granted():
			if err := c.asking.Err(); err != nil { // too late for the caller, who may be gone
				c.doubt = true
				return nil, gaveUp(err, &c.out, c.ttl)
			}
			h := c.hold(user, c.e.fence(v.Token, floor), sent)
			if h == nil {
				c.doubt = true
				return nil, ErrClosed
			}
			return h, nil
		case err == nil:
			c.out.over()
			c.failures++
			if c.ttl = v.TTL; c.ttl == 0 {
				c.ttl = time.Millisecond // held, for a moment
			}
			if c.woken {
				c.missed++
			}
			if c.once {
				return nil, &Busy{TTL: v.TTL}
			}
			var again bool
			if pause, again = c.pause(); again {
				continue
			}
		case driver.ClassOf(err) == driver.Fatal:
			return nil, refused(err)
		default:
			c.doubt = c.doubt || driver.ClassOf(err) == driver.Ambiguous
			if c.asking.Err() != nil && c.failures > 0 && c.out.err == nil {
				// The request was cut short by the caller, not by the server,
				// which has said before that the lock is held.
				return nil, &Busy{TTL: c.ttl, Err: c.asking.Err()}
			}
			if c.out.note(err, sent) > c.r.patience(c.e) {
				return nil, c.out.error()
			}
			pause = c.out.pause()
		}
		if err := c.wait(pause); err != nil {
			return nil, err
		}
	}
}

// errTooLate is the outage of a server whose answer took as long as the lease.
var errTooLate = &driver.Error{Class: driver.Ambiguous, Err: errors.New("the lease was over when it was granted")}

// over returns why to stop asking, or nil. Whoever came here without any time
// left may ask once.
func (c *contest) over() error {
	if err := c.asking.Err(); err != nil || !c.asked {
		return err
	}
	return c.waiting.Err()
}

// hold takes what was granted into care. It returns nil if the engine was
// closed meanwhile.
func (c *contest) hold(user watchdog.Holder, token int64, sent time.Duration) *Hold {
	h := &Hold{
		Charge: watchdog.Charge{
			Holding: script.Holding{Key: c.k.Key(), Owner: c.claim.Owner},
			Lease:   c.claim.Lease,
		},
		e: c.e, kind: c.k, doubt: c.doubt,
		base: token, token: token,
		granted:  clock.Early(),
		standing: c.r.renewed(),
		count:    1,
		renewers: boolInt(c.r.renewed()),
		user:     user,
		gate:     c.g,
		most:     c.claim.Lease,
		unsure:   c.r.renewed(),
	}
	h.Holder = h
	c.e.mu.Lock()
	if !c.once {
		h.gate.refs++
	}
	forced := c.e.forced[h.Key] > sent // perhaps after the grant
	c.e.mu.Unlock()
	var renewal time.Duration
	if h.standing {
		renewal = h.Lease
	}
	if !c.e.dog.Guard(&h.Charge, sent, renewal) {
		if !c.once {
			c.e.leave(c.g)
		}
		return nil
	}
	if forced {
		c.e.dog.Verify(h.Key)
	}
	return h
}

// pause returns how long to wait before the next look at a held lock, or that
// the next look is due at once.
func (c *contest) pause() (d time.Duration, again bool) {
	if c.r.Pause != nil {
		return c.r.Pause(c.failures), false
	}
	if !c.listening() && c.join() {
		return 0, true // it may have been freed before the subscription was ours
	}
	d = c.e.o.PollBlind
	if c.g.waiter.Live() {
		d = c.e.o.Poll
	}
	if c.ttl >= 0 {
		d = min(d, c.ttl+time.Millisecond)
	}
	return d, false
}

// listening reports whether releases are listened for.
func (c *contest) listening() bool { return !c.once && c.g.waiter != nil }

// join begins to listen for releases. It reports whether messages arrive
// already; if not, the confirmation will wake the gate's waiter.
func (c *contest) join() bool {
	if !c.listening() {
		c.g.waiter = c.e.hub.Join(c.k.Channel())
	}
	return c.g.waiter.Live()
}

// Courtesy towards other processes. A release wakes all who listen, and the
// quickest has the lock; the one that has just released it would mostly be the
// quickest. So it waits for the message like everybody else, and then lets
// those go first that have waited longer: it is late by a step for every
// rival, less one for every time that it was beaten.
const (
	yieldTime = 3 * time.Millisecond // without a message
	yieldStep = 150 * time.Microsecond
	maxRivals = 16
)

// letOthersTry waits a moment, if this process has just released the lock and
// others listen for that.
func (c *contest) letOthersTry() error {
	if c.once || !c.g.yield || c.r.Pause != nil {
		return nil
	}
	c.g.yield = false
	c.polite = true
	c.join()
	if err := c.wait(yieldTime); errors.Is(err, ErrClosed) {
		return err
	}
	return nil // perhaps out of time, but one look is due
}

// wait waits for a message, but no longer than d.
func (c *contest) wait(d time.Duration) error {
	var wake <-chan struct{}
	if c.listening() {
		wake = c.g.waiter.Wake()
	}
	woken, err := c.e.sleep(c.waiting, wake, &c.timer, d)
	if late := c.late(); woken && err == nil && late > 0 {
		_, err = c.e.sleep(c.waiting, nil, &c.timer, late)
	}
	if err != nil {
		return gaveUp(err, &c.out, c.ttl)
	}
	c.woken = woken
	return nil
}

// late is how much later than others to ask after a message.
func (c *contest) late() time.Duration {
	if !c.polite {
		return 0
	}
	return yieldStep * time.Duration(max(min(c.g.rivals, maxRivals)-c.missed, 0))
}

// sleep waits for wake, but no longer than d.
func (e *Engine) sleep(ctx context.Context, wake <-chan struct{}, timer **time.Timer, d time.Duration) (woken bool, err error) {
	if *timer == nil {
		*timer = time.NewTimer(d)
	} else {
		(*timer).Reset(d)
	}
	defer (*timer).Stop()
	select {
	case <-wake:
		return true, nil
	case <-(*timer).C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-e.closing:
		return false, ErrClosed
	}
}

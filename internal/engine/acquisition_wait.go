package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// How an acquisition waits: for its turn in the process, and for a message of the
// server.
//
// A release wakes every client that listens, and the fastest gets the lock. The
// process that has just released it would mostly be the fastest. So it waits for
// the message as the others do, and then lets the clients go first that have
// waited longer: it asks one step later for each rival, and one step earlier for
// each time that a rival was faster.
//
// A user that may publish can wake waiters. After freeWakes messages that have brought nothing,
// a waiter pauses after each answer.
const (
	freeWakes = 50
	wakePause = 10 * time.Millisecond

	yieldTime = 3 * time.Millisecond // to wait for the message
	yieldStep = 150 * time.Microsecond
	maxRivals = 16
)

// letOthersTry waits for a message, for at most yieldTime, if this process has just
// released the lock and other clients listen for the release.
func (a *acquisition) letOthersTry() error {
	if a.g == nil || !a.keep && a.traits.Queue != script.InOrder || a.r.Pause != nil || !a.g.takeYield() {
		return nil
	}
	a.yielding = true
	a.join()
	if err := a.wait(yieldTime); errors.Is(err, ErrClosed) {
		return err
	}
	return nil // the time may be over, but one request is due
}

// whyQueue is why a call is refused while earlier calls of its client wait.
const whyQueue = "other calls of this client are ahead in the queue"

// lineUp waits for the turn before the first request, where the calls of a process
// ask in the order of their arrival and one of them waits already.
func (a *acquisition) lineUp() error {
	if a.traits.Queue != script.InOrder || a.g == nil || a.g.idle() {
		return nil
	}
	if _, err := a.queue(); err != nil {
		if a.waiting.Err() != nil && !errors.Is(err, ErrClosed) {
			return &Busy{Local: true, Why: whyQueue, Err: a.waiting.Err()}
		}
		return err
	}
	a.join() // so that one refused request is enough to wait for messages
	return nil
}

// queue waits for the turn, which a held lock makes necessary. It reports whether
// it has waited, so that the next request is due.
func (a *acquisition) queue() (waited bool, err error) {
	if a.lateGate && a.g == nil {
		a.g = a.e.gate(a.k.Gate())
	}
	if a.turn || a.g == nil {
		return false, nil
	}
	if a.g.tryTake() {
		a.turn = true
		return false, nil
	}
	if a.remains.Entry {
		a.leaveQueue()
	}
	arrived := clock.Early()
	_, err = a.e.awaitTurn(a.waiting, a.g, a.traits, 0, &a.long)
	switch {
	case err == nil:
		a.turn, a.out = true, a.g.outage(arrived)
		return true, nil
	case !errors.As(err, new(errNoTurn)):
		a.turn = true // it came at the same time
	}
	switch {
	case errors.Is(err, ErrClosed):
		return false, ErrClosed
	case errors.Is(err, ErrQueueFull):
		return false, &Busy{Local: true, Full: true, TTL: a.remaining()}
	}
	return false, gaveUp(a.waiting.Err(), &a.out, a.remaining())
}

// pause returns how long to wait for a message about a held lock, or that the next
// request is due at once.
func (a *acquisition) pause() (d time.Duration, again bool) {
	if a.r.Pause != nil {
		return a.heartbeat(a.r.Pause(a.misses)), false
	}
	if a.waiter() == nil && a.join() && len(a.k.Channels(a.claim.Owner)) > 0 {
		return 0, true // it may have been released before the subscription was confirmed
	}
	if a.deaf && (a.claim.Queue && a.place == 0 || a.e.isQueueRefused()) {
		a.deaf = false
		a.own.Add(a.k.Channels(a.claim.Owner)...)
	}
	live := a.waiter().Live()
	switch {
	case live && a.place > 0 && a.grants().Live():
		d = a.lookAfter()
	case live && a.canQueue():
		return 0, true
	default:
		d = a.pollAfter(live)
	}
	if h := a.localHolder(); h != nil && !a.logged {
		if clock.Early()-a.began >= localWait {
			a.e.logLocalWait(h)
			a.logged = true
		} else {
			d = min(d, localWait)
		}
	}
	return a.heartbeat(d), false
}

// pollAfter returns after which time a waiter that is not in a queue asks by itself.
func (a *acquisition) pollAfter(live bool) time.Duration {
	d := a.e.o.PollBlind
	if live && !a.plain { // no message tells of the release of a plain lock
		d = a.e.o.Poll
	}
	if a.ttl >= 0 {
		d = min(d, a.ttl+time.Millisecond)
	}
	return d
}

// heartbeat shortens a pause so that the server receives a request of this waiter often
// enough.
func (a *acquisition) heartbeat(d time.Duration) time.Duration {
	if a.traits.Heartbeat > 0 {
		return min(d, a.traits.Heartbeat)
	}
	return d
}

// waiter returns what a release wakes, or nil before join.
func (a *acquisition) waiter() *wait.Waiter {
	if a.keep {
		return a.g.waiter
	}
	return a.own
}

// join subscribes to releases. It reports whether messages arrive already. If not,
// the confirmation of the subscription wakes the waiter.
func (a *acquisition) join() bool {
	w := a.waiter()
	if w == nil {
		var channels []string
		if a.deaf = a.traits.Queued.Joins() && a.traits.Queue == script.AtServer; !a.deaf {
			channels = a.k.Channels(a.claim.Owner)
		}
		w = a.e.hub.Join(nil, channels...)
		if a.keep {
			a.g.waiter = w
		} else {
			a.own = w
		}
		a.joinGrants()
	}
	return w.Live() && (!a.deaf || a.ownGrants.Live())
}

// wait waits for a message, for at most d.
func (a *acquisition) wait(d time.Duration) error {
	var wake <-chan struct{}
	if w := a.waiter(); w != nil {
		wake = w.Wake()
	}
	a.countWait(true)
	woken, err := false, error(nil)
	rest := d
	if left := a.long.left(); left < d {
		left = max(left, 0)
		if woken, err = a.e.sleep(a.waiting, wake, &a.timer, left); !woken && err == nil {
			a.long.check()
		}
		rest -= left
	}
	if !woken && err == nil {
		woken, err = a.e.sleep(a.waiting, wake, &a.timer, rest)
	}
	if woken && err == nil && a.place > 0 {
		err = a.heed(wake, d)
	}
	if woken && err == nil && a.granted == "" && a.missed > freeWakes {
		_, err = a.e.sleep(a.waiting, nil, &a.timer, a.seen+wakePause-clock.Early())
	}
	if delay := a.delay(); woken && err == nil && delay > 0 {
		_, err = a.e.sleep(a.waiting, nil, &a.timer, delay)
	}
	if err != nil {
		return gaveUp(err, &a.out, a.remaining())
	}
	a.woken = woken
	a.unqueue = a.unqueue && d == 0
	return nil
}

// countWait counts the acquisition among those that wait, or not any more.
func (a *acquisition) countWait(waits bool) {
	if a.waits != waits && !a.r.Watch {
		a.waits = waits
		a.e.waiting.Add(int64(2*boolInt(waits) - 1))
		a.e.announce(false)
	}
}

// delay returns how much later than other clients to ask after a message.
func (a *acquisition) delay() time.Duration {
	if !a.yielding {
		return 0
	}
	return yieldStep * time.Duration(max(min(a.g.rivals, maxRivals)-a.missed, 0))
}

// sleep waits for wake, for at most d.
func (e *Engine) sleep(ctx context.Context, wake <-chan struct{}, timer **time.Timer, d time.Duration) (woken bool, err error) {
	return sleep(ctx, e.closing, wake, timer, d)
}

func sleep(ctx context.Context, closing, wake <-chan struct{}, timer **time.Timer, d time.Duration) (woken bool, err error) {
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
	case <-closing:
		return false, ErrClosed
	}
}

package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A subscription wakes a call that waits. It belongs to the gate if the turn stays with the hold.
type subscription struct {
	waiter     *wait.Waiter // nil until the lock was found held
	grants     *wait.Grants // nil where a release makes none
	grantsOnly bool         // the waiter does not listen on the channels of the kind
}

func (s *subscription) live() bool {
	return s.waiter.Live() && (!s.grantsOnly || s.grants.Live())
}

// wake returns the channel that wakes the call, or nil.
func (s *subscription) wake() <-chan struct{} {
	if s.waiter == nil {
		return nil
	}
	return s.waiter.Wake()
}

// end ends the subscription. If drop is set, the channels of the waiter are not used again.
func (s *subscription) end(drop bool) {
	if s.waiter != nil {
		if drop {
			s.waiter.Drop()
		} else {
			s.waiter.Leave()
		}
	}
	if s.grants != nil {
		s.grants.Leave()
	}
}

// wakes are what the waits of an acquisition have in common.
type wakes struct {
	own     subscription // used unless the turn stays with the hold
	counted bool         // the acquisition is among those that wait
	woken   bool         // the last wait ended with a message
	missed  int          // how often another client was faster after a message
}

// subscription returns what wakes the acquisition.
func (a *acquisition) subscription() *subscription {
	if a.turn.stays {
		return &a.turn.gate.sub
	}
	return &a.wakes.own
}

// join subscribes to releases. It reports whether messages arrive already. If not, it wakes later.
func (a *acquisition) join() bool {
	s := a.subscription()
	if s.waiter == nil {
		q := a.traits.Queued
		var channels []string
		if s.grantsOnly = q.Joins() && a.traits.Queue == script.AtServer; !s.grantsOnly {
			channels = a.k.Channels(a.claim.Owner)
		}
		s.waiter = a.e.hub.Join(channels...)
		if q.Joins() {
			s.grants = s.waiter.JoinGrants(q.GrantChannels(a.claim.Owner)...)
		}
	}
	return s.live()
}

// pause returns how long to wait for a message about a held lock, or that a request is due.
func (a *acquisition) pause() (d time.Duration, again bool) {
	if a.r.Pause != nil {
		return a.heartbeat(a.r.Pause(a.last.misses)), false
	}
	s := a.subscription()
	if s.waiter == nil && a.join() && len(a.k.Channels(a.claim.Owner)) > 0 {
		return 0, true // it may have been released before the subscription was confirmed
	}
	if s.grantsOnly && (a.claim.Queue && a.place.n == 0 || a.e.isQueueRefused()) {
		s.grantsOnly = false
		s.waiter.Add(a.k.Channels(a.claim.Owner)...)
	}
	live := s.waiter.Live()
	switch {
	case live && a.place.n > 0 && s.grants.Live():
		d = a.place.lookAfter(a.e.o.Poll, &a.last, a.claim.remains.Open)
	case live && s.grants.Live() && !a.claim.Queue && !a.place.unusable:
		return 0, true // the next request can queue
	default:
		d = a.last.pollAfter(a.e.o.Poll, a.e.o.PollBlind, live)
	}
	if h := a.localHolder(); h != nil && !a.last.local {
		if clock.Early()-a.last.began >= localWait {
			a.e.logLocalWait(h)
			a.last.local = true
		} else {
			d = min(d, localWait)
		}
	}
	return a.heartbeat(d), false
}

// heartbeat shortens a pause so that the server hears from this waiter often enough.
func (a *acquisition) heartbeat(d time.Duration) time.Duration {
	if a.traits.Heartbeat > 0 {
		return min(d, a.traits.Heartbeat)
	}
	return d
}

// wait waits for a message, for at most d.
func (a *acquisition) wait(d time.Duration) error {
	wake := a.subscription().wake()
	a.countWait(true)
	woken, err := false, error(nil)
	rest := d
	if left := a.long.left(); left < d {
		left = max(left, 0)
		if woken, err = a.sleep(wake, left); !woken && err == nil {
			a.long.check()
		}
		rest -= left
	}
	if !woken && err == nil {
		woken, err = a.sleep(wake, rest)
	}
	if woken && err == nil && a.place.n > 0 {
		err = a.handleNews(wake, d)
	}
	if woken && err == nil && a.place.granted == "" && a.wakes.missed > freeWakes {
		_, err = a.sleep(nil, a.last.seen+wakePause-clock.Early())
	}
	if delay := a.turn.delay(a.wakes.missed); woken && err == nil && delay > 0 {
		_, err = a.sleep(nil, delay)
	}
	if err != nil {
		return a.gaveUp(err)
	}
	a.wakes.woken = woken
	a.place.unusable = a.place.unusable && d == 0
	return nil
}

// countWait counts the acquisition among those that wait, or not any more.
func (a *acquisition) countWait(waits bool) {
	if a.wakes.counted != waits && !a.r.Watch {
		a.wakes.counted = waits
		a.e.counts.waiting.Add(int64(2*boolInt(waits) - 1))
		a.e.announce(false)
	}
}

func (a *acquisition) sleep(wake <-chan struct{}, d time.Duration) (woken bool, err error) {
	return a.e.sleep(a.waiting, wake, d)
}

// sleep waits for wake, for at most d.
func (e *Engine) sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) (woken bool, err error) {
	return sleep(ctx, e.Closing(), wake, d)
}

// Tap returns a new tap on some channels: see [wait.Hub].
func (e *Engine) Tap(concerns func(channel, payload string) bool, names ...string) *wait.Tap {
	return e.hub.Tap(concerns, names...)
}

// Await waits for a notice of a tap, for at most a poll interval. The interval is shorter unless
// suffice is set and notices can arrive.
func (e *Engine) Await(ctx context.Context, t *wait.Tap, suffice bool) (woken bool, err error) {
	d := e.o.PollBlind
	if suffice && t.Live() {
		d = e.o.Poll
	}
	return e.sleep(ctx, t.Wake(), d)
}

func sleep(ctx context.Context, closing, wake <-chan struct{}, d time.Duration) (woken bool, err error) {
	select {
	case <-wake:
		return true, nil
	case <-time.After(d):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-closing:
		return false, ErrClosed
	}
}

// A Caller is told that its call has waited for longWaitTime, and then that it has ended. Neither
// may block.
type Caller interface {
	WaitsLong(since time.Duration) (ended func())
}

// A longWait tells the caller of a call that the call waits for long.
type longWait struct {
	caller Caller // nil: none
	since  time.Duration
	ended  func() // nil: the caller was not told
}

// left returns how long the call has to wait until its caller is told.
func (w *longWait) left() time.Duration {
	if w.caller == nil || w.ended != nil {
		return never
	}
	return w.since + longWaitTime - clock.Early()
}

func (w *longWait) check() {
	if w.left() <= 0 {
		w.ended = w.caller.WaitsLong(w.since)
	}
}

func (w *longWait) end() {
	if w.ended != nil {
		w.ended()
		w.ended, w.caller = nil, nil
	}
}

package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The queue at the server. A release grants the lock to the first client in it, and tells only that
// client. So the cost of a hand-off does not depend on how many wait.
//
// The lease of a grant counts from when the client sent its last request that was answered with a
// place in the queue. The grant names the entry of that answer, so the server has made it later.
// This needs no clock but that of the client, however late the message is. A grant names the owner,
// whose number cannot be guessed without a right to read the keys: see owners. The grant of an
// owner that is not used any more is given back: see package settle.
//
// Messages can be lost, and the client that was granted the lock may be gone. So waiters look, that
// is, they ask although no message has come. The first in the queue looks at the poll interval, and
// when the lock expires. It learns that it is the first from a reply, or from the message of the
// script that has made it the first. This stays true while it waits. The others look seldom, in
// case that the first is gone, too. A look takes what is free, whatever its place.
//
// A wake-up without a grant is for all clients that wait. Those at the front ask first.
//
// In the queue of a fair lock there are owners, which are not secret, so a message to one is a hint
// to ask. Redisson tells an owner on its own channel that it is next. A call subscribes to that
// channel only if the server says that Redisson uses the lock, too.
const (
	firstLook = time.Second           // the server tells a younger waiter not that it is the first
	openLook  = time.Second           // between two looks while a request without an answer may acquire the lock
	lookStep  = 5 * time.Millisecond  // between two waiters that ask
	lookSpace = 80 * time.Millisecond // per place, between two looks of a waiter that is not the first
	maxLook   = 20 * time.Second      // between two looks
	lookers   = 8                     // so many at the front of the queue ask when the lease of the holder ends

	refusalTime = time.Minute // for which the queue is not used after the server has refused it
)

// withQueue returns k with its queue at the server, if it has one that can be used. A kind that
// embeds another one has no queue: the claims of that queue would be those of the other kind.
func (e *Engine) withQueue(k Kind) Kind {
	if !e.o.Queue || e.isQueueRefused() {
		return k
	}
	if q := k.Queued(); q != nil && q.Unqueued() == k {
		return q
	}
	return k
}

// withoutQueue returns the kind without a queue, if the error of a request says that the server
// cannot run a script with two keys: the user lacks a right, or the slot is being moved.
func (e *Engine) withoutQueue(k target, err error) (Kind, bool) {
	q := k.Traits().Queued
	code := driver.CodeOf(err)
	if q == nil || code != "NOPERM" && code != "TRYAGAIN" {
		return nil, false
	}
	if code == "NOPERM" {
		e.refuseQueue(err)
	}
	return q.Unqueued(), true
}

// isQueueRefused reports whether the server has refused the queue a short time ago.
func (e *Engine) isQueueRefused() bool {
	until := e.rights.queueRefused.Load()
	return until > 0 && clock.Early() < time.Duration(until)
}

// refuseQueue notes that the user may not use the keys or the channels of queues, for some time.
func (e *Engine) refuseQueue(err error) {
	if e.rights.queueRefused.Swap(int64(clock.Early()+refusalTime)) == 0 {
		e.o.Log.Warn("the user may not use the queue of waiting clients, a release will wake all of them", "error", err)
	}
}

// withAllowedQueue returns k, without its queue if the user may not use it.
func (e *Engine) withAllowedQueue(k target) target {
	if q := k.Traits().Queued; q != nil && e.isQueueRefused() {
		return q.Unqueued()
	}
	return k
}

// A place is what an acquisition knows of its place in the queue at the server.
type place struct {
	n        int           // from 1; 0: not queued
	since    time.Duration // when the last request was sent that was answered with a place
	entry    int64         // the number of the entry in the queue, by that answer
	granted  string        // the text of a grant that a release has made; "": none
	early    time.Duration // when to look for the first time; 0: not yet queued
	pruned   bool          // dead entries of a full queue were removed
	unusable bool          // the queue cannot be used until the next wait
	first    attempt       // the first request
}

// lookAfter returns after which time a waiter in the queue looks. If a request is open, it may
// acquire the lock later, and no message tells of that.
func (p *place) lookAfter(poll time.Duration, last *lastAnswer, open bool) time.Duration {
	d := poll
	if p.n > 1 {
		d = min(max(d, time.Duration(p.n)*lookSpace), maxLook)
	}
	if last.ttl >= 0 && p.n <= lookers {
		d = min(d, last.remaining()+time.Millisecond+time.Duration(p.n-1)*lookStep)
	}
	if open {
		d = min(d, openLook)
	}
	now := clock.Early()
	if p.early == 0 {
		p.early = now + firstLook + clock.Random(firstLook/2)
	}
	if p.early > now {
		d = min(d, p.early-now)
	}
	return d
}

// expectGrant makes the next request one that queues, if a grant can arrive.
func (a *acquisition) expectGrant() {
	q := a.traits.Queued
	if !q.Joins() || a.once || a.r.Pause != nil {
		return
	}
	s := a.subscription()
	if s.waiter == nil && a.e.hub.Listens(q.LingeringChannel(a.claim.Owner)) {
		a.join() // the lock was held a moment ago
	}
	if s.grants == nil {
		return
	}
	c := &a.claim
	if !c.remains.Entry {
		s.grants.Expect(c.Owner)
	}
	if s.grants.Take().First && a.place.n > 1 {
		a.place.n = 1
	}
	c.Queue = (c.remains.Entry || s.grants.Live()) && !a.place.unusable
	c.remains.Entry = c.remains.Entry || c.Queue
	c.Check = c.Queue && !a.e.rights.queueChecked.Load()
}

// useGrant sets g to the grant that a release has made. It returns false if there is none that can
// be used without asking: not if the request is too old, if replicas must have the grant, or if the
// lease is of fixed length. The server then grants what the owner holds already.
func (a *acquisition) useGrant(g *grant) bool {
	text := a.place.granted
	if text == "" {
		return false
	}
	a.place.granted = ""
	d, ok := script.DecodeGrant(text)
	if !ok || d.Entry != a.place.entry || !a.r.renewed() || !a.credible(&script.Verdict{Token: d.Token}) ||
		!a.e.watchdog.InTime(clock.Now(), a.place.since, d.Lease/3) || a.e.replicas(a.asking, a.k.Gate()) > 0 ||
		d.Token <= a.floor() { // the clock was set back, and another call of this client has had the lock since
		return false
	}
	*g = grant{Verdict: script.Verdict{Token: d.Token}, attempt: a.place.first, received: clock.Early(), first: min(d.Lease, a.claim.Lease)}
	g.sent = a.place.since
	a.claim.remains.Entry = false // the release has removed it; a request that is still open may add it again
	return true
}

// prune removes entries of dead clients from a full queue. It reports whether there is room now.
func (a *acquisition) prune() bool {
	q := a.traits.Queued
	if a.place.pruned || q == nil {
		return false
	}
	a.place.pruned = true
	r, err := a.e.d.Do(a.asking, q.Prune())
	return err == nil && r.Int > 0
}

// handleNews takes in the messages to a waiter in the queue, and waits on if no request is due. A
// waiter that is told that it is the first has another time to look. After a message to all clients
// it waits a little, so that those at the front ask first.
func (a *acquisition) handleNews(wake <-chan struct{}, d time.Duration) error {
	p := &a.place
	until := clock.Early() + d
	for waits := false; ; {
		news := a.subscription().grants.Take()
		if p.granted = news.Grant; p.granted != "" || news.Look {
			return nil
		}
		switch {
		case news.First:
			p.n = 1
			a.last.hold(news.Held)
			until = clock.Early() + a.heartbeat(p.lookAfter(a.e.o.Poll, &a.last, a.claim.remains.Open))
		case waits:
		case p.n == 1:
			return nil
		default:
			waits = true
			until = min(until, clock.Early()+clock.Random(time.Duration(p.n)*lookStep))
		}
		left := until - clock.Early()
		if left <= 0 {
			return nil
		}
		if woken, err := a.sleep(wake, left); err != nil || !woken {
			return err
		}
	}
}

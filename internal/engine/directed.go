package engine

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// Directed grants. Clients that wait for a lock queue at the server. A release grants the
// lock to the first of them, and tells only that client. So the cost of a hand-off does
// not depend on how many wait.
//
// A grant counts from when the last request was sent that the server has answered with a
// place in the queue. The grant names the entry that was in the queue then, so it is newer. This
// needs no clock but that of the client, however late the message is. If that was too long
// ago, if replicas must have the grant, or if the lease is of fixed length, the client asks
// before it uses the grant. The server then grants to the owner what the owner holds already.
//
// A grant names the owner, whose number cannot be guessed without a right to read the keys:
// see Engine.owner. The grant of an owner that is not used any more is given back: see
// package settle.
//
// Messages can be lost, and the client that was granted the lock may be gone. So waiters look,
// that is, they ask although no message has come. The first in the queue looks at the poll
// interval, and when the lock expires. It learns that it is the first from a reply, or from
// the message of the script that has made it the first. This stays true while it waits. The
// others look seldom, in case that the first is gone, too. A look takes what is free, whatever
// its place.
//
// A wake-up without a grant is for all clients that wait. Those at the front ask first.
//
// In the queue of a fair lock there are owners, not clients, and Redisson tells an owner on
// its own channel that it is next. A call subscribes to that channel only if the server says
// that Redisson uses the lock, too. A message to a fair owner is a hint to ask, since these
// owners are not secret.
const (
	early     = time.Second           // the first look: the server tells a younger waiter not that it is the first
	openLook  = time.Second           // between two looks while a request without an answer may acquire the lock
	lookStep  = 5 * time.Millisecond  // between two waiters that ask
	lookSpace = 40 * time.Millisecond // per place, between two looks of a waiter that is not the first
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
	if q := k.Queued(); q != nil && q.Plain() == k {
		return q
	}
	return k
}

// withoutQueue returns the kind without a queue, if the error of a request says that the
// server cannot run a script with two keys: the user lacks a right, or the slot is being
// moved.
func (e *Engine) withoutQueue(k target, err error) (Kind, bool) {
	q := k.Traits().Queued
	if q == nil {
		return nil, false
	}
	switch driver.CodeOf(err) {
	case "NOPERM":
		e.refuseQueue(err)
	case "TRYAGAIN":
	default:
		return nil, false
	}
	return q.Plain(), true
}

// isQueueRefused reports whether the server has refused the queue a short time ago.
func (e *Engine) isQueueRefused() bool {
	until := e.queueRefused.Load()
	return until > 0 && clock.Early() < time.Duration(until)
}

// refuseQueue notes that the user may not use the keys or the channels of queues. The rights
// may change, so the queue is tried again later.
func (e *Engine) refuseQueue(err error) {
	if e.queueRefused.Swap(int64(clock.Early()+refusalTime)) == 0 {
		e.o.Log.Warn("the user may not use the queue of waiting clients, a release will wake all of them", "error", err)
	}
}

// withAllowedQueue returns k, without its queue if the user may not use it.
func (e *Engine) withAllowedQueue(k target) target {
	if q := k.Traits().Queued; q != nil && e.isQueueRefused() {
		return q.Plain()
	}
	return k
}

// grants returns where grants arrive, or nil.
func (a *acquisition) grants() *wait.Grants {
	if a.keep {
		return a.g.grants
	}
	return a.ownGrants
}

// joinGrants subscribes to grants, if releases make some.
func (a *acquisition) joinGrants() {
	q := a.traits.Queued
	if !q.Joins() || a.grants() != nil {
		return
	}
	g := a.waiter().JoinGrants(q.GrantChannels(a.claim.Owner)...)
	if a.keep {
		a.g.grants = g
	} else {
		a.ownGrants = g
	}
}

// expectGrant makes the next request one that queues, if a grant can arrive.
func (a *acquisition) expectGrant() {
	q := a.traits.Queued
	if !q.Joins() || a.once || a.r.Pause != nil {
		return
	}
	if a.waiter() == nil && a.e.hub.Listens(q.LingeringChannel(a.claim.Owner)) {
		a.join() // the lock was held a moment ago
	}
	g := a.grants()
	if g == nil {
		return
	}
	if !a.remains.Entry {
		g.Expect(a.claim.Owner)
	}
	if g.Take().First && a.place > 1 {
		a.place = 1
	}
	a.claim.Queue = (a.remains.Entry || g.Live()) && !a.unqueue
	a.remains.Entry = a.remains.Entry || a.claim.Queue
	a.claim.Check = a.claim.Queue && !a.e.queueChecked.Load()
}

// directed sets g to the grant that a release has made. It returns false if there is none
// that can be used without asking.
func (a *acquisition) directed(g *grant) bool {
	text := a.granted
	if text == "" {
		return false
	}
	a.granted = ""
	d, ok := script.DecodeGrant(text)
	key := a.k.Gate()
	if !ok || d.Entry != a.entry || !a.r.renewed() || !a.credible(&script.Verdict{Token: d.Token}) ||
		!a.e.watchdog.InTime(clock.Now(), a.since, d.Lease/3) || a.e.replicas(a.asking, key) > 0 ||
		d.Token <= a.floor() { // the clock was set back, and another call of this client has had the lock since
		return false
	}
	*g = grant{Verdict: script.Verdict{Token: d.Token}, attempt: a.first, received: clock.Early(), first: min(d.Lease, a.claim.Lease)}
	g.sent = a.since
	a.remains.Entry = false // the release has removed it; a request that is still open may add it again
	return true
}

// prune removes entries of dead clients from a queue that is full. It reports whether there is
// room now.
func (a *acquisition) prune() bool {
	a.pruned = true
	q := a.traits.Queued
	if q == nil {
		return false
	}
	r, err := a.e.d.Do(a.asking, q.Prune())
	return err == nil && r.Int > 0
}

// lookAfter returns after which time a waiter in the queue looks.
func (a *acquisition) lookAfter() time.Duration {
	d := a.e.o.Poll
	if a.place > 1 {
		d = min(max(d, time.Duration(a.place)*lookSpace), maxLook)
	}
	if a.ttl >= 0 && a.place <= lookers {
		d = min(d, a.remaining()+time.Millisecond+time.Duration(a.place-1)*lookStep)
	}
	if a.remains.Open {
		d = min(d, openLook)
	}
	if a.early == 0 {
		a.early = clock.Early() + early + clock.Random(early/2)
	}
	if left := a.early - clock.Early(); left > 0 {
		d = min(d, left)
	}
	return d
}

// canQueue reports whether the next request can queue and the last one did not.
func (a *acquisition) canQueue() bool {
	g := a.grants()
	return g != nil && !a.claim.Queue && !a.unqueue && g.Live()
}

// heed takes in the messages to a waiter in the queue, and waits on if no request is due. A
// waiter that is told that it is the first has another time to look. After a message to all
// clients it waits a little, so that those at the front ask first.
func (a *acquisition) heed(wake <-chan struct{}, d time.Duration) error {
	until := clock.Early() + d
	for waits := false; ; {
		news := a.grants().Take()
		if a.granted = news.Grant; a.granted != "" || news.Look {
			return nil
		}
		switch {
		case news.First:
			a.place, a.ttl, a.seen = 1, news.Held, clock.Early()
			until = clock.Early() + a.heartbeat(a.lookAfter())
		case waits:
		case a.place == 1:
			return nil
		default:
			waits = true
			until = min(until, clock.Early()+clock.Random(time.Duration(a.place)*lookStep))
		}
		left := until - clock.Early()
		if left <= 0 {
			return nil
		}
		if woken, err := a.e.sleep(a.waiting, wake, &a.timer, left); err != nil || !woken {
			return err
		}
	}
}

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
// A grant counts from when the acquisition began: no release can have granted the lock to
// its owner before the owner existed. This needs no clock but that of the client, however
// late the message is. If the acquisition has waited for too long for that, if replicas
// must have the grant, or if the lease is of fixed length, the client asks before it uses
// the grant. The server then grants to the owner what the owner holds already.
//
// A wake-up without a grant is for all clients that wait. Those at the front ask first.
//
// In the queue of a fair lock there are owners, not clients, and Redisson tells an owner on
// its own channel that it is next. A call subscribes to that channel only if the server says
// that Redisson uses the lock, too.
const (
	firstLook = 2500 * time.Millisecond // after that a call asks whether its grant was lost, or that of another client was not used
	lookStep  = 5 * time.Millisecond    // between two waiters that ask
	idleStep  = 150 * time.Millisecond  // by which a waiter asks later at most, for each one ahead, if the lock may be held for long
	maxLook   = time.Minute             // between two requests of a waiter
	lookers   = 8                       // so many at the front of the queue ask when the lease of the holder ends
)

// withQueue returns the kind whose clients queue at the server, if k has one.
func (e *Engine) withQueue(k Kind) Kind {
	if !e.o.Directed || e.queueRefused.Load() {
		return k
	}
	if l, ok := k.(interface{ Queued() *script.Queued }); ok {
		if q := l.Queued(); q != nil {
			return q
		}
	}
	return k
}

// withoutQueue returns the kind without a queue, if the error of a request says that the
// server cannot run a script with two keys: the user lacks a right, or the slot is being
// moved.
func (e *Engine) withoutQueue(k target, err error) (Kind, bool) {
	q, ok := k.(*script.Queued)
	if !ok {
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

// refuseQueue notes that the user may not use the keys or the channels of queues.
func (e *Engine) refuseQueue(err error) {
	if !e.queueRefused.Swap(true) {
		e.o.Log.Warn("the user may not use the queue of waiting clients, a release will wake all of them", "error", err)
	}
}

// withAllowedQueue returns k, without its queue if the user may not use it.
func (e *Engine) withAllowedQueue(k target) target {
	if q, ok := k.(*script.Queued); ok && e.queueRefused.Load() {
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
	q, ok := a.k.(*script.Queued)
	if !ok || !a.traits.Directed || a.grants() != nil {
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
	q, ok := a.k.(*script.Queued)
	if !ok || !a.traits.Directed || a.once || a.r.Pause != nil {
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
	g.Take()
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
	if !ok || !a.r.renewed() || !a.credible(&script.Verdict{Token: d.Token}) ||
		!a.e.watchdog.InTime(clock.Now(), a.began, d.Lease/2) || a.e.replicas(a.asking, key) > 0 ||
		d.Token <= a.floor() { // the clock was set back, and another call of this client has had the lock since
		return false
	}
	*g = grant{Verdict: script.Verdict{Token: d.Token}, attempt: a.first, received: clock.Early(), first: min(d.Lease, a.claim.Lease)}
	g.sent = a.began
	return true
}

// lookAfter returns after which time a waiter in the queue asks by itself.
func (a *acquisition) lookAfter() time.Duration {
	d := min(time.Duration(a.place)*a.e.o.Poll, maxLook)
	ahead := time.Duration(a.place - 1)
	if a.look == 0 {
		// The first request gets a free lock, so waiters need not ask in their order. All of
		// them together ask at a steady rate.
		a.look = a.began + firstLook + clock.Random(1+ahead*idleStep)
	}
	if left := a.look - clock.Early(); left > 0 {
		d = min(d, left)
	}
	if a.ttl >= 0 && a.place <= lookers {
		d = min(d, a.ttl+time.Millisecond+ahead*lookStep)
	}
	return d
}

// canQueue reports whether the next request can queue and the last one did not.
func (a *acquisition) canQueue() bool {
	g := a.grants()
	return g != nil && !a.claim.Queue && !a.unqueue && g.Live()
}

// heed takes in what has woken a waiter in the queue. After a message to all clients, it
// waits on, for at most d, so that those at the front ask first.
func (a *acquisition) heed(wake <-chan struct{}, d time.Duration) error {
	text, look := a.grants().Take()
	if a.granted = text; text != "" || look || a.place == 1 {
		return nil
	}
	until := clock.Early() + min(d, clock.Random(time.Duration(a.place)*lookStep))
	for {
		left := until - clock.Early()
		if left <= 0 {
			return nil
		}
		_, err := a.e.sleep(a.waiting, wake, &a.timer, left)
		if err != nil {
			return err
		}
		if a.granted, look = a.grants().Take(); a.granted != "" || look {
			return nil
		}
	}
}

// Package observe reports what the locks, semaphores and rate limiters of a client
// do. Metrics, traces and dashboards are made from its events: see the modules otel
// and prom.
//
//	client, err := holdfast.Open(ctx, url, &holdfast.Options{
//		Observers: []observe.Observer{observe.Func(func(e observe.Event) {
//			if e.Type == observe.Lost {
//				losses.Add(1)
//			}
//		})},
//	})
package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// An Observer receives the events of a client. Each observer has a queue and a
// goroutine of its own, so it may block or panic, and no lock waits for it. Up to 8192
// events are queued. Further events are dropped, and an event of type [Dropped] says
// how many.
type Observer interface {
	// Observe is called with each event, one after the other.
	Observe(Event)
}

// A Func is a function that is an [Observer].
type Func func(Event)

// Observe calls f.
func (f Func) Observe(e Event) { f(e) }

// An Event is something that has happened to a lock, a semaphore or a rate limiter,
// or to a client. Which fields are set depends on its type.
type Event struct {
	Type Type
	Time time.Time // when it happened

	// Client is the id of the client.
	Client string

	// ID is the same in all events of one call and of the lease that it returned. It
	// is unique within the client. It is zero in events that belong to no call.
	ID uint64

	// Context is the context that was given to the call, for its values: a span of a
	// trace, for example. It is nil in events that belong to no call.
	Context context.Context

	Kind    string // the kind of object, such as "mutex"
	Name    string // the name of the object
	Owner   string // the owner of the lease
	Token   int64  // the token of the lease
	Permits int    // how many permits of a semaphore or a rate limiter

	// How the call ended: how long it took, how the lock was granted, and how many
	// requests the call has sent for it. The events of a lease have these fields, too.
	Waited time.Duration
	Via    Via
	Looks  int

	Held time.Duration // from the grant to the call of Release, or to the loss

	Count int           // how many leases, or how many events
	Late  time.Duration // how much later than planned a renewal was confirmed

	Reason string // why the lease was lost, a holdfast.LossReason; or the reason of a warning
	Node   string // the address of a server
	Err    error  // the error of the call, or what has happened
}

// A Type is the type of an [Event].
type Type uint8

// The types of events. A call that acquires something has one event of type
// Started, and then one of type Acquired or Failed. A lease that was
// acquired has an event of type Released or Lost, or both, if it is released after
// the loss.
const (
	// Started: a call wants a lock or permits.
	Started Type = iota + 1
	// Acquired: the call has got it. Waited, Via and Looks say how.
	Acquired
	// Failed: the call has not got it. [Event.Outcome] says why.
	Failed
	// Released: a lease was released, or permits were. If Err is not nil, it is the
	// error of the release.
	Released
	// Extended: the user has extended a lease.
	Extended
	// Renewed: the watchdog has asked a server to renew Count leases. If Err is not
	// nil, the server has not confirmed it. The name and the owner are those of the
	// lease that was closest to its loss. Late is the largest of all leases.
	Renewed
	// Verified: after a failover or a restart, the server has confirmed Count leases.
	Verified
	// Lost: a lease was lost. Reason says why.
	Lost
	// SubscriptionLost: the client does not receive the messages of the server.
	// Until they are restored, waiters poll.
	SubscriptionLost
	// SubscriptionRestored: the client receives messages again.
	SubscriptionRestored
	// OutageStarted: a server does not answer or cannot serve, see holdfast.ErrUnavailable.
	OutageStarted
	// OutageEnded: the server has answered again.
	OutageEnded
	// Deadlock: a call of this client is part of a deadlock. The error is a
	// *holdfast.DeadlockError. Count is the number of calls in the cycle.
	Deadlock
	// Warned: there is a sign of a bug in the program, or of a machine that is too slow.
	// Reason says which, see the constants that begin with Warn.
	Warned
	// Dropped: the observer was too slow, and Count events were dropped.
	Dropped
)

var types = [...]string{
	Started:              "started",
	Acquired:             "acquired",
	Failed:               "failed",
	Released:             "released",
	Extended:             "extended",
	Renewed:              "renewed",
	Verified:             "verified",
	Lost:                 "lost",
	SubscriptionLost:     "subscription lost",
	SubscriptionRestored: "subscription restored",
	OutageStarted:        "outage started",
	OutageEnded:          "outage ended",
	Deadlock:             "deadlock",
	Warned:               "warned",
	Dropped:              "dropped",
}

// String returns the type in lower case.
func (t Type) String() string {
	if t == 0 || int(t) >= len(types) {
		return fmt.Sprintf("Type(%d)", t)
	}
	return types[t]
}

// The reasons of warnings.
const (
	WarnLeaked  = "leaked"       // a lease is no longer used, and was not released
	WarnLong    = "long hold"    // a lock was held for longer than holdfast.Options.LongHold
	WarnOwn     = "own client"   // a call waits for a lock that another lease of its client holds
	WarnLate    = "late renewal" // a lease was renewed when half of the time to renew it had passed
	WarnBlocked = "blocked"      // a hook, the logger or an observer has not returned for five seconds
)

// Via says how a lock was granted.
type Via string

// The ways in which a lock is granted.
const (
	ViaServer  Via = "server"  // the server has answered a request that the lock is granted
	ViaGrant   Via = "grant"   // the release of another client has granted it
	ViaHandoff Via = "handoff" // another goroutine of this client has passed it on
	ViaReentry Via = "reentry" // the context of the call held it already
)

// Outcome returns how a call to acquire something ended, in one word:
//
//	acquired     it has got the lock
//	busy         another owner held the lock until the deadline of the call
//	full         the queue of the lock was full, see holdfast.Options.MaxQueue
//	canceled     the context of the call was canceled
//	unavailable  the server did not answer, or could not serve
//	refused      the server has refused the request
//	deadlock     the call was ended to resolve a deadlock
//	lost         a lease that the call depends on was lost
//	closed       the client was closed
//	invalid      an argument or an option was invalid
//
// It returns "" for other events.
func (e Event) Outcome() string {
	switch {
	case e.Type == Acquired:
		return "acquired"
	case e.Type != Failed:
		return ""
	}
	for _, o := range outcomes {
		if errors.Is(e.Err, o.err) {
			return o.word
		}
	}
	return "invalid"
}

// outcomes are the outcomes of calls that failed. An error may match several of them:
// the first one counts.
var outcomes = []struct {
	err  error
	word string
}{
	{engine.ErrClosed, "closed"},
	{engine.ErrDeadlock, "deadlock"},
	{engine.ErrLost, "lost"},
	{engine.ErrQueueFull, "full"},
	{engine.ErrRefused, "refused"},
	{context.Canceled, "canceled"},
	{engine.ErrUnavailable, "unavailable"},
	{engine.ErrNotAcquired, "busy"},
	{context.DeadlineExceeded, "canceled"},
}

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/async"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/watchdog"
	"github.com/holdfast-go/holdfast/observe"
)

// observers are the observers of one client. A nil *observers does nothing.
type observers struct {
	client string
	queues []*async.Queue[observe.Event]
	ids    atomic.Uint64
}

const (
	eventQueue  = 8192             // how many events wait for an observer at most
	eventLinger = time.Millisecond // see async.New
)

// newObservers returns the observers of a client, or nil if there are none.
func newObservers(users []observe.Observer, log *slog.Logger) *observers {
	if len(users) == 0 {
		return nil
	}
	o := new(observers)
	for _, user := range users {
		o.queues = append(o.queues, async.New(eventQueue, eventLinger, async.User[observe.Event]{
			Handle: user.Observe,
			Dropped: func(n int) {
				user.Observe(observe.Event{Type: observe.Dropped, Time: time.Now(), Client: o.client, Count: n})
			},
			Panicked: func(v any) { log.Error("an observer has panicked", "panic", v) },
			Blocked:  func() { log.Warn(blockedText("an observer")) },
		}))
	}
	return o
}

// emit queues an event for each observer.
func (o *observers) emit(e observe.Event) {
	if o == nil {
		return
	}
	e.Client = o.client
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	for _, q := range o.queues {
		q.Put(e)
	}
}

// blockedText says that code of the user blocks.
func blockedText(what string) string {
	return fmt.Sprintf("%s has not returned for %v", what, async.BlockedTime)
}

// blocked reports that code of the user blocks.
func (o *observers) blocked(what string) {
	o.emit(observe.Event{Type: observe.Warned, Reason: observe.WarnBlocked, Err: errors.New(blockedText(what))})
}

// hook calls a hook of the user, and reports if it does not return.
func (l *Lease) hook(call func()) {
	c := l.client
	if c == nil {
		c = l.parts.leases[0].client
	}
	timer := time.AfterFunc(async.BlockedTime, func() {
		c.options.Logger.Warn(blockedText("a hook"))
		c.observers.blocked("a hook")
	})
	defer timer.Stop()
	call()
}

// flush waits until the observers have received all events, or until the limit has
// passed.
func (o *observers) flush(limit time.Duration) {
	if o == nil {
		return
	}
	end := time.Now().Add(limit)
	for _, q := range o.queues {
		q.Flush(time.Until(end))
	}
}

// An observation is what the observers see of one call and of its lease. A nil
// observation means that there are no observers.
type observation struct {
	*observers
	event  observe.Event // what all events have in common
	began  time.Time
	report engine.Report
	lost   atomic.Bool // the loss was reported
}

// observe starts the observation of a call for k. It returns nil if the client has no
// observers.
func (o *named) observe(ctx context.Context, c *Client, k any) *observation {
	if c.observers == nil {
		return nil
	}
	s := &observation{observers: c.observers, began: time.Now()}
	s.event = observe.Event{ID: s.ids.Add(1), Context: ctx, Kind: o.kind, Name: o.name}
	if p, ok := k.(interface{ Wants() int }); ok {
		s.event.Permits = p.Wants()
	}
	s.tell(observe.Started, s.began)
	return s
}

// tell emits an event of that type without further details.
func (s *observation) tell(t observe.Type, at time.Time) {
	e := s.event
	e.Type, e.Time = t, at
	s.emit(e)
}

// notes returns where the engine notes how the acquisition went.
func (s *observation) notes() *engine.Report {
	if s == nil {
		return nil
	}
	return &s.report
}

var vias = [...]observe.Via{engine.ByServer: observe.ViaServer, engine.ByRelease: observe.ViaGrant, engine.ByHandoff: observe.ViaHandoff}

// failed notes that a call failed, and reports it.
func (c *Client) failed(s *observation, err error) {
	c.calls.failures.Add(1)
	s.ended(nil, false, err)
}

// taken reports the end of a call that takes something that leaves nothing to hold.
func (c *Client) taken(s *observation, err error) {
	if err != nil {
		c.failed(s, err)
		return
	}
	s.ended(nil, false, nil)
}

// ended reports how the call ended. The lease is nil if the call failed, and if it
// takes something that leaves nothing to hold.
func (s *observation) ended(l *Lease, reentered bool, err error) {
	if s == nil {
		return
	}
	now := time.Now()
	s.event.Waited, s.event.Looks = now.Sub(s.began), s.report.Looks()
	if err != nil {
		e := s.event
		e.Type, e.Time, e.Err = observe.Failed, now, err
		s.emit(e)
		return
	}
	s.event.Via = vias[s.report.Way()]
	if reentered {
		s.event.Via = observe.ViaReentry
	}
	if l != nil {
		s.event.Owner, s.event.Token = l.Owner(), l.token
	}
	s.tell(observe.Acquired, now)
	if l != nil {
		l.seen.Store(s)
		if l.why() != 0 { // before it was observed
			l.observeLoss()
		}
	}
}

// held returns how long the lease is held at that time.
func (s *observation) held(at time.Time) time.Duration { return at.Sub(s.began) - s.event.Waited }

// released reports the release of a lease. It has begun at that time.
func (s *observation) released(l *Lease, began time.Time, err error) {
	if errors.Is(err, ErrLost) {
		l.observeLoss()
	}
	e := s.event
	e.Type, e.Held, e.Err = observe.Released, s.held(began), err
	s.emit(e)
}

// extended reports a call of Lease.Extend.
func (s *observation) extended(err error) {
	e := s.event
	e.Type, e.Err = observe.Extended, err
	s.emit(e)
}

// observeLoss reports that the lease was lost, once.
func (l *Lease) observeLoss() {
	s := l.seen.Load()
	if s == nil || s.lost.Swap(true) {
		return
	}
	lost := l.loss()
	e := s.event
	e.Type, e.Time = observe.Lost, time.Now()
	e.Held, e.Reason, e.Err = s.held(e.Time), string(lost.Reason), lost
	s.emit(e)
}

// observeRelease reports that permits were released that no lease holds.
func (o *named) observeRelease(ctx context.Context, permits int, err error) {
	if o.client == nil || o.client.observers == nil {
		return
	}
	o.client.observers.emit(observe.Event{Type: observe.Released, Context: ctx, Kind: o.kind, Name: o.name, Permits: permits, Err: err})
}

// events returns the callbacks by which the engine reports what belongs to no call.
func (o *observers) events() engine.Events {
	if o == nil {
		return engine.Events{}
	}
	return engine.Events{
		Renewed: func(r watchdog.Renewal) {
			e := observe.Event{Type: observe.Renewed, Name: r.Called(), Owner: r.Owner, Count: r.Leases, Late: r.Late, Node: r.Node, Err: r.Err}
			o.emit(e)
			if r.Verified > 0 {
				o.emit(observe.Event{Type: observe.Verified, Count: r.Verified, Node: r.Node})
			}
		},
		Subscription: func(err error) {
			e := observe.Event{Type: observe.SubscriptionRestored, Err: err}
			if err != nil {
				e.Type = observe.SubscriptionLost
			}
			o.emit(e)
		},
		Warned: func(w engine.Warning) {
			e := observe.Event{Type: observe.Warned, Name: w.Name, Owner: w.Owner, Reason: w.Reason, Err: w.Err}
			o.emit(e)
		},
		Outage: func(node string, err error) {
			e := observe.Event{Type: observe.OutageEnded, Node: node, Err: err}
			if err != nil {
				e.Type = observe.OutageStarted
			}
			o.emit(e)
		},
	}
}

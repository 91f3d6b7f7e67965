package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Quorum is several independent servers. A lock is acquired when most of them grant it.
type Quorum struct {
	Servers int
	Need    int
	Limit   time.Duration // how long each server may take to answer

	overdue []atomic.Int32 // by server: how many calls have no answer yet, after the limit
}

// NewQuorum returns a quorum that needs more than half of the servers. Clients for n are available.
func NewQuorum(servers, n int, limit time.Duration) *Quorum {
	return &Quorum{Servers: servers, Need: servers/2 + 1, Limit: limit, overdue: make([]atomic.Int32, n)}
}

// Acquire asks all servers, one per want, until enough of them grant the lock in the same round.
// The other wants have no Hold.
func (q *Quorum) Acquire(ctx context.Context, wants []*Want, r Request) error {
	limited, _, cancel := contexts(ctx, r.Wait)
	defer cancel()
	long := longWait{caller: r.Caller, since: clock.Early()}
	defer long.end()
	var waiters []*wait.Waiter // none until a server has refused
	var out outage
	for failures := 0; ; failures++ {
		for _, w := range waiters {
			w.Forget()
		}
		sent := clock.Early()
		t := q.ask(ctx, wants, r)
		err := t.error(q)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if errors.Is(err, ErrUnavailable) {
				out.note(err, sent)
			}
			return gaveUp(ctx.Err(), &out, t.ttl)
		case r.Wait == 0 || t.sameServer || errors.Is(err, ErrRefused) || errors.Is(err, ErrClosed):
			return err
		case errors.Is(err, ErrUnavailable):
			if out.note(err, sent) > wants[0].Engine.o.Patience {
				return err
			}
		default:
			out.over()
		}
		if waiters == nil {
			for _, w := range wants {
				waiter := w.Engine.hub.Join(w.Kind.Channels("")...)
				defer waiter.Leave()
				waiters = append(waiters, waiter)
			}
		}
		long.check()
		// Clients that have split the votes must not ask again at the same time.
		apart := 10 * time.Millisecond << min(failures, 4)
		heard, err := q.waitForReleases(limited, wants, waiters, &t, clock.Random(apart))
		if heard {
			_, err = sleep(limited, nil, nil, clock.Random(apart))
		}
		if err != nil {
			return hideOwnTimeout(ctx, gaveUp(err, &out, remaining(t.ttl, t.seen)))
		}
	}
}

// waitForReleases waits for messages from the servers that have refused, until their votes would be
// enough, at most for the pause of the tally plus more. Messages from other servers do not count:
// they may come from the votes that this call has just released.
func (q *Quorum) waitForReleases(ctx context.Context, wants []*Want, waiters []*wait.Waiter, t *tally, more time.Duration) (heard bool, err error) {
	poll := never
	var cases []reflect.SelectCase
	add := func(c any) {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	for _, i := range t.refused {
		o := &wants[i].Engine.o
		if waiters[i].Live() {
			poll = min(poll, o.Poll)
		} else {
			poll = min(poll, o.PollBlind)
		}
		add(waiters[i].Wake())
	}
	add(ctx.Done())
	add(time.After(t.pause(q, poll) + more))
	for _, w := range wants {
		if !w.Engine.IsClosing() {
			add(w.Engine.Closing())
		}
	}
	for missing := t.missing(q); missing > 0; missing-- {
		switch i, _, _ := reflect.Select(cases); {
		case i < len(t.refused):
			cases[i].Chan = reflect.Value{} // count each server once
		case i == len(t.refused):
			return false, ctx.Err()
		default: // the time is over, or a client was closed
			return false, nil
		}
	}
	return true, nil
}

// A tally counts votes.
type tally struct {
	granted, busy, young, failed int
	pending                      int             // servers that had not answered when the result was clear
	refused                      []int           // the wants of the busy servers
	ttls                         []time.Duration // how long the holders have left there; negative: no expiry
	ttl                          time.Duration   // the longest time until a busy or young server may grant
	seen                         time.Duration   // when the votes were counted
	err                          error           // the last failure
	late                         bool            // enough servers granted, but too late to be of use
	sameServer                   bool            // two votes come from the same server
}

// count adds a vote.
func (t *tally) count(v vote) {
	var busy *Busy
	switch {
	case v.err == nil:
		t.granted++
	case errors.As(v.err, &busy):
		if busy.Young {
			t.young++
		} else {
			t.busy++
			t.refused, t.ttls = append(t.refused, v.i), append(t.ttls, busy.TTL)
		}
		t.ttl = max(t.ttl, busy.TTL)
	default:
		t.failed++
		t.err = v.err
	}
}

// missing returns how many of the servers that have refused would have to grant the lock.
func (t *tally) missing(q *Quorum) int { return q.Need - t.granted - t.pending }

// pause returns how long to wait without a message: until the leases of the holders have ended at
// enough servers, or for the poll interval.
func (t *tally) pause(q *Quorum, poll time.Duration) time.Duration {
	const soon = 500 * time.Millisecond // for servers that have failed or were restarted
	missing := t.missing(q)
	switch {
	case missing <= 0:
		return 0
	case missing > t.busy:
		return min(max(t.ttl, 0), soon)
	}
	ends := slices.Clone(t.ttls)
	for i, ttl := range ends {
		if ttl < 0 {
			ends[i] = poll
		}
	}
	slices.Sort(ends)
	return min(ends[missing-1]+time.Millisecond, poll)
}

// error returns why there is no quorum, or nil if there is one.
func (t *tally) error(q *Quorum) error {
	switch {
	case t.sameServer:
		return ErrSameServer
	case t.granted >= q.Need && !t.late:
		return nil
	case t.failed <= q.Servers-q.Need: // enough servers have answered
		votes := fmt.Sprintf("%d of %d votes, needs %d (%d for others, %d failed", t.granted, q.Servers, q.Need, t.busy, t.failed)
		if t.young > 0 {
			votes += fmt.Sprintf(", %d restarted and not voting for up to %v", t.young, clock.Rounded(t.ttl))
		}
		return &Busy{TTL: t.ttl, Votes: votes + ")"}
	case errors.Is(t.err, ErrRefused) || errors.Is(t.err, ErrClosed):
		return t.err
	}
	return fmt.Errorf("%w: %d of %d servers failed, at least %d must answer; the last error: %w", ErrUnavailable, t.failed, q.Servers, q.Need, cmp.Or(t.err, errNoAnswer))
}

// A vote is the answer of one server.
type vote struct {
	i   int
	id  string // the run id of the server
	h   *Hold
	err error
}

// errNoAnswer is the vote of a server that does not answer, or has not answered an earlier call.
var errNoAnswer = fmt.Errorf("%w: no answer within the limit", ErrUnavailable)

// ask asks all servers concurrently. Without a quorum, it releases what was granted.
func (q *Quorum) ask(ctx context.Context, wants []*Want, r Request) tally {
	votes := make(chan vote, len(wants))
	calls, cancel := context.WithTimeout(ctx, q.Limit)
	once := Request{Lease: r.Lease, Renewal: r.Renewal, Hasty: true, Report: r.Report}
	begun := clock.Early()
	for i, w := range wants {
		w.Hold = nil
		if q.overdue[i].Load() > 0 { // it is not asked again before it has answered
			votes <- vote{i: i, err: errNoAnswer}
			continue
		}
		late := time.AfterFunc(q.Limit, func() { q.overdue[i].Add(1) })
		go func() {
			v := vote{i: i}
			place := w.Engine.d.Place(w.Kind.Ref("").Key)
			v.id, v.err = w.Engine.runID(calls, server{place.Node, place.Term}, once.patience(w.Engine))
			if v.err == nil {
				v.h, v.err = w.Engine.Acquire(calls, w.Kind, once, w.User)
			}
			if !late.Stop() {
				q.overdue[i].Add(-1)
			}
			votes <- v
		}()
	}
	t := tally{failed: q.Servers - len(wants)}
	var grace <-chan time.Time
	pending := len(wants)
	ids := make([]string, len(wants))
	for enough := false; pending > 0 && !enough; {
		select {
		case v := <-votes:
			pending--
			wants[v.i].Hold, ids[v.i] = v.h, v.id
			t.count(v)
			if t.granted == q.Need && grace == nil {
				grace = time.After(max(stragglerTime, 3*(clock.Early()-begun)))
			}
			enough = q.Servers-t.busy-t.young-t.failed < q.Need // too few can still grant it
		case <-grace:
			enough = true
		case <-calls.Done(): // even if a driver ignores it
			enough = true
			t.failed += pending
			t.err = errNoAnswer
		}
	}
	t.pending = max(q.Servers-t.granted-t.busy-t.young-t.failed, 0)
	t.seen = clock.Early()
	go q.releaseLate(pending, votes, wants, r, cancel)
	valid := 0
	seen := make(map[string]bool)
	for i, w := range wants {
		if w.Hold != nil && w.Hold.Valid() {
			valid++
			t.sameServer = t.sameServer || seen[ids[i]]
			seen[ids[i]] = true
		}
	}
	t.late = valid < q.Need
	if t.error(q) != nil || ctx.Err() != nil {
		t.late = true
		releaseWithin(q.Limit, departures(wants, r.renewed()))
	}
	return t
}

// releaseLate releases the votes that come too late to count, each as soon as it has come. So a
// server that does not answer does not delay the release at others.
func (q *Quorum) releaseLate(pending int, votes <-chan vote, wants []*Want, r Request, cancel func()) {
	defer cancel()
	for range pending {
		v := <-votes
		if v.h != nil {
			go func() { _ = v.h.Release(wants[v.i].User, r.renewed()) }()
		}
	}
}

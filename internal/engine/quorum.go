package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Quorum is a number of servers that know nothing of each other, and of which
// most have to grant a lock.
type Quorum struct {
	Servers int
	Need    int
	Limit   time.Duration // for each server to answer

	nodes []node
}

// A node is one of the servers.
type node struct {
	mu   sync.Mutex
	sent []time.Duration // calls under way, the oldest first
}

// ask notes a call, unless one is overdue: whoever does not answer is not asked
// again before it has.
func (n *node) ask(limit time.Duration) (sent time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := clock.Early()
	if len(n.sent) > 0 && now-n.sent[0] > limit {
		return 0, false
	}
	n.sent = append(n.sent, now)
	return now, true
}

// answered notes the answer to a call.
func (n *node) answered(sent time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.sent, sent)
	n.sent = slices.Delete(n.sent, i, i+1)
}

// NewQuorum returns a quorum of so many servers, more than half of them, of
// which n can be asked.
func NewQuorum(servers, n int, limit time.Duration) *Quorum {
	return &Quorum{Servers: servers, Need: servers/2 + 1, Limit: limit, nodes: make([]node, n)}
}

// straggle is how long those are waited for at least that have not answered when
// enough have: a lease on more servers than necessary survives the loss of one.
const straggle = 10 * time.Millisecond

// Acquire asks all servers, one per want, until enough grant the lock at once.
// Those that did not have a nil Hold.
func (q *Quorum) Acquire(ctx context.Context, wants []*Want, r Request) error {
	limited := ctx
	if r.Wait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	waiters := make([]*wait.Waiter, len(wants)) // nil until a server has refused
	var out outage
	for failures := 0; ; failures++ {
		for _, w := range waiters {
			if w != nil {
				w.Forget()
			}
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
		case r.Wait == 0 || t.same || errors.Is(err, ErrRefused) || errors.Is(err, ErrClosed):
			return err
		case errors.Is(err, ErrUnavailable):
			if out.note(err, sent) > wants[0].Engine.o.Patience {
				return err
			}
		default:
			out.over()
		}
		if waiters[0] == nil {
			for i, w := range wants {
				waiters[i] = w.Engine.hub.Join(nil, w.Kind.Channels("")...)
				defer waiters[i].Leave()
			}
		}
		// Those who have split the votes must not ask again at the same time.
		apart := 10 * time.Millisecond << min(failures, 4)
		heard, err := q.listen(limited, wants, waiters, &t, rand.N(apart))
		if heard {
			var timer *time.Timer
			_, err = sleep(limited, nil, nil, &timer, rand.N(apart))
		}
		if err != nil {
			return overWait(ctx, gaveUp(err, &out, t.remaining()))
		}
	}
}

// listen waits until so many of the servers that have refused were heard of that
// their votes would be enough, and for the pause of the tally and that much more
// at most. What others publish, and what this waiter has given back elsewhere,
// changes nothing.
func (q *Quorum) listen(ctx context.Context, wants []*Want, waiters []*wait.Waiter, t *tally, more time.Duration) (heard bool, err error) {
	poll := time.Duration(math.MaxInt64)
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
	timer := time.NewTimer(t.pause(q, poll) + more)
	defer timer.Stop()
	add(timer.C)
	add(ctx.Done())
	for _, w := range wants {
		if !w.Engine.isClosing() {
			add(w.Engine.closing)
		}
	}
	for missing := t.missing(q); missing > 0; missing-- {
		switch i, _, _ := reflect.Select(cases); {
		case i < len(t.refused):
			cases[i].Chan = reflect.Value{} // once
		case i == len(t.refused):
			return false, nil
		case i == len(t.refused)+1:
			return false, ctx.Err()
		default:
			return false, nil // one client less to ask
		}
	}
	return true, nil
}

// A tally counts votes.
type tally struct {
	granted, busy, young, failed int
	pending                      int             // not yet counted when it was clear that they change nothing
	refused                      []int           // the wants of the busy ones
	ttls                         []time.Duration // what others have left there; negative: no end
	ttl                          time.Duration   // the longest of those who are in the way
	seen                         time.Duration   // when they had that
	err                          error           // the last failure
	late                         bool            // enough were granted, but too late to be of use
	same                         bool            // two votes are of one server
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

// remaining is what the last of those who are in the way has left now.
func (t *tally) remaining() time.Duration {
	if t.ttl <= 0 {
		return t.ttl
	}
	return max(t.ttl-(clock.Early()-t.seen), time.Millisecond)
}

// missing is how many of the servers that have refused would have to grant the
// lock.
func (t *tally) missing(q *Quorum) int { return q.Need - t.granted - t.pending }

// pause is how long to wait if nothing is heard: until the leases of others have
// ended at enough servers, or for the poll interval.
func (t *tally) pause(q *Quorum, poll time.Duration) time.Duration {
	const soon = 500 * time.Millisecond // for those that have failed, or have started lately
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

// error says why there is no quorum, or nil if there is.
func (t *tally) error(q *Quorum) error {
	switch {
	case t.same:
		return ErrSameServer
	case t.granted >= q.Need && !t.late:
		return nil
	case t.failed <= q.Servers-q.Need: // enough could have voted
		votes := fmt.Sprintf("%d of %d votes, needs %d (%d for others, %d failed", t.granted, q.Servers, q.Need, t.busy, t.failed)
		if t.young > 0 {
			votes += fmt.Sprintf(", %d started lately and without a vote for up to %v", t.young, t.ttl)
		}
		return &Busy{TTL: t.ttl, Votes: votes + ")"}
	case errors.Is(t.err, ErrRefused) || errors.Is(t.err, ErrClosed):
		return t.err
	}
	return fmt.Errorf("%w: %d of %d servers failed, at least %d must answer; the last error: %w", ErrUnavailable, t.failed, q.Servers, q.Need, cmp.Or(t.err, errSilent))
}

// A vote is the answer of one server.
type vote struct {
	i   int
	id  string // of the server
	h   *Hold
	err error
}

// errSilent is the vote of a server that does not answer, or still owes the
// answer to an earlier call.
var errSilent = fmt.Errorf("%w: no answer within the limit", ErrUnavailable)

// ask asks all servers at once, and takes back what was granted if that is not
// enough.
func (q *Quorum) ask(ctx context.Context, wants []*Want, r Request) tally {
	votes := make(chan vote, len(wants))
	calls, cancel := context.WithTimeout(ctx, q.Limit)
	once := Request{Lease: r.Lease, Hasty: true}
	begun := clock.Early()
	for i, w := range wants {
		w.Hold = nil
		sent, ok := q.nodes[i].ask(q.Limit)
		if !ok {
			votes <- vote{i: i, err: errSilent}
			continue
		}
		go func() {
			v := vote{i: i}
			place := w.Engine.d.Place(w.Kind.Ref("").Key)
			v.id, v.err = w.Engine.identity(calls, server{place.Node, place.Term}, once.patience(w.Engine))
			if v.err == nil {
				v.h, v.err = w.Engine.Acquire(calls, w.Kind, once, w.User)
			}
			q.nodes[i].answered(sent)
			votes <- v
		}()
	}
	t := tally{failed: q.Servers - len(wants)}
	// Whatever the drivers make of the context, this is the limit.
	limit := time.NewTimer(q.Limit)
	defer limit.Stop()
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
				grace = time.After(max(straggle, 3*(clock.Early()-begun)))
			}
			enough = q.Servers-t.busy-t.young-t.failed < q.Need // too few can still grant it
		case <-grace:
			enough = true
		case <-limit.C:
			enough = true
			t.failed += pending
			t.err = errSilent
		case <-ctx.Done():
			enough = true
			t.failed += pending
			t.err = errSilent
		}
	}
	t.pending = max(q.Servers-t.granted-t.busy-t.young-t.failed, 0)
	t.seen = clock.Early()
	go q.await(pending, votes, wants, r, cancel)
	valid := 0
	seen := make(map[string]bool)
	for i, w := range wants {
		if w.Hold != nil && w.Hold.Valid() {
			valid++
			t.same = t.same || seen[ids[i]]
			seen[ids[i]] = true
		}
	}
	t.late = valid < q.Need
	if t.error(q) != nil || ctx.Err() != nil {
		t.late = true
		q.giveBack(wants, r)
	}
	return t
}

// await gives back the votes that came too late to count, each as soon as it
// has come: a server that does not answer does not keep the votes of others.
func (q *Quorum) await(pending int, votes <-chan vote, wants []*Want, r Request, cancel func()) {
	defer cancel()
	for range pending {
		v := <-votes
		if v.h != nil {
			go func() { _ = v.h.Release(wants[v.i].User, r.renewed()) }()
		}
	}
}

// giveBack releases what was granted everywhere, and waits for that as long as
// the limit allows.
func (q *Quorum) giveBack(wants []*Want, r Request) {
	var wg sync.WaitGroup
	for _, w := range wants {
		if h := w.Hold; h != nil {
			w.Hold = nil
			wg.Go(func() { _ = h.Release(w.User, r.renewed()) })
		}
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(q.Limit):
	}
}

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	var wake chan struct{}
	var out outage
	var timer *time.Timer
	for failures := 0; ; failures++ {
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
		if wake == nil {
			wake = make(chan struct{}, 1)
			for _, w := range wants {
				defer w.listen(wake).Leave()
			}
		}
		// Those who have split the votes must not ask again at the same time.
		apart := 10 * time.Millisecond << min(failures, 4)
		woken, err := sleep(limited, nil, wake, &timer, t.pause()+rand.N(apart))
		if woken {
			_, err = sleep(limited, nil, nil, &timer, rand.N(apart))
		}
		if err != nil {
			return overWait(ctx, gaveUp(err, &out, t.ttl))
		}
	}
}

func (w *Want) listen(wake chan struct{}) *wait.Waiter {
	return w.Engine.hub.Join(wake, w.Kind.Channels("")...)
}

// A tally counts votes.
type tally struct {
	granted, busy, young, failed int
	ttl                          time.Duration // the longest of those who are in the way
	err                          error         // the last failure
	late                         bool          // enough were granted, but too late to be of use
	same                         bool          // two votes are of one server
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
		}
		t.ttl = max(t.ttl, busy.TTL)
	default:
		t.failed++
		t.err = v.err
	}
}

// pause is how long to wait if nothing is heard.
func (t *tally) pause() time.Duration {
	if t.busy == 0 {
		return 0
	}
	return min(max(t.ttl, 0), 500*time.Millisecond)
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
			votes <- vote{i, nil, errSilent}
			continue
		}
		go func() {
			var h *Hold
			_, err := w.Engine.identity(calls)
			if err == nil {
				h, err = w.Engine.Acquire(calls, w.Kind, once, w.User)
			}
			q.nodes[i].answered(sent)
			votes <- vote{i, h, err}
		}()
	}
	t := tally{failed: q.Servers - len(wants)}
	// Whatever the drivers make of the context, this is the limit.
	limit := time.NewTimer(q.Limit)
	defer limit.Stop()
	var grace <-chan time.Time
	pending := len(wants)
	for enough := false; pending > 0 && !enough; {
		select {
		case v := <-votes:
			pending--
			wants[v.i].Hold = v.h
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
	go q.await(pending, votes, wants, r, cancel)
	valid := 0
	seen := make(map[string]bool)
	for _, w := range wants {
		if w.Hold != nil && w.Hold.Valid() {
			valid++
			id := *w.Engine.server.Load()
			t.same = t.same || seen[id]
			seen[id] = true
		}
	}
	t.late = valid < q.Need
	if t.error(q) != nil || ctx.Err() != nil {
		t.late = true
		q.giveBack(wants, r)
	}
	return t
}

// await sees to the votes that came too late to count.
func (q *Quorum) await(pending int, votes <-chan vote, wants []*Want, r Request, cancel func()) {
	defer cancel()
	for range pending {
		v := <-votes
		if v.h != nil {
			_ = v.h.Release(wants[v.i].User, r.renewed())
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

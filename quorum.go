package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/family"
	"github.com/holdfast-go/holdfast/internal/script"
)

func init() {
	family.NewQuorum = func(clients any, servers int, nodeTimeout, longestLease time.Duration) (func(string, any) any, error) {
		q, err := newQuorum(clients.([]*Client), servers, nodeTimeout, longestLease)
		if err != nil {
			return nil, &Error{Op: "new redlock", Err: err}
		}
		return func(name string, opts any) any { return q.lock(name, opts.([]Option)) }, nil
	}
}

// A quorum is what package redlock stands on.
type quorum struct {
	clients []*Client
	votes   *engine.Quorum
	longest time.Duration
}

func newQuorum(clients []*Client, servers int, limit, longest time.Duration) (*quorum, error) {
	if servers == 0 {
		servers = len(clients)
	}
	if limit == 0 {
		limit = 200 * time.Millisecond
	}
	seen := make(map[*Client]bool)
	var least time.Duration
	for i, c := range clients {
		switch {
		case c.usable() != nil:
			return nil, invalid("client %d is nil or a zero value: leave out the servers that could not be opened, and set Servers", i)
		case seen[c]:
			return nil, invalid("client %d is there twice: each vote needs a server of its own", i)
		}
		seen[c] = true
		least = max(least, c.engine.Lease())
	}
	if longest == 0 {
		longest = least
	}
	switch {
	case longest < least:
		return nil, invalid("LongestLease is %v, less than the WatchdogTimeout of a client, %v", longest, least)
	case servers < 3:
		return nil, invalid("%d servers: a majority that survives the loss of one needs at least 3", servers)
	case len(clients) > servers:
		return nil, invalid("%d clients for %d servers: each needs a server of its own", len(clients), servers)
	case len(clients) <= servers/2:
		return nil, invalid("%d clients for %d servers: that is no majority", len(clients), servers)
	case limit < time.Millisecond || limit > longest/2:
		return nil, invalid("NodeTimeout is %v: choose between 1ms and half of the longest lease, %v", limit, longest/2)
	}
	return &quorum{clients, engine.NewQuorum(servers, len(clients), limit), longest}, nil
}

// A quorumLock is a lock that most of several servers have to grant.
type quorumLock struct {
	object
	q *quorum
}

func (q *quorum) lock(name string, opts []Option) Locker {
	return &quorumLock{newNamed("redlock", name, opts), q}
}

func (l *quorumLock) Lock(ctx context.Context, opts ...Option) (*Lease, error) {
	return l.vote(ctx, "lock", engine.Forever, opts)
}

func (l *quorumLock) TryLock(ctx context.Context, opts ...Option) (*Lease, error) {
	return l.vote(ctx, "try lock", 0, opts)
}

func (l *quorumLock) vote(ctx context.Context, op string, wait time.Duration, opts []Option) (*Lease, error) {
	s := l.set.with(opts)
	s.fail(checkContext(ctx))
	if s.err == nil && s.lease > l.q.longest {
		s.fail(invalid("LeaseTime is %v, more than the longest lease that the servers know of, %v: raise Options.LongestLease everywhere", s.lease, l.q.longest))
	}
	if s.err != nil {
		return nil, l.fail(op, s.err)
	}
	r := s.request(wait)
	whole := &Lease{
		kind: l.kind, name: l.name,
		parts:  &parts{need: l.q.votes.Need, limit: l.q.votes.Limit, quorum: l.q, longest: l.q.longest},
		exit:   s.onRelease,
		parent: ctx, outer: LeaseOf(ctx),
	}
	part := func(c *Client) *Lease {
		return &Lease{client: c, kind: "vote", name: l.name, renewed: r.Lease == 0, parent: ctx, whole: whole}
	}
	var err error
	switch held := l.q.find(ctx, l.name); {
	case held != nil && s.nonReentrant:
		err = ErrReentrant
	case held != nil:
		err = whole.enterAll(ctx, held, part, r)
	default:
		err = l.q.acquire(ctx, whole, part, r)
	}
	if err != nil {
		return nil, l.fail(op, err)
	}
	whole.announce(s.onAcquire)
	return whole, nil
}

// acquire makes the votes of most servers the parts of a lease.
func (q *quorum) acquire(ctx context.Context, whole *Lease, part func(*Client) *Lease, r engine.Request) error {
	wants := make([]*engine.Want, len(q.clients))
	leases := make([]*Lease, len(q.clients))
	for i, c := range q.clients {
		leases[i] = part(c)
		wants[i] = &engine.Want{Engine: c.engine, Kind: script.NewVote(whole.name, q.longest), User: (*keeper)(leases[i])}
	}
	if err := q.votes.Acquire(ctx, wants, r); errors.Is(err, engine.ErrSameServer) {
		return invalid("%w: each vote needs a server of its own", err)
	} else if err != nil {
		return err
	}
	for i, w := range wants {
		if w.Hold != nil {
			leases[i].hold = w.Hold
			leases[i].pass, _ = w.Hold.Grant()
			whole.parts.leases = append(whole.parts.leases, leases[i])
		}
	}
	return nil
}

// enterAll makes the lease one more on what held holds.
func (l *Lease) enterAll(ctx context.Context, held *Lease, part func(*Client) *Lease, r engine.Request) error {
	if held.why() != 0 {
		return held.loss()
	}
	results := make(chan *Lease, len(held.parts.leases)) // nil: not entered
	r.Hasty = true
	for _, p := range held.parts.leases {
		go func() {
			again := part(p.client)
			again.hold, again.pass = p.hold, p.pass
			if again.hold.Reenter(ctx, again.pass, r, (*keeper)(again)) != nil {
				again = nil
			}
			results <- again
		}()
	}
	limit := time.NewTimer(l.parts.limit)
	defer limit.Stop()
	pending := len(held.parts.leases)
	for timeout := false; pending > 0 && !timeout; {
		select {
		case again := <-results:
			pending--
			if again != nil {
				l.parts.leases = append(l.parts.leases, again)
			}
		case <-limit.C:
			timeout = true
		}
	}
	go func() {
		for range pending {
			if again := <-results; again != nil {
				go func() { _ = again.release() }()
			}
		}
	}()
	if len(l.parts.leases) >= l.parts.need {
		return nil
	}
	_ = l.parts.release()
	if held.why() != 0 {
		return held.loss()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errSlow
}

// find returns the innermost lease of that name in ctx that is not released.
func (q *quorum) find(ctx context.Context, name string) *Lease {
	for l := LeaseOf(ctx); l != nil; l = l.outer {
		if l.parts != nil && l.parts.quorum == q && l.name == name && !l.released() {
			return l
		}
	}
	return nil
}

package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Redlock is a group of independent Redis servers. It grants a lock when a majority
// of the servers grants it. It implements the Redlock algorithm, which Redisson calls
// RedissonRedLock.
//
//	clients := []*holdfast.Client{a, b, c, d, e} // five servers, none a replica of another
//	locks, err := holdfast.NewRedlock(clients, holdfast.RedlockOptions{})
//	...
//	err = locks.Mutex("order:42").Do(ctx, func(ctx context.Context) error {
//		return charge(ctx)
//	})
//
// # What it protects from
//
// The lock stays available, and a held lock is not lost, while fewer than half of the
// servers are down, partitioned or slow. A restarted server may have forgotten its
// votes. It does not vote until every lease that it may have granted has expired, see
// [RedlockOptions].LongestLease. This also applies when all servers start for the first
// time.
//
// # What it does not protect from
//
// A lease is valid until its deadline by the clocks of the client and of most servers.
// Clocks may run at slightly different speeds: each lease is shortened by 1 %. If
// enough servers drop their votes early because their clocks jump forward, two owners
// may hold the lock. A server whose keys are deleted may vote twice. Work that is
// already on its way does not stop when the lease is lost, see [Lease.Valid]. There is
// no fencing token, because the servers share no counter.
//
// # When to prefer one server
//
// If two holders at the same time would do damage, use one server and a
// [Client.FencedMutex], and let the resource check the token. If they would only repeat
// work, one server with replicas is simpler and cheaper.
type Redlock struct {
	clients []*Client
	quorum  *engine.Quorum
	longest time.Duration
}

// RedlockOptions configure a [Redlock]. The zero value is a good choice.
type RedlockOptions struct {
	// Servers is the number of servers. The default is the number of clients. Set it if
	// some servers could not be opened: the majority is always counted over all
	// servers. A server without a client has no vote in this process.
	Servers int

	// NodeTimeout bounds the time for one server to answer. A server that does not
	// answer in time has not voted, and is not asked again until it has answered. The
	// default is 200 ms.
	NodeTimeout time.Duration

	// LongestLease is the longest lease time that any process uses on these servers. A
	// restarted server does not vote for this long. All processes must use the same
	// value. The default, and the minimum, is the longest WatchdogTimeout of the
	// clients, which is 30 s by default.
	LongestLease time.Duration
}

// NewRedlock returns a Redlock on the servers of the clients. There must be at
// least three servers, preferably an odd number, none a replica of another.
// Redlock does not close the clients.
func NewRedlock(clients []*Client, o RedlockOptions) (*Redlock, error) {
	r, err := newRedlock(clients, o.Servers, o.NodeTimeout, o.LongestLease)
	if err != nil {
		return nil, &Error{Op: "new redlock", Err: err}
	}
	return r, nil
}

func newRedlock(clients []*Client, servers int, limit, longest time.Duration) (*Redlock, error) {
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
	return &Redlock{clients, engine.NewQuorum(servers, len(clients), limit), longest}, nil
}

// Mutex returns the lock with that name, see [Client.Mutex].
//
// Lock waits until a majority of the servers grants the lock, or until ctx is done. It
// asks again when enough servers have published a release, when enough leases of other
// owners have expired, and every [Options].PollInterval of its clients. TryLock asks
// all servers once, at the same time, and returns after [RedlockOptions].NodeTimeout at
// the latest, or after [Wait].
//
// The errors match [ErrNotAcquired] if other owners kept the lock, and [ErrUnavailable]
// if too few servers answered.
func (r *Redlock) Mutex(name string, opts ...LockOption) Locker {
	if r == nil || r.quorum == nil {
		return new(redlockMutex)
	}
	o := newClientless("redlock", name, with(settings{}, opts))
	for _, c := range r.clients {
		if err := script.CheckName(c.prefixed(name)); err != nil {
			o.set.fail(invalid("%w", err))
		}
	}
	return &redlockMutex{o, r}
}

// A redlockMutex is a named lock of a Redlock.
type redlockMutex struct {
	named
	redlock *Redlock
}

func (m *redlockMutex) Lock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.vote(ctx, "lock", engine.Forever, opts)
}

func (m *redlockMutex) TryLock(ctx context.Context, opts ...LockOption) (*Lease, error) {
	return m.vote(ctx, "try lock", 0, opts)
}

func (m *redlockMutex) Do(ctx context.Context, fn func(context.Context) error, opts ...LockOption) error {
	return do(ctx, m, fn, opts)
}

func (m *redlockMutex) vote(ctx context.Context, op string, wait time.Duration, opts []LockOption) (*Lease, error) {
	s := with(m.set, opts)
	if m.redlock == nil {
		s.fail(errZero)
	}
	s.fail(checkContext(ctx))
	if d := max(s.lease, s.renewal, s.atLeast); s.err == nil && d > m.redlock.longest {
		s.fail(invalid("the lease time is %v, more than the longest lease that the servers know of, %v: raise RedlockOptions.LongestLease everywhere", d, m.redlock.longest))
	}
	if s.err != nil {
		return nil, m.fail(op, s.err)
	}
	r := s.request(wait)
	whole := &Lease{
		kind: m.kind, name: m.name,
		parts:  &parts{need: m.redlock.quorum.Need, limit: m.redlock.quorum.Limit, redlock: m.redlock, longest: m.redlock.longest},
		exit:   s.onRelease,
		parent: ctx, outer: LeaseOf(ctx),
	}
	part := func(c *Client) *Lease {
		return &Lease{client: c, kind: "vote", name: c.prefixed(m.name), renewed: r.Lease == 0, parent: ctx, whole: whole}
	}
	seen := m.observe(ctx, m.redlock.clients[0], nil)
	r.Report, r.Caller = seen.notes(), &setCaller{whole, m.redlock.clients[0]}
	var err error
	held := m.redlock.find(ctx, m.name)
	switch {
	case held != nil && s.nonReentrant:
		err = ErrReentrant
	case held != nil:
		err = whole.enterAll(ctx, held, part, r)
	default:
		err = m.redlock.acquire(ctx, whole, part, r)
	}
	if err != nil {
		err = because(ctx, m.fail(op, err))
		m.redlock.clients[0].failed(seen, err)
		return nil, err
	}
	seen.ended(whole, held != nil, nil)
	whole.announce(s.onAcquire)
	whole.keepFor(s.atLeast)
	return whole, nil
}

// acquire asks all servers for their votes, and makes these the parts of the lease.
func (r *Redlock) acquire(ctx context.Context, whole *Lease, part func(*Client) *Lease, req engine.Request) error {
	wants := make([]*engine.Want, len(r.clients))
	leases := make([]*Lease, len(r.clients))
	for i, c := range r.clients {
		leases[i] = part(c)
		wants[i] = &engine.Want{Engine: c.engine, Kind: script.NewVote(c.prefixed(whole.name), r.longest), User: (*lossHandler)(leases[i])}
	}
	if err := r.quorum.Acquire(ctx, wants, req); errors.Is(err, engine.ErrSameServer) {
		return invalid("%w: each vote needs a server of its own", err)
	} else if err != nil {
		return err
	}
	for i, w := range wants {
		if w.Hold != nil {
			leases[i].hold = w.Hold
			leases[i].pass, _ = w.Hold.Current()
			whole.parts.leases = append(whole.parts.leases, leases[i])
		}
	}
	return nil
}

// enterAll makes the lease one more on the parts of held.
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
			if again.hold.Reenter(ctx, again.pass, r, (*lossHandler)(again)) != nil {
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

// find returns the innermost unreleased lease with that name in ctx, or nil.
func (r *Redlock) find(ctx context.Context, name string) *Lease {
	for l := LeaseOf(ctx); l != nil; l = l.outer {
		if l.parts != nil && l.parts.redlock == r && l.name == name && !l.released() {
			return l
		}
	}
	return nil
}

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An Election chooses one of many processes as the leader, and another one when the
// leader stops leading. It is a [Client.FencedMutex] whose holder publishes a name.
// Redisson has no equivalent.
//
// The leader holds a [Lease]. Its context ends before another process can be elected,
// unless the leader is deposed, see [Election.Depose]. Its token is the term, which
// increases with each leader. To resign, release the lease.
type Election struct {
	named
	wire *script.Election
}

// Election returns the election with the given name, see [Client.Mutex].
func (c *Client) Election(name string, opts ...LockOption) *Election {
	o := newNamed(c, "election", name, with(settings{}, opts))
	o.set.nonReentrant, o.steady = true, true
	return &Election{o, script.NewElection(c.prefixed(name))}
}

// maxSaid is the maximum length of a candidate in bytes.
const maxSaid = 64 << 10

// Campaign waits until this process is the leader, or until ctx is done. The candidate
// describes this process in at most 64 KiB. Observers see it as [Leader].Name. The
// errors are those of [Mutex.Lock]. The error matches [ErrReentrant] if ctx is the
// context of a leader, and [ErrLost] if the lead was lost before it was announced.
func (e *Election) Campaign(ctx context.Context, candidate string, opts ...LockOption) (*Lease, error) {
	return e.campaign(ctx, "campaign in", candidate, engine.Forever, opts)
}

// TryCampaign becomes the leader if there is none. Otherwise it returns
// [ErrNotAcquired] at once, or after [Wait].
func (e *Election) TryCampaign(ctx context.Context, candidate string, opts ...LockOption) (*Lease, error) {
	return e.campaign(ctx, "campaign in", candidate, 0, opts)
}

func (e *Election) campaign(ctx context.Context, op, candidate string, wait time.Duration, opts []LockOption) (*Lease, error) {
	if err := checkSaid(candidate); err != nil {
		return nil, e.fail(op, err)
	}
	// OnAcquire is called, and AtLeast applies, when observers can see the leader.
	set := with(e.set, opts)
	lease, err := e.acquire(ctx, op, e.wire, wait, append(opts[:len(opts):len(opts)], option(func(s *settings) { s.onAcquire, s.atLeast = nil, 0 })))
	if err != nil {
		return nil, err
	}
	if err := e.proclaim(ctx, op, lease, candidate); err != nil {
		lease.exit = nil // OnAcquire was not called
		_ = lease.Release(ctx)
		return nil, err
	}
	lease.announce(set.onAcquire)
	lease.keepFor(set.atLeast)
	return lease, nil
}

func checkSaid(candidate string) error {
	if len(candidate) > maxSaid {
		return invalid("the candidate has %d bytes: use at most %d", len(candidate), maxSaid)
	}
	return nil
}

// Proclaim changes the candidate that the leader has published. The error
// matches [ErrLost] if the lead was lost, [ErrNotHeld] if the lease was
// released, and [ErrInvalid] if it is not a lease of this election.
func (e *Election) Proclaim(ctx context.Context, lease *Lease, candidate string) error {
	err := cmp.Or(e.ready(ctx), checkSaid(candidate))
	if lease == nil || lease.find(e.client, e.kind, e.name) != lease {
		err = invalid("the lease does not belong to this election")
	}
	if err == nil && lease.released() {
		err = ErrNotHeld
	}
	if err != nil {
		return e.fail("proclaim", err)
	}
	return e.proclaim(ctx, "proclaim", lease, candidate)
}

func (e *Election) proclaim(ctx context.Context, op string, lease *Lease, candidate string) error {
	leads := false
	err := e.ask(ctx, op, true, func(ctx context.Context) (err error) {
		leads, err = e.wire.Proclaim(ctx, e.client.driver, lease.Owner(), candidate)
		return err
	})
	if err == nil && !leads {
		lease.hold.Disown()
	}
	if err == nil && !lease.Valid() { // also if the answer has taken too long
		return lease.loss()
	}
	return err
}

// Depose ends the term of the current leader, and reports whether there was one. If the
// leader uses this client, its lease ends at once. Other leaders notice it at their
// next renewal.
func (e *Election) Depose(ctx context.Context) (bool, error) {
	return e.force(ctx, e.wire, func(ctx context.Context) (bool, error) { return e.wire.Force(ctx, e.client.driver, "") })
}

// Lead runs fn whenever this process is the leader. The context of fn ends when the
// lead is lost. Then fn must return, and Lead ignores its error. When the process is
// elected again, Lead runs fn again.
//
// Lead ends when fn returns while the process still leads. It then resigns and returns
// the error of fn. It also ends when ctx is done: every error that it then returns also
// matches the error of ctx and its cause. Lead does not end because the server cannot
// be reached.
func (e *Election) Lead(ctx context.Context, candidate string, fn func(context.Context) error, opts ...LockOption) error {
	if fn == nil {
		return e.fail("lead", invalid("the function is nil"))
	}
	if err := checkContext(ctx); err != nil {
		return e.fail("lead", err)
	}
	for {
		again, err := e.lead(ctx, candidate, fn, opts)
		if done := ctx.Err(); done != nil && err != nil {
			if !errors.Is(err, done) {
				err = fmt.Errorf("%w (%w)", err, done)
			}
			return because(ctx, err)
		}
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(leadPause):
		}
	}
}

// leadPause is the time between two terms of one leader, and between two
// attempts while the server cannot be reached.
const leadPause = 10 * time.Millisecond

// lead runs fn for one term. It reports whether the term ended before fn did.
func (e *Election) lead(ctx context.Context, candidate string, fn func(context.Context) error, opts []LockOption) (again bool, err error) {
	goesOn := func(err error) bool {
		return (errors.Is(err, ErrLost) || errors.Is(err, ErrUnavailable)) && !errors.Is(err, ErrClosed)
	}
	lease, err := e.Campaign(ctx, candidate, opts...)
	if err != nil {
		return goesOn(err), err
	}
	defer func() { // also when fn panics
		released := lease.Release(ctx)
		again = errors.Is(released, ErrLost) && goesOn(released)
		switch {
		case again: // ignore the error of fn after a loss
			err = released
		case released != nil:
			err = errors.Join(err, released)
		}
	}()
	return false, fn(lease.Context())
}

// A Leader is the leader of an [Election]. The zero Leader means that there is none.
type Leader struct {
	Name  string // the candidate that it has published
	Term  int64  // the token of its lease; zero if there is no leader
	Owner string // the owner of its lease
}

// Leader asks the server for the current leader.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	var l script.Leader
	err := e.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		l, _, err = e.wire.Inspect(ctx, e.client.driver)
		return err
	})
	return Leader{l.Said, l.Term, l.Owner}, err
}

// Observe returns an iterator over the leaders. It yields the current leader, and then
// the new leader after every change, or the zero [Leader] if there is none. Changes in
// quick succession may be reported as one. The iteration ends when ctx is done. An
// error that matches [ErrUnavailable] does not end it, all other errors do. Of the
// options, only [Poll] applies.
//
//	for leader, err := range election.Observe(ctx) {
func (e *Election) Observe(ctx context.Context, opts ...WaitOption) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		set := with(settings{err: e.set.err, pause: e.set.pause}, opts)
		if set.waitSet {
			set.fail(invalid("Wait does not apply to Observe: cancel its context instead"))
		}
		set.fail(e.ready(ctx))
		if set.err != nil {
			yield(Leader{}, e.fail("observe", set.err))
			return
		}
		change := &script.Change{Election: e.wire, Any: true}
		for ctx.Err() == nil {
			_, err := e.client.engine.Take(ctx, change, engine.Request{Wait: engine.Forever, Watch: true, Pause: set.pause})
			switch {
			case err == nil:
				if !yield(Leader{change.Seen.Said, change.Seen.Term, change.Seen.Owner}, nil) {
					return
				}
			case ctx.Err() != nil:
				return
			case !yield(Leader{}, e.fail("observe", err)) || !errors.Is(err, ErrUnavailable):
				return
			default:
				change.Any = true // report the leader again after an error
			}
		}
	}
}

// managed returns the election with its keys. Deleting it deposes the leader.
func (e *Election) managed() access.Managed {
	m := e.named.managed()
	m.Free = e.Depose
	return m
}

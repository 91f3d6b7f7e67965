package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An Election chooses one of many processes to lead, and another one when that
// ends.
//
// To lead is to hold a [Lease]: its context ends before anybody else can be
// elected (unless somebody deposes it, see [Election.Depose]), its token is the
// term, which is higher with each leader, and to resign is to release it. An
// election is a [FencedMutex] whose holder says who
// it is; Redisson has none.
//
// An Election is a name and no more; it is safe for concurrent use.
// [Client.Election] makes one.
type Election struct {
	named
	wire *script.Election
}

// Election returns the election with that name. The options apply to all of its
// calls.
func (c *Client) Election(name string, opts ...Option) *Election {
	o := newNamed(c, "election", name, opts)
	o.set.nonReentrant = true
	return &Election{o, script.NewElection(name)}
}

// maxSaid is how long what a leader says of itself may be, in bytes.
const maxSaid = 64 << 10

// Campaign waits until it leads, or until ctx is done. The candidate is what it
// says of itself, and what observers will see as [Leader].Name: an address, for
// instance, of no more than 64 KiB. [Lease.Release] resigns. The error is as that of [Mutex.Lock]; with the context of a leader it
// matches [ErrReentrant], and [ErrLost] if the lead was lost before it could be
// announced.
func (e *Election) Campaign(ctx context.Context, candidate string, opts ...Option) (*Lease, error) {
	return e.campaign(ctx, "campaign in", candidate, engine.Forever, opts)
}

// TryCampaign leads if nobody does, and otherwise returns [ErrNotAcquired] at
// once, or after [Wait].
func (e *Election) TryCampaign(ctx context.Context, candidate string, opts ...Option) (*Lease, error) {
	return e.campaign(ctx, "campaign in", candidate, 0, opts)
}

func (e *Election) campaign(ctx context.Context, op, candidate string, wait time.Duration, opts []Option) (*Lease, error) {
	if err := checkSaid(candidate); err != nil {
		return nil, e.fail(op, err)
	}
	// The program hears of its lease when others can see it.
	announce := e.set.with(opts).onAcquire
	lease, err := e.acquire(ctx, op, e.wire, wait, append(opts[:len(opts):len(opts)], func(s *settings) { s.onAcquire = nil }))
	if err != nil {
		return nil, err
	}
	if err := e.proclaim(ctx, op, lease, candidate); err != nil {
		lease.exit = nil // nobody has heard of it
		_ = lease.Release(ctx)
		return nil, err
	}
	lease.announce(announce)
	return lease, nil
}

func checkSaid(candidate string) error {
	if len(candidate) > maxSaid {
		return invalid("the candidate has %d bytes: use at most %d", len(candidate), maxSaid)
	}
	return nil
}

// Proclaim changes what the leader says of itself. The error matches [ErrLost]
// if lease does not lead any more, [ErrNotHeld] if it was released, and
// [ErrInvalid] if it never led this election.
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
		return lease.loss()
	}
	return err
}

// Depose ends the term of whoever leads, and reports whether anybody did. A
// leader in this client is told at once; others learn of it when they renew
// next.
func (e *Election) Depose(ctx context.Context) (bool, error) {
	return e.force(ctx, e.wire, func(ctx context.Context) (bool, error) { return e.wire.Force(ctx, e.client.driver, "") })
}

// Lead runs fn whenever this process leads, until fn returns while it still
// does, or until ctx is done. The context of fn ends when the lead is lost, and
// fn must then return; it is run again when the process is elected again. A
// server that cannot be reached does not end Lead. Lead resigns before it
// returns the error of fn; what fn returns after a loss is dropped. When ctx is
// done, the error matches that of ctx.
func (e *Election) Lead(ctx context.Context, candidate string, fn func(context.Context) error, opts ...Option) error {
	if fn == nil {
		return e.fail("lead", invalid("the function is nil"))
	}
	for {
		again, err := e.lead(ctx, candidate, fn, opts)
		if !again {
			return err
		}
		if done := ctx.Err(); done != nil {
			if !errors.Is(err, done) {
				err = fmt.Errorf("%w (%w)", err, done)
			}
			return err
		}
		select { // whatever is wrong, there is time to mend it
		case <-ctx.Done():
		case <-time.After(leadPause):
		}
	}
}

// leadPause is the time between two terms of one leader, or between two tries
// while the server cannot be reached.
const leadPause = 10 * time.Millisecond

// lead runs fn in one term. It reports whether that ended before fn did.
func (e *Election) lead(ctx context.Context, candidate string, fn func(context.Context) error, opts []Option) (again bool, err error) {
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
		case again: // what fn returns after a loss is dropped
			err = released
		case released != nil:
			err = errors.Join(err, released)
		}
	}()
	return false, fn(lease.Context())
}

// A Leader is who leads an [Election]. The zero Leader is nobody.
type Leader struct {
	Name  string // as it says itself
	Term  int64  // the token of its lease; zero: nobody leads
	Owner string // of its lease
}

// Leader asks the server who leads.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	var l script.Leader
	err := e.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		l, _, err = e.wire.Inspect(ctx, e.client.driver)
		return err
	})
	return Leader{l.Said, l.Term, l.Owner}, err
}

// Observe returns who leads, and then whoever does after every change; the zero
// [Leader] while nobody does. Changes that follow each other too fast may be
// seen as one. It goes on until ctx is done or the loop is left; an error that
// matches [ErrUnavailable] does not end it. Of the options, [Poll] applies.
//
//	for leader, err := range election.Observe(ctx) {
func (e *Election) Observe(ctx context.Context, opts ...Option) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		set := settings{err: e.set.err, pause: e.set.pause}.with(opts)
		if set.waitSet {
			set.fail(invalid("Wait does not apply to Observe: cancel its context instead"))
		}
		set.fail(e.ready(ctx))
		if set.leaseless("observer"); set.err != nil {
			yield(Leader{}, e.fail("observe", set.err))
			return
		}
		change := &script.Change{Election: e.wire, Any: true}
		for ctx.Err() == nil {
			_, err := e.client.engine.Take(ctx, change, engine.Request{Wait: engine.Forever, Pause: set.pause})
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
				change.Any = true // who leads is news after that
			}
		}
	}
}

// Object returns the election as an object, to look at it or listen to it. To
// delete it is to depose whoever leads.
func (e *Election) Object() *Object {
	o := e.asObject()
	o.free = e.Depose
	return o
}

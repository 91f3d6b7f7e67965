package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Latch is a named count that processes count down, and wait for until it is
// zero. It is what Redisson calls RCountDownLatch, and shares its counts with
// it.
//
// A latch at zero does not exist any more, and so is the same as one that was
// never set, or has expired: set it before anybody waits for it. It can then be
// set again. A process that dies counts nothing down, so bound the wait, and give
// each run a name of its own.
//
// A Latch is a name and no more; it is safe for concurrent use. [Client.Latch]
// makes one.
type Latch struct {
	named
	wire *script.Latch
}

// Latch returns the latch with that name, see [Client.Mutex] for what that may
// be. Of the options, [Wait] and [Poll]
// apply to it.
func (c *Client) Latch(name string, opts ...Option) *Latch {
	return &Latch{newNamed(c, "latch", name, opts).leaseless(), script.NewLatch(name)}
}

// TrySet closes the latch until it has been counted down that often, and
// reports whether it did: a closed latch stays as it is.
func (l *Latch) TrySet(ctx context.Context, count int) (bool, error) {
	if err := checkCount("the count", count, 1); err != nil {
		return false, l.fail("set", err)
	}
	return l.decide(ctx, "set", func(request string) driver.Call { return l.wire.Set(request, count) })
}

// CountDown counts down by one, and returns what is left. An open latch stays
// open. Nothing in ctx stops it: when the server does not answer within a second
// or two it returns [ErrUnavailable] and goes on trying in the background. It
// counts once, however often that has to be tried.
func (l *Latch) CountDown(ctx context.Context) (left int, err error) {
	return l.count(ctx, "count down", l.wire.CountDown, l.wire.CountDown)
}

// Wait waits until the latch is open, or until ctx is done; with the option
// [Wait], no longer than that says. The error is as that of [Mutex.Lock]. A
// waiter looks at the latch at every message, whenever its subscription was
// restored, and every [Options].PollInterval, so that no lost message keeps it.
func (l *Latch) Wait(ctx context.Context, opts ...Option) error {
	set := l.set.with(opts)
	set.fail(l.ready(ctx))
	set.leaseless(l.kind)
	if set.err != nil {
		return l.fail("wait for", set.err)
	}
	if _, err := l.client.engine.Take(ctx, l.wire, set.request(engine.Forever)); err != nil {
		return l.fail("wait for", err)
	}
	return nil
}

// Count returns how often the latch has to be counted down yet.
func (l *Latch) Count(ctx context.Context) (int, error) {
	var n int
	err := l.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		n, err = l.wire.Count(ctx, l.client.driver)
		return err
	})
	return n, err
}

// Object returns the latch as an object, to delete it or let it end: then it is
// open.
func (l *Latch) Object() *Object { return l.asObject() }

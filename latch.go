package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Latch is a named count. Processes count it down, and other processes wait until it
// is zero. It shares its counts with RCountDownLatch in Redisson.
//
// A latch is open when its count is zero. It is then deleted, so it cannot be
// distinguished from a latch that was never set or that has expired. Set the latch
// before a process waits for it. An open latch can be set again. A process that dies
// does not count down, so bound the wait, and use a new name for each run.
type Latch struct {
	named
	wire *script.Latch
}

// Latch returns the latch with the given name, see [Client.Mutex].
func (c *Client) Latch(name string, opts ...WaitOption) *Latch {
	return &Latch{newNamed(c, "latch", name, with(settings{}, opts)), script.NewLatch(c.prefixed(name))}
}

// TrySet closes the latch and sets its count, if the latch is open. It reports whether
// it did.
func (l *Latch) TrySet(ctx context.Context, count int) (bool, error) {
	if err := checkCount("the count", count, 1); err != nil {
		return false, l.fail("set", err)
	}
	return l.decide(ctx, "set", func(request string) driver.Call { return l.wire.Set(request, count, false) })
}

// Reset sets the count, whether the latch is open or closed. Processes that wait for a
// closed latch then wait for the new count. To open a latch, call
// object.Of(latch).Delete.
func (l *Latch) Reset(ctx context.Context, count int) error {
	if err := checkCount("the count", count, 1); err != nil {
		return l.fail("reset", err)
	}
	_, err := l.decide(ctx, "reset", func(request string) driver.Call { return l.wire.Set(request, count, true) })
	return err
}

// CountDown decrements the count and returns the new count. An open latch stays open.
// Like [Semaphore.Release], CountDown ignores the end of ctx, keeps trying in the
// background after an [ErrUnavailable], and counts once.
func (l *Latch) CountDown(ctx context.Context) (left int, err error) {
	return l.count(ctx, "count down", l.wire.CountDown, l.wire.CountDown)
}

// Wait waits until the latch is open, or until ctx is done. The option [Wait] bounds
// the time. The errors are those of [Mutex.Lock]. Wait checks the latch after every
// message, after every new subscription, and every [Options].PollInterval, so it
// returns even if a message was lost.
func (l *Latch) Wait(ctx context.Context, opts ...WaitOption) error {
	set := with(l.set, opts)
	set.fail(l.ready(ctx))
	if set.err != nil {
		return l.fail("wait for", set.err)
	}
	r := set.request(engine.Forever)
	seen := l.observe(ctx, l.client, l.wire)
	r.Report, r.Caller = seen.notes(), (*taker)(&l.named)
	_, err := l.client.engine.Take(ctx, l.wire, r)
	if err != nil {
		err = because(ctx, l.fail("wait for", err))
	}
	l.client.taken(seen, err)
	return err
}

// Count returns the current count, which is zero if the latch is open.
func (l *Latch) Count(ctx context.Context) (int, error) {
	var n int
	err := l.ask(ctx, "inspect", true, func(ctx context.Context) (err error) {
		n, err = l.wire.Count(ctx, l.client.driver)
		return err
	})
	return n, err
}

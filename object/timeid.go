package object

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A TimeID generates numbers that consist of a time and a sequence number, for example
// for orders and invoices. The numbers are unique and strictly increasing: a call that
// begins after another call has returned, in any process, gets a higher number.
//
// The upper 31 of the 63 bits are the seconds since 2022-01-01 00:00 UTC, by the
// server's clock. They last until 2090. The lower 32 bits are a counter that starts
// again each UTC day. [ParseTimeID] splits an id into both parts. An id has more bits
// than a JavaScript number can hold, so send it to JavaScript as a string.
//
// Each call sends one request to the server. If you need many ids, and the order
// between processes does not matter, an [IDGenerator] is about a thousand times faster.
//
// # Clocks and restarts
//
// If the server's clock is set back, the time of the ids stays the same until the clock
// has caught up, and the counter continues. The first ids of a new counter are ahead of
// the clock by up to one second.
//
// If the server has no counter, because the name is new or because the server has lost
// its data, a new counter begins in the next second, at the current nanosecond instead
// of 1. So a server without its old data repeats no ids, even within the same second,
// if its clock was not set back and it generated at most 1000 ids per microsecond. A
// server cannot exceed this rate.
//
// A server may also restart with old data, because it saves in intervals, or a replica
// without the latest ids may be promoted. No ids are repeated if that takes more than
// two seconds and the clocks agree. With appendfsync always, this limit does not apply
// to a restart.
//
// A TimeID never repeats its own ids and never returns a lower one, because each
// request contains the last id. Create one and keep it.
type TimeID struct {
	named
	wire *script.TimeID
	last atomic.Int64 // the highest id that it has returned
}

// Why a new counter begins at this place: it knows only the clock, and must be
// above all ids of the lost counter. The time of the lost counter was at most
// the clock's second of its last id, or the second after it if the counter had
// begun in that second.
//
// If the data is lost in a later second than the lost counter began in, the
// next second is above the time of the lost counter. If it is lost in the same
// second, both counters have the same time, and their sequences must not
// overlap. The new counter starts at the current nanosecond. The lost counter
// started at an earlier nanosecond, and has not reached this one if it has
// generated fewer ids than nanoseconds have passed. The server has only
// microseconds, so they are multiplied by 1000: NextN requests 1000 ids at
// once, and two requests with the loss between them take several microseconds.
//
// Rejected alternatives: random bits, which only make a collision unlikely, and
// a sequence that always follows the clock, which is not a counter.
//
// The key expires two days after its last use, so an unused name leaves nothing
// behind. Losing it is harmless: a new counter begins in the next second, two
// days after the last id. If the clock was ahead at the last use, so is the
// expiry of the key.

// NewTimeID returns the generator with the given name.
func NewTimeID(client *holdfast.Client, name string) *TimeID {
	o := newNamed(client, "time id", name)
	return &TimeID{named: o, wire: script.NewTimeID(o.inner().Key())}
}

// maxTimeIDs is the maximum number of ids per request. With this limit, a
// server that loses its data between two requests cannot have generated more
// than 1000 ids per microsecond.
const maxTimeIDs = 1000

// Next returns the next id. The error matches [holdfast.ErrRefused] if all 4294967295
// ids of a day are used.
func (t *TimeID) Next(ctx context.Context) (int64, error) { return t.draw(ctx, 1) }

// NextN returns the next n ids, between 1 and 1000, with one request. They have the
// same time and consecutive sequence numbers.
func (t *TimeID) NextN(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > maxTimeIDs {
		return nil, t.inner().Fail("take an id from", invalid("the number of ids is %d: choose between 1 and %d", n, maxTimeIDs))
	}
	first, err := t.draw(ctx, n)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = first + int64(i)
	}
	return ids, nil
}

// draw requests n ids and returns the first.
func (t *TimeID) draw(ctx context.Context, n int) (int64, error) {
	var first int64
	err := t.inner().Ask(ctx, "take an id from", true, func(ctx context.Context) error {
		last := t.last.Load()
		s, err := t.wire.Next(ctx, t.inner().Driver(), script.Stamp{Sec: last >> 32, Seq: last & (1<<32 - 1)}, n)
		first = s.Sec<<32 | s.Seq
		return err
	})
	if err != nil {
		return 0, err
	}
	t.note(first + int64(n-1))
	return first, nil
}

// note records the highest id.
func (t *TimeID) note(id int64) {
	for last := t.last.Load(); last < id && !t.last.CompareAndSwap(last, id); last = t.last.Load() {
	}
}

// ParseTimeID returns the time of an id of a [TimeID], in UTC, to the second, and its
// sequence number.
func ParseTimeID(id int64) (at time.Time, sequence int64) {
	return time.Unix(script.TimeIDEpoch+id>>32, 0).UTC(), id & (1<<32 - 1)
}

// Object returns the generator as an object.
func (t *TimeID) Object() *Object { return t.asObject() }

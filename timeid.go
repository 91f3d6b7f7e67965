package holdfast

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
)

// A TimeID gives out numbers that consist of a time and a sequence, as orders
// and invoices have them. No two are the same, and they rise strictly: of two
// calls, in whatever processes, the one that begins after the other has returned
// gets the higher number.
//
// Of the 63 bits, the upper 31 are the seconds since 2022-01-01 00:00 UTC, by
// the clock of the server, which lasts until 2090. The lower 32 are a counter
// that starts anew each UTC day. [ParseTimeID] takes an id apart. An id has more
// bits than a number in JavaScript: send it there as text.
//
// Each call is one request to the server. For many ids, and if the order between
// processes does not matter, an [IDGenerator] is a thousand times faster.
//
// # Clocks and restarts
//
// When the clock of the server is set back, the time of the ids stands still
// until it has caught up, and the counter goes on. The time of an id can be
// ahead of the clock by that much, and by one second when the counter is new.
//
// A counter that does not exist, because it is new or because the server has
// lost its data, begins in the next second, and not at 1 but at the nanosecond of
// the present one. Therefore no id is repeated by a server that
// comes back empty, or whose data was deleted, even in the same second, provided
// that its clock was not set back and that not more than 1000 ids were drawn
// per microsecond, which is beyond what a server can do.
//
// A server that comes back with old data, because it saves in intervals, or a
// replica that takes over without the latest ids, repeats none either if that
// takes more than two seconds and their clocks agree. With appendfsync always it
// may be faster.
//
// In any case a TimeID never repeats an id of its own, nor goes below it: it
// tells the server with each request how far it has come. Make one and keep it.
// It is safe for concurrent use. [Client.TimeID] makes one.
type TimeID struct {
	named
	wire *script.TimeID
	last atomic.Int64 // the highest id that this one has given out
}

// Why a new counter begins where it does: it knows the clock and nothing else,
// and must lie above all that a forgotten one has given out. That one's time was
// at most the second of its last id by the clock; or, if it began in that
// second, the one after. If the server forgets in a later second than the
// forgotten counter began in, then "the second after the present one" is above
// it. If in the same second, both have that time, and their sequences must not
// meet: the new one starts at the nanoseconds of its beginning, and the old one,
// which started at those of its own, has not come as far if it has given out
// fewer ids than nanoseconds have passed. Microseconds, which are all the server
// has, would not do without the factor: NextN draws 1000 at once, and two
// requests with the loss between them fit into some microseconds.
//
// Rejected: random bits, which only make a collision rare, and a sequence that
// is the clock all the time, which is no counter.
//
// The key lives for two days after its last use, so that a name that is not used
// any more leaves nothing behind. To lose it then is harmless: a new counter
// begins in the second after the present one, and that lies two days after all
// that was given out. Were the clock ahead when the key was last used, so is the
// end of its life.

// TimeID returns the row of ids with that name, which is its key at the server.
// The rules for names are those of [Client.Mutex].
func (c *Client) TimeID(name string) *TimeID {
	return &TimeID{named: newNamed(c, "time id", name, nil), wire: script.NewTimeID(name)}
}

// maxTimeIDs is how many ids can be drawn at a time: so few that a server which
// loses its data between two requests cannot give them out faster than its clock
// gives numbers, 1000 per microsecond.
const maxTimeIDs = 1000

// Next returns the next id. When a day has no more of its 4294967295 ids, the
// error matches [ErrRefused].
func (t *TimeID) Next(ctx context.Context) (int64, error) { return t.draw(ctx, 1) }

// NextN returns the next n ids, from 1 to 1000, with one request. They have
// the same time, and each is one more than that before.
func (t *TimeID) NextN(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > maxTimeIDs {
		return nil, t.fail("take an id from", invalid("the number of ids is %d: choose between 1 and %d", n, maxTimeIDs))
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

// draw draws n ids and returns the first.
func (t *TimeID) draw(ctx context.Context, n int) (int64, error) {
	var first int64
	err := t.ask(ctx, "take an id from", true, func(ctx context.Context) error {
		last := t.last.Load()
		s, err := t.wire.Next(ctx, t.client.driver, script.Stamp{Sec: last >> 32, Seq: last & (1<<32 - 1)}, n)
		first = s.Sec<<32 | s.Seq
		return err
	})
	if err != nil {
		return 0, err
	}
	t.note(first + int64(n-1))
	return first, nil
}

// note remembers the highest id.
func (t *TimeID) note(id int64) {
	for last := t.last.Load(); last < id && !t.last.CompareAndSwap(last, id); last = t.last.Load() {
	}
}

// ParseTimeID returns what an id of a [TimeID] consists of: a time in UTC, to
// the second, and a sequence.
func ParseTimeID(id int64) (at time.Time, sequence int64) {
	return time.Unix(script.TimeIDEpoch+id>>32, 0).UTC(), id & (1<<32 - 1)
}

// Object returns the row of ids as an object.
func (t *TimeID) Object() *Object { return t.asObject() }

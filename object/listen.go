package object

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/internal/listen"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An Event reports that an [Object] has ended.
type Event struct {
	Kind EventKind
	Name string // the name of the object
}

// An EventKind says how an object has ended.
type EventKind string

// The kinds of events.
const (
	EventDeleted EventKind = "deleted"
	EventExpired EventKind = "expired" // its TTL has passed
	EventEvicted EventKind = "evicted" // the server needed the memory
	EventMoved   EventKind = "moved"   // it was renamed, or moved to another database
	EventGone    EventKind = "gone"    // it does not exist any more, and the cause is not known
)

var eventKinds = map[script.Fate]EventKind{
	script.Deleted: EventDeleted,
	script.Expired: EventExpired,
	script.Evicted: EventEvicted,
	script.Moved:   EventMoved,
	listen.Gone:    EventGone,
}

// Listen returns an iterator over the events of the object, from the start of the
// iteration until ctx is done, which ends it without an error. For a lock, each release
// is an event. An object with several keys ends when the key with its name ends.
//
// The server must publish keyspace events, at least of the classes g and x: set
// notify-keyspace-events to Kgx. Otherwise the iteration yields [ErrNoEvents] and ends,
// at once or when the server has lost the setting in a restart. It also ends with
// [holdfast.ErrClosed] when the client is closed, and with [holdfast.ErrUnavailable] if
// the server cannot be reached at the beginning.
//
// Messages can be lost, for example while the connection is broken, and some
// operations, such as FLUSHALL, send none. So Listen checks the object after every new
// subscription and every [holdfast.Options].PollInterval, and yields [EventGone] if it
// does not exist any more. If an object is created and deleted between two checks, and
// the message about its end is lost, Listen may not report it.
//
// The body of the loop may be slow. If events arrive too fast, some are dropped. If the
// object does not exist after that, its end is still reported, with its kind or as
// EventGone.
func (o *Object) Listen(ctx context.Context) iter.Seq2[Event, error] {
	key := script.NewObject("bucket", o.inner().Key(), "")
	return func(yield func(Event, error) bool) {
		err := o.inner().Ready(ctx)
		if err == nil {
			err = listen.Listen(ctx, o.inner().Engine(), o.inner().Combined(), key.Key(),
				func(ctx context.Context) (bool, error) { return key.Exists(ctx, o.inner().Driver()) },
				func(f script.Fate) bool { return yield(Event{eventKinds[f], o.Name()}, nil) })
		}
		if err != nil {
			yield(Event{}, o.inner().Fail("listen to", err))
		}
	}
}

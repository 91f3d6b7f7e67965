package holdfast

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
)

// An Event is something that has happened to an [Object].
type Event struct {
	Kind EventKind
	Name string // of the object
}

// An EventKind says how an object has ended.
type EventKind string

// The kinds of events.
const (
	EventDeleted EventKind = "deleted"
	EventExpired EventKind = "expired" // its TTL was over
	EventEvicted EventKind = "evicted" // the server needed the memory
	EventMoved   EventKind = "moved"   // it was renamed, or moved to another database
	EventGone    EventKind = "gone"    // it was there and is not any more; nobody knows how
)

var eventKinds = map[script.Fate]EventKind{
	script.Deleted: EventDeleted,
	script.Expired: EventExpired,
	script.Evicted: EventEvicted,
	script.Moved:   EventMoved,
	engine.Gone:    EventGone,
}

// Listen returns what happens to the object from when the loop begins until ctx
// is done, which ends the loop without a word. A lock ends whenever it is
// released. An object of several keys ends with the one by its name.
//
// The server must publish keyspace events, of the classes g and x at least: set
// its notify-keyspace-events to Kgx. Otherwise the loop gets [ErrNoEvents] at
// once, or when the server has forgotten it in a restart, and ends; as it does
// with [ErrClosed] when the client is closed, and with [ErrUnavailable] if the
// server cannot be reached at the beginning.
//
// Messages can get lost, for instance while the connection is broken, and some
// ends of an object have none, such as FLUSHALL. Therefore Listen looks at the
// object whenever it has subscribed again, and every [Options].PollInterval, and
// reports one that was there and is not as [EventGone]. An object that was both
// made and ended where no message arrives, between two looks, is not seen. The
// loop may take its time for each event: of what does not fit the queue
// meanwhile, the last end is told, as what it was or as EventGone.
func (o *Object) Listen(ctx context.Context) iter.Seq2[Event, error] {
	key := script.NewObject("bucket", o.name, "")
	return func(yield func(Event, error) bool) {
		err := o.ready(ctx)
		if err == nil {
			err = o.client.engine.Listen(ctx, key.Key(),
				func(ctx context.Context) (bool, error) { return key.Exists(ctx, o.client.driver) },
				func(f script.Fate) bool { return yield(Event{eventKinds[f], o.name}, nil) })
		}
		if err != nil {
			yield(Event{}, o.fail("listen to", err))
		}
	}
}

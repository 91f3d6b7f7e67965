// Package driver is the seam between Holdfast and a Redis client library.
//
// A [Driver] runs Lua scripts, listens to channels and says where keys live;
// that is all Holdfast asks of Redis. Most programs never see this package:
// holdfast.Open builds the default driver. Implement [Driver] to run Holdfast
// on another client, and prove the result with package drivertest.
//
// # Rules every driver keeps
//
// Holdfast only sends scripts that may run twice without harm, so a driver is
// free to send a call again. It must never report success for a call that it
// does not know to have run, and it must say honestly which of three things an
// error means: see [Class].
package driver

import (
	"context"
	"time"
)

// A Driver is what Holdfast needs of a Redis client. It is safe for concurrent
// use. It does not keep the slices inside a [Call] after a method returned.
type Driver interface {
	// Do runs one script on the node that owns its keys: by its hash
	// (EVALSHA), and by its source (EVAL) where that node does not know it
	// yet. Do returns soon after ctx is done, also when the server is silent;
	// the error of a call that may have run all the same is [Ambiguous].
	Do(ctx context.Context, call Call) (Reply, error)

	// DoAcked is Do followed, on the same connection, by a wait of at most
	// timeout for that many replicas to acknowledge what the script wrote. It
	// returns how many did. Fewer than asked for is not an error.
	DoAcked(ctx context.Context, call Call, replicas int, timeout time.Duration) (Reply, int, error)

	// DoMany runs several scripts as one pipeline and returns their results in
	// order. All keys live on one node, see Place.
	DoMany(ctx context.Context, calls []Call) []Result

	// Listen opens a set of subscriptions, empty at first.
	Listen(Handler) Listener

	// Place says where a key lives. It answers from memory.
	Place(key string) Place

	// Facts asks the server what it is.
	Facts(ctx context.Context) (Facts, error)

	// Close ends all calls and connections. Closing twice is fine.
	Close() error
}

// A Place is where a key lives. Keys of one Node can share a pipeline; keys of
// one Node and Slot can share a script.
type Place struct {
	Node string
	Slot int
}

// Facts are what a driver knows about its server.
type Facts struct {
	Version  string // as the server gives it: "7.0.15"
	RunID    string // changes when the server process does
	ReplID   string // changes when a replica was promoted
	Role     string // "master" or "slave", in Redis's words
	Replicas int    // connected replicas
	Cluster  bool
	Uptime   time.Duration
	Database int // that scripts run in

	// Events is what the server publishes of its keys: its setting
	// notify-keyspace-events. Where it will not say, EventsErr says why.
	Events    string
	EventsErr error
}

// A Listener is a set of subscribed channels on a connection that heals by
// itself. Its methods do not wait for the server; confirmations and messages
// reach the [Handler].
type Listener interface {
	// Subscribe adds channels to the set. Each is confirmed to the handler,
	// now and again after every reconnection.
	Subscribe(channels ...string)

	// Unsubscribe takes channels out of the set.
	Unsubscribe(channels ...string)

	// Close ends all subscriptions. The handler is not called after it
	// returned.
	Close() error
}

// A Handler hears what happens on the channels of a [Listener]. It is called
// from the goroutine that reads the connection and must not block.
type Handler interface {
	// Message delivers what was published on a channel.
	Message(channel, payload string)

	// Subscribed says that messages published from now on will arrive. What
	// was published before, for instance while the connection was broken, is
	// gone: whoever waits must look for himself. The generation grows with
	// every new connection.
	Subscribed(channel string, generation uint64)

	// Lost says that the connection broke, or no longer answers; until the
	// next Subscribed no message will come.
	Lost(err error)
}

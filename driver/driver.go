// Package driver is the seam between Holdfast and a Redis client library.
//
// A [Driver] runs Lua scripts, listens to channels and says where keys live;
// that is all Holdfast asks of Redis. Most programs never see this package:
// holdfast.Open builds the default driver. Implement [Driver] to run Holdfast
// on another client, and prove the result with package drivertest.
//
// # Rules every driver keeps
//
// A driver sends a call again only if it knows that the first copy did not run
// and will not: after MOVED, ASK or NOSCRIPT, or if it was never written. It must
// never report success for a call that it does not know to have run, and it must
// say honestly which of three things an error means: see [Class]. An error
// matches that of a context only if the context of its caller is done: see
// [ForCaller].
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

	// DoMany runs several scripts as one pipeline and returns their results in
	// order. All keys live on one node, see Place; where some have just moved,
	// their calls follow them.
	DoMany(ctx context.Context, calls []Call) []Result

	// DoAcked is DoMany followed, on the same connection, by a wait of at most
	// timeout for that many replicas to acknowledge what the scripts wrote.
	// Result.Acked says how many did. Fewer than asked for is not an error.
	DoAcked(ctx context.Context, calls []Call, replicas int, timeout time.Duration) []Result

	// Listen opens a set of subscriptions, empty at first.
	Listen(Handler) Listener

	// Place says where a key lives. It answers from memory.
	Place(key string) Place

	// Watch has f called whenever the Term of some place has changed, until
	// stop is called. It must not block.
	Watch(f func()) (stop func())

	// Facts asks the masters what they are: those at the given nodes, or all of
	// them.
	Facts(ctx context.Context, nodes ...string) []Facts

	// Close ends all calls and connections. Closing twice is fine.
	Close() error
}

// A Place is where a key lives. Keys of one Node can share a pipeline; keys of
// one Node and Slot can share a script.
type Place struct {
	Node string
	Slot int

	// Term changes when the server that keeps the key may have forgotten it: a
	// replica was promoted, the process was restarted, the slot has moved. Of
	// two calls in one term, the later sees what the earlier wrote.
	Term uint64

	// Replicas is how many replicas the node had when the driver looked last;
	// negative: it has not looked yet.
	Replicas int
}

// A Listener is a set of subscribed channels on connections that heal by
// themselves. A channel is listened to on the node that its hash tag, or the key
// in the name of a keyspace channel, lives on. Its methods do not wait for the server; confirmations and messages
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
//
// A Go channel of events instead would need one more goroutine per client and
// one more switch between goroutines per wake-up. A full channel would either
// block the reader or drop messages.
type Handler interface {
	// Message delivers what was published on a channel.
	Message(channel, payload string)

	// Subscribed says that messages published from now on will arrive. What
	// was published before, for instance while the connection was broken, is
	// gone: whoever waits must look for himself. The generation grows with
	// every new connection.
	Subscribed(channel string, generation uint64)

	// Lost says of some channels that their connection broke, or no longer
	// answers, or that they have moved to another node; until the next
	// Subscribed no message will come on them.
	//
	// An error that matches [ErrRefused] means that the server refuses these
	// channels: the user lacks the right to them. Other channels are not
	// affected. The driver reports it once and tries again from time to time.
	Lost(channels []string, err error)
}

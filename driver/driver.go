// Package driver defines the interface between Holdfast and a Redis client
// library.
//
// A [Driver] runs Lua scripts, subscribes to channels, and knows which node has
// a key. Holdfast needs nothing else from Redis. Most programs do not use this
// package: holdfast.Open creates the default driver. To run Holdfast on another
// client library, implement [Driver] and test the implementation with package
// drivertest.
//
// # Rules for drivers
//
//   - A driver sends a call again only if it knows that the first copy did not
//     run and will not run: after MOVED, ASK or NOSCRIPT, or if it was never
//     written.
//   - A driver must not report success for a call if it does not know that the
//     call has run.
//   - Each error must have the correct class, see [Class].
//   - An error matches an error of package context only if the context of the
//     caller is done, see [ForCaller].
package driver

import (
	"context"
	"time"
)

// A Driver is the interface of a Redis client for Holdfast. It is safe for
// concurrent use. It does not keep the slices of a [Call] after a method has
// returned.
type Driver interface {
	// Do runs one script on the node that has its keys. It uses the hash of the
	// script (EVALSHA), or the source (EVAL) if the node does not know the
	// script yet. Do returns soon after ctx is done, even if the server does
	// not answer. If the call may have run nevertheless, the error is
	// [Ambiguous].
	Do(ctx context.Context, call Call) (Reply, error)

	// DoMany runs several scripts as one pipeline and returns their results in
	// order. All keys must be on one node, see Place. If some keys have just
	// moved, their calls go to the new node.
	DoMany(ctx context.Context, calls []Call) []Result

	// DoAcked runs scripts like DoMany. Then it waits on the same connection,
	// for at most timeout, until the given number of replicas has acknowledged
	// the writes of the scripts. Result.Acked is the number of replicas that
	// did. If there are fewer than requested, this is not an error.
	DoAcked(ctx context.Context, calls []Call, replicas int, timeout time.Duration) []Result

	// Listen opens a set of subscriptions. The set is empty at first.
	Listen(Handler) Listener

	// Place returns where a key is. It answers from memory.
	Place(key string) Place

	// Watch calls f whenever the Term of a place has changed, until stop is
	// called. The function f must not block.
	Watch(f func()) (stop func())

	// Facts asks the masters at the given nodes, or all masters, for
	// information about themselves.
	Facts(ctx context.Context, nodes ...string) []Facts

	// Close ends all calls and closes all connections. Closing twice is allowed.
	Close() error
}

// A Place is the location of a key. Keys with the same Node can share a
// pipeline. Keys with the same Node and Slot can share a script.
type Place struct {
	Node string
	Slot int

	// Term changes when the server that has the key may have lost it: a replica
	// was promoted, the process was restarted, or the slot has moved. If two
	// calls have the same Term, the later call sees the writes of the earlier
	// call.
	Term uint64

	// Replicas is the number of replicas of the node when the driver last
	// checked. It is negative if the driver has not checked yet.
	Replicas int
}

// A Listener is a set of subscribed channels. Its connections are restored
// automatically. It subscribes to a channel on the node of the channel's hash
// tag, or, for a keyspace channel, on the node of the key in its name. Its
// methods do not wait for the server. Confirmations and messages go to the
// [Handler].
type Listener interface {
	// Subscribe adds channels to the set. Each channel is confirmed to the
	// handler, now and after every reconnection.
	Subscribe(channels ...string)

	// Unsubscribe removes channels from the set.
	Unsubscribe(channels ...string)

	// Close ends all subscriptions. The handler is not called after Close has
	// returned.
	Close() error
}

// A Handler receives the messages and events of a [Listener]. It is called from
// the goroutine that reads the connection and must not block.
type Handler interface {
	// Message delivers a message of a channel.
	Message(channel, payload string)

	// Subscribed reports that messages that are published from now on will
	// arrive. Earlier messages are lost, for example those that were published
	// while the connection was broken. So a waiter must now check the state
	// that it waits for. The generation increases with every new connection.
	Subscribed(channel string, generation uint64)

	// Lost reports that the connection of some channels is broken or does not
	// answer any more, or that the channels have moved to another node. No
	// messages arrive on them until the next call of Subscribed.
	//
	// If the error matches [ErrRefused], the server refuses these channels
	// because the user lacks permission. Other channels are not affected. The
	// driver reports this once and tries again from time to time.
	Lost(channels []string, err error)
}

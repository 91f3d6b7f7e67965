// Package engine acquires, holds and releases locks of all kinds. It does not know the kinds: a
// [Kind] builds the calls and decodes the replies, and its traits say how to wait for it. Every
// wait for a lock and every retry is in this package.
//
// # From a call to a lease
//
// [Engine.Acquire] starts an acquisition. It sends the claim of a new owner until the server grants
// it, and waits for a message in between:
//
//	let others try ─▶ line up ─▶ ask ── granted ──▶ Hold
//	                              ├──── held ─────▶ take the turn, subscribe, wait ──▶ ask
//	                              ├──── failed ───▶ pause ──▶ ask
//	                              └──── over ─────▶ withdraw, and settle what is left
//
// A granted claim becomes a [Hold], which the watchdog keeps alive:
//
//	held ── Reenter, Extend, renewals ──▶ held
//	  ├──── Release, other goroutines wait ──▶ passed on inside the process
//	  ├──── Release ──▶ freed at the server
//	  └──── lost: every user of the hold is told (users.go), then the turn goes on
//
// [Engine.Take] does the same for claims that leave nothing to hold, such as plain permits.
//
// # One name, one turn
//
// In a process, all goroutines that want one name queue at its gate, first come first served. Only
// the goroutine that has the turn talks to the server, so there is one waiter per process and name.
// The turn stays with the hold, and then goes to the next goroutine.
//
// The traits of a kind ([script.Queue]) change this. Where many can hold a lock together, the turn
// is only for waiting: the goroutine that gets in lets all others ask. Where the number of holders
// is limited, goroutines ask in the order of their arrival. Where each call queues at the server,
// there is no gate. See turn.go and gate.go.
//
// # The queue at the server
//
// Most kinds also have a queue at the server, for the clients that ask for a name ([Kind].Queued).
// A release grants the lock to the first of them without another request (queue.go). If the server
// refuses the queue, the same kind is used without it.
//
// # Hand-off
//
// A release passes the hold to the next goroutine in the queue without a request, up to a number of
// times and for a limited time after the grant. After that other processes get their share. A
// process that has just released a lock lets others ask first. Readers share a hold (share.go).
//
// # Time
//
// All moments are durations of the monotonic clock ([clock.Now], which also counts while the
// machine sleeps). A lease counts from before its request was sent, and ends a margin before the
// server's TTL. A grant that arrives after this is not used.
//
// # Failures
//
// The driver classes every error: the request was not sent, it may have been executed, or the
// server refuses it for good. An outage is a series of the first two; it ends the call after the
// patience of the request. What an owner may have at the server is one value: an entry in a queue,
// a hold until some time, a request without an answer. When the owner is not used any more, package
// settle releases it until the server confirms that nothing is left (settle.go).
//
// A request that must not be executed twice has a number of package numbered: [Engine.Once].
//
// # Several locks
//
// [AcquireAll] takes several locks as one (multi.go): locks in one slot of one server by one script
// (group.go), others one after the other in an order that all clients share (multi_order.go,
// multi_queue.go). [Quorum] asks several servers for one lock. [ReleaseAll] releases several locks,
// with one request per server if it can (joint.go). They use inner steps of this package.
package engine

// Package watchdog keeps leases alive and reports losses.
//
// # States
//
//	watched ── renewed or verified in time ──▶ watched
//	   ├────── the warning has passed, or the server says "not the owner" ──▶ lost
//	   └────── Drop ──▶ released by its holder
//
// A lost lease calls its [LossHandler] once. One struct has the state of a lease, and the lock of
// the watchdog guards it. The watchdog applies the answer to a renewal under the lock. It reports
// and then logs losses after it has released the lock.
//
// # Time
//
// A lease counts from before the request that granted or renewed it was sent. It ends a margin
// before the server's TTL, for clocks that run at different speeds: see margin. The holder is told
// a gap before that, so that it can stop: see gap. So a holder knows of the end before the server
// can grant the lock to another owner, whatever the network does.
//
// Renewals are due every third of the lease, or more often, and leases that are due soon share a
// call. A lease of fixed length is verified as often, by the same call: the server is asked to keep
// it for the rest of its time. This changes nothing unless the lease was shortened or deleted.
//
// # Goroutines
//
// One goroutine per client watches the clock. It never waits for a server. While calls are under
// way, there is one more goroutine for each queue of calls: a node, a script, a degree of urgency.
// A slow node delays neither other nodes nor a loss. No code of the user runs on these goroutines,
// except methods of the contexts from which the contexts of leases are derived.
//
// # Failures
//
// A renewal that fails is repeated until the warning. If the server refuses a call for several
// leases, the watchdog splits it until each lease has its own answer, so that one bad key costs no
// other lease. When a node is replaced or restarted, or a slot moves, its term changes
// ([driver.Place]): the leases there are verified at once, and a lease that the new server does not
// know was lost by failover.
package watchdog

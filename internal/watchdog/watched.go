package watchdog

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A Reason says why a lease was lost.
type Reason uint8

// The reasons.
const (
	Expired  Reason = iota + 1 // no renewal was confirmed in time, or a fixed lease has ended
	NotOwner                   // the server says that the owner does not hold it
	Forced                     // this client freed it by force
	Closed                     // the client was closed
	Failover                   // the server was replaced or has lost its data, and does not know the lease
	Unacked                    // not enough replicas acknowledged a renewal in time
)

// A LossHandler is called once when its lease is lost.
type LossHandler interface {
	Lost(Reason)
}

// A ConfirmHandler is also called, without a lock, when its lease was renewed or verified.
type ConfirmHandler interface {
	LossHandler
	Confirmed()
}

// A Watched is a lease that the watchdog watches. Set the exported fields before Guard only.
type Watched struct {
	Ref     script.LockRef
	Handler LossHandler
	Lease   time.Duration // the granted lease time
	First   time.Duration // the lease time until the first renewal, if it is shorter
	Term    uint64        // the last term in which the server confirmed the lease; see driver.Place

	deadline atomic.Int64          // a value of clock.Now; zero if not watched
	fault    atomic.Pointer[error] // of the last renewal; nil if there was none or it succeeded
	state    state
}

// A state is what the watchdog knows of a lease. The watchdog's lock guards it.
type state struct {
	granted     time.Duration // the lease time from which the deadline follows
	renewal     time.Duration // the lease time that renewals ask for; zero: only verified
	due         time.Duration // when to renew or verify next
	confirmed   time.Duration // when the last request was sent that the server has confirmed
	inFlight    bool          // a renewal is under way
	verify      bool          // ask the server at once, because it may have lost the lease
	verifyAgain bool          // verify, once the renewal under way has ended
	unacked     bool          // not enough replicas acknowledged the last renewal
	refused     uint          // how often in a row the server has refused to renew it
	skew        time.Duration // shortens the lease; see Watchdog.Require
	at          time.Duration // when the watchdog handles it next: the warning, or due
	index       int           // in the watchdog's heap; -1 if not watched
	next, prev  *Watched      // the other leases on the same key: a list without a fixed order
}

// Deadline returns the time, a value of clock.Now, until which the server is known to keep the
// lease for its owner. It returns zero if the lease is not watched.
func (c *Watched) Deadline() time.Duration { return time.Duration(c.deadline.Load()) }

// Fault returns the error of the last renewal, or nil if there was none.
func (c *Watched) Fault() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Valid reports whether the deadline has not passed.
func (c *Watched) Valid() bool { return clock.Now() < c.Deadline() }

// margin shortens every lease by 1 %, at most by 1 s plus 0.1 %, and at least by 2 ms: clocks run
// at different speeds. A clock that is being adjusted runs at most 0.05 % too fast or too slow.
func margin(lease time.Duration) time.Duration {
	return max(min(lease/100, time.Second+lease/1000), 2*time.Millisecond)
}

// gap returns how long before the deadline the holder is told, so that it has time to stop: 5 % of
// the lease, at least 50 ms and at most 5 s, but never more than a quarter of the lease.
func gap(lease time.Duration) time.Duration {
	return min(max(lease/20, 50*time.Millisecond), 5*time.Second, lease/4)
}

// InTime reports whether a lease can be used now that was granted to a request sent at that time.
func (w *Watchdog) InTime(now, sent, lease time.Duration) bool {
	return now < sent+lease-margin(lease)-w.replicas.skew-gap(lease)
}

// Tail returns how much of the lease is left at the server when the holder is told that it ends.
// Call it only when the lease is no longer watched.
func (c *Watched) Tail() time.Duration { return c.gap() + margin(c.state.granted) + c.state.skew }

// extend moves the deadline to that of a confirmed request, unless it is earlier.
func (c *Watched) extend(sent, lease time.Duration) {
	d := sent + lease - margin(lease) - c.state.skew
	if d > c.Deadline() {
		c.deadline.Store(int64(d))
		c.state.granted = lease
	}
}

// gap returns how long before the deadline the holder is told. If renewals ask for less than was
// granted before, the gap is that of the shorter time, so that there is time for a renewal.
func (c *Watched) gap() time.Duration {
	if c.state.renewal > 0 {
		return gap(min(c.state.granted, c.state.renewal))
	}
	return gap(c.state.granted)
}

// warning returns when the holder is told that the lease ends.
func (c *Watched) warning() time.Duration { return c.Deadline() - c.gap() }

// renewFor returns for how long a renewal that is sent now asks the server to keep the lease: at
// least until the deadline. Without this, a server could confirm a lease that it ends earlier: a
// promoted replica may have missed an extension, and a reader of Redisson sets the TTL of the whole
// lock to its own. A lease of fixed length does not get longer by this.
func (c *Watched) renewFor(now time.Duration) time.Duration {
	rest := max(c.Deadline()-now, 0)
	claim := rest + margin(rest) + c.state.skew
	return max(c.state.renewal, (claim + time.Millisecond - 1).Truncate(time.Millisecond))
}

// verifyNow makes the lease due for verification. The answer to a request under way does not count.
func (c *Watched) verifyNow() {
	if c.state.inFlight {
		c.state.verifyAgain = true
		return
	}
	c.state.verify, c.state.due = true, 0
}

// schedule sets when the watchdog handles the lease next.
func (c *Watched) schedule() {
	c.state.at = c.warning()
	if !c.state.inFlight {
		c.state.at = min(c.state.at, c.state.due)
	}
}

// denied is Denied, given the terms before and after the request.
func (c *Watched) denied(terms ...uint64) Reason {
	for _, term := range terms {
		if c.Term != term {
			return Failover
		}
	}
	return NotOwner
}

// watchedHeap is a heap of leases, ordered by when the watchdog handles them next.
type watchedHeap []*Watched

func (h watchedHeap) Len() int           { return len(h) }
func (h watchedHeap) Less(i, j int) bool { return h[i].state.at < h[j].state.at }

func (h watchedHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].state.index, h[j].state.index = i, j
}

func (h *watchedHeap) Push(x any) {
	c := x.(*Watched)
	c.state.index = len(*h)
	*h = append(*h, c)
}

func (h *watchedHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.state.index = -1
	return c
}

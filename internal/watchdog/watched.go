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
	Expired  Reason = iota + 1 // no renewal was confirmed in time
	NotOwner                   // the server says that the owner does not hold it
	Forced                     // this client freed it by force
	Closed                     // the client was closed
	Failover                   // the server has been replaced, or has lost its memory, and does not know it
	Unacked                    // no renewal has reached enough replicas in time
)

// A LossHandler is told when its lease is lost, once.
type LossHandler interface {
	Lost(Reason)
}

// A Watched is a lease in the watchdog's care. Set the exported fields before
// Guard and leave them alone afterwards.
type Watched struct {
	script.LockRef
	Handler LossHandler
	Lease   time.Duration // that was granted
	Term    uint64        // in which the server was known to keep it; see driver.Place

	deadline atomic.Int64          // as of clock.Now; zero when in nobody's care
	fault    atomic.Pointer[error] // of the last renewal; nil: there was none, or it has succeeded

	// Guarded by the watchdog's lock.
	granted time.Duration // the lease that the deadline comes from
	renewal time.Duration // what renewals ask for; zero: the lease is only verified
	due     time.Duration // when to renew or verify next
	flying  bool          // a renewal is under way
	verify  bool          // the server may not keep it any more, and has to be asked at once
	again   bool          // the same became true while a renewal was under way
	short   bool          // the last renewal has not reached enough replicas
	refused uint          // how often in a row the server has refused to renew it
	skew    time.Duration // taken off, too
	at      time.Duration // when the watchdog looks at it next
	index   int           // in the watchdog's heap; -1 when not there

	// The other watchedHeap on the key, a list without a fixed order.
	next, prev *Watched
}

// Deadline returns the moment, as of clock.Now, up to which the server is
// known to keep the lease for its owner.
func (c *Watched) Deadline() time.Duration { return time.Duration(c.deadline.Load()) }

// Fault returns the error of the last renewal, or nil.
func (c *Watched) Fault() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Valid reports whether the deadline lies ahead.
func (c *Watched) Valid() bool { return clock.Now() < c.Deadline() }

// margin is taken off every lease, for clocks that do not run at one speed: a
// hundredth, and of long leases a thousandth, which is still twice as much as
// a clock that is being set right may be off.
func margin(lease time.Duration) time.Duration {
	return max(min(lease/100, time.Second+lease/1000), 2*time.Millisecond)
}

// gap is how long before the deadline the holder is told, so that it has time
// to stop: 5 % of the lease, at least 50 ms and at most 5 s, but never most of
// a short one.
func gap(lease time.Duration) time.Duration {
	return min(max(lease/20, 50*time.Millisecond), 5*time.Second, lease/4)
}

// InTime reports whether a lease that was granted to a request sent at that
// moment is of any use now.
func (w *Watchdog) InTime(sent, lease time.Duration) bool {
	return clock.Now() < sent+lease-margin(lease)-w.skew-gap(lease)
}

// Tail returns how much of the lease is left at the server when its holder is
// told that it ends. It may be asked once the lease is out of care.
func (c *Watched) Tail() time.Duration { return c.gap() + margin(c.granted) + c.skew }

// extend moves the deadline to what a confirmed request, sent at that moment,
// grants. It never moves it back.
func (c *Watched) extend(sent, lease time.Duration) {
	d := sent + lease - margin(lease) - c.skew
	if d > c.Deadline() {
		c.deadline.Store(int64(d))
		c.granted = lease
	}
}

// gap is how long before the deadline the holder is told. A renewal that is
// shorter than what was granted before has to get its chance until then.
func (c *Watched) gap() time.Duration {
	if c.renewal > 0 {
		return gap(min(c.granted, c.renewal))
	}
	return gap(c.granted)
}

// warning is when the holder is told that the lease ends.
func (c *Watched) warning() time.Duration { return c.Deadline() - c.gap() }

// asks returns for how long a renewal that is sent now makes the server keep the
// lease: for as long as the deadline claims, or for longer. So a lease is never
// confirmed by a server that ends it before the deadline: a replica that was
// promoted may have missed an extension, and Redisson's readers set the time of
// the whole lock to their own. A lease of fixed time is not prolonged by it.
func (c *Watched) asks(now time.Duration) time.Duration {
	rest := max(c.Deadline()-now, 0)
	claim := rest + margin(rest) + c.skew
	return max(c.renewal, (claim + time.Millisecond - 1).Truncate(time.Millisecond))
}

// doubt has the server asked at once whether it keeps the lease. The answer to a
// request that is under way does not count.
func (c *Watched) doubt() {
	if c.flying {
		c.again = true
		return
	}
	c.verify, c.due = true, 0
}

// schedule sets when to look at the charge next.
func (c *Watched) schedule() {
	c.at = c.warning()
	if !c.flying {
		c.at = min(c.at, c.due)
	}
}

// denied returns why a server says that the owner does not hold it, given the
// terms before and after it was asked.
func (c *Watched) denied(terms ...uint64) Reason {
	for _, term := range terms {
		if c.Term != term {
			return Failover
		}
	}
	return NotOwner
}

// watchedHeap is a heap of watchedHeap, the next one first.
type watchedHeap []*Watched

func (h watchedHeap) Len() int           { return len(h) }
func (h watchedHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h watchedHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *watchedHeap) Push(x any) {
	c := x.(*Watched)
	c.index = len(*h)
	*h = append(*h, c)
}

func (h *watchedHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	c.index = -1
	return c
}

package script

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	fairAcquire = load("fair_acquire")
	fairRelease = load("fair_release")
	fairForce   = load("fair_force")
	fairInspect = load("fair_inspect")
)

// fairHeartbeat is how often a waiter gives a sign of life. After two that did not
// come it is taken for dead, see lua/lib/fair.lua.
const fairHeartbeat = time.Second

// Fair is the wire format of Redisson's fair lock: the hash of a mutex, a list
// of the waiters, a sorted set of their deadlines, and a channel for each of
// them. The heartbeats are an addition of Holdfast.
type Fair struct {
	keys   [5]string // lock, queue, deadlines, heartbeats, channel
	queued Queued
}

// NewFair returns the fair mutex with that name.
func NewFair(name string) *Fair {
	f := &Fair{keys: [5]string{
		name,
		prefixed("redisson_lock_queue", name),
		prefixed("redisson_lock_timeout", name),
		prefixed("holdfast:waiting", name),
		prefixed("redisson_lock__channel", name),
	}}
	f.queued = Queued{unqueued: f, queue: queueKey(name), enter: fairAcquire, grant: fairRelease, enterKeys: f.keys[:], grantKeys: f.keys[:]}
	return f
}

// Traits say that the server keeps the queue.
func (f *Fair) Traits() Traits { return Traits{Queue: AtServer, Plain: true, Heartbeat: fairHeartbeat} }

// Gate is the queue, although no caller waits at this gate: the server keeps the
// order.
func (f *Fair) Gate() string { return f.keys[1] }

// Channels returns the channel on which owner is notified.
func (f *Fair) Channels(owner string) []string { return []string{f.keys[4] + ":" + owner} }

// Ref refers to the owner's field of the hash.
func (f *Fair) Ref(owner string) LockRef { return LockRef{Key: f.keys[0], Owner: owner} }

// Claim returns the call that takes the mutex if it is the owner's turn, enters it
// again if the count is more than one, or else queues the owner if it waits.
func (f *Fair) Claim(c Claim) driver.Call {
	wait := "0"
	if c.Wait {
		wait = "1"
	}
	call := driver.Call{
		Script: fairAcquire,
		Keys:   f.keys[:],
		Args:   []string{millis(c.Lease), c.Owner, strconv.Itoa(c.Count), wait, publish},
	}
	switch {
	case c.Most > 0:
		call.Args = append(call.Args, flag(c.Queue), most(c))
	case c.Queue:
		call.Args = append(call.Args, "1")
	}
	return call
}

// Decode decodes the reply to a claim.
func (f *Fair) Decode(c Claim, r driver.Reply) (Verdict, error) {
	if r.Type == driver.List {
		return decodePlace(f, c, fairAcquire, r)
	}
	return decodeVerdict(fairAcquire, r)
}

// Release lowers the owner's hold count to left. Zero frees the mutex.
func (f *Fair) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	return leave(ctx, d, f.release(owner, left))
}

// Free returns the call that releases the mutex if owner holds it, and removes
// owner from the queue.
func (f *Fair) Free(owner string) driver.Call { return f.release(owner, 0) }

func (f *Fair) release(owner string, left int) driver.Call {
	return driver.Call{Script: fairRelease, Keys: f.keys[:], Args: []string{owner, strconv.Itoa(left), publish}}
}

// Force frees the mutex. If owner is not empty, it does so only if owner holds
// the mutex. It reports whether it freed the mutex.
func (f *Fair) Force(ctx context.Context, d driver.Driver, owner string) (bool, error) {
	return force(ctx, d, driver.Call{Script: fairForce, Keys: f.keys[:], Args: []string{publish, owner}})
}

// Inspect returns the state of the mutex and its queue.
func (f *Fair) Inspect(ctx context.Context, d driver.Driver) (State, error) {
	r, err := d.Do(ctx, driver.Call{Script: fairInspect, Keys: f.keys[:2]})
	if err != nil {
		return State{}, err
	}
	if r.Type != driver.List || len(r.List) != 2 || r.List[1].Type != driver.List {
		return State{}, unexpected(fairInspect, r)
	}
	s, err := decodeState(r.List[0])
	for _, w := range r.List[1].List {
		if w.Type != driver.Str {
			return State{}, unexpected(fairInspect, r)
		}
		s.Waiting = append(s.Waiting, w.Str)
	}
	return s, err
}

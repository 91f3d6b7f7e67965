package script

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	mutexAcquire = load("mutex_acquire")
	mutexRelease = load("mutex_release")
	mutexForce   = load("mutex_force")
	mutexInspect = load("mutex_inspect")
)

// A Mutex is the wire format of Redisson's RLock: a hash that maps the owner to
// its hold count, with the lease as its TTL, and a channel for the waiters.
type Mutex struct {
	keys   [2]string // lock, channel
	line   [2]string // lock, queue: the keys of the scripts with a queue
	queued Queued
}

// NewMutex returns the Mutex with that name.
func NewMutex(name string) *Mutex {
	m := &Mutex{keys: [2]string{name, prefixed("redisson_lock__channel", name)}, line: [2]string{name, queueKey(name)}}
	m.queued = Queued{unqueued: m, queue: m.line[1], enter: mutexQueue, grant: mutexGrant, enterKeys: m.line[:], grantKeys: m.line[:]}
	return m
}

// Traits are those of a plain lock.
func (m *Mutex) Traits() Traits { return Traits{Queue: OneAtATime, Plain: true} }

// Gate is the key.
func (m *Mutex) Gate() string { return m.keys[0] }

// Channels returns the channel on which a release is published.
func (m *Mutex) Channels(string) []string { return m.keys[1:2] }

// Ref refers to the owner's field of the hash.
func (m *Mutex) Ref(owner string) LockRef { return LockRef{Key: m.keys[0], Owner: owner} }

// Claim returns the call that takes the mutex if it is free, or enters it again if
// the count is more than one.
func (m *Mutex) Claim(c Claim) driver.Call {
	return driver.Call{
		Script: mutexAcquire,
		Keys:   m.keys[:1],
		Args:   args(millis(c.Lease), c.Owner, strconv.Itoa(c.Count)),
	}
}

// Decode decodes the reply to a claim.
func (m *Mutex) Decode(_ Claim, r driver.Reply) (Verdict, error) {
	return decodeVerdict(mutexAcquire, r)
}

// Release lowers the owner's hold count to left. Zero frees the mutex.
func (m *Mutex) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	return leave(ctx, d, m.release(owner, left))
}

// Free returns the call that releases the mutex if owner holds it.
func (m *Mutex) Free(owner string) driver.Call { return m.release(owner, 0) }

func (m *Mutex) release(owner string, left int) driver.Call {
	return driver.Call{Script: mutexRelease, Keys: m.keys[:1], Args: args(owner, strconv.Itoa(left), m.keys[1], publish)}
}

// Force frees the mutex. If owner is not empty, it does so only if owner holds
// the mutex. It reports whether it freed the mutex.
func (m *Mutex) Force(ctx context.Context, d driver.Driver, owner string) (bool, error) {
	return force(ctx, d, driver.Call{Script: mutexForce, Keys: m.keys[:1], Args: []string{publish, owner, m.keys[1]}})
}

// State is the state of a lock. The zero State is that of a free lock.
type State struct {
	Owner   string
	Count   int
	TTL     time.Duration // negative: it never expires
	Waiting []string      // owners in the queue, the next one first
	Token   int64         // of the last grant of a fenced mutex; 0: none
}

// Holders returns the owners of the lock with that key, which may be a mutex of
// any kind or a read/write lock, and its TTL. If there are many readers, it returns
// only some.
func Holders(ctx context.Context, d driver.Driver, key string) (owners []string, ttl time.Duration, err error) {
	r, err := d.Do(ctx, driver.Call{Script: mutexInspect, Keys: []string{key}, Args: []string{"1"}})
	if err != nil {
		return nil, 0, err
	}
	if r.Type != driver.List || len(r.List)%2 == 0 {
		return nil, 0, unexpected(mutexInspect, r)
	}
	for i := 1; i < len(r.List); i += 2 {
		owners = append(owners, strings.TrimSuffix(r.List[i].Str, writer("")))
	}
	return owners, remaining(r.List[0].Int), nil
}

// Inspect returns the state of the mutex.
func (m *Mutex) Inspect(ctx context.Context, d driver.Driver) (State, error) {
	r, err := d.Do(ctx, driver.Call{Script: mutexInspect, Keys: m.keys[:1], Args: []string{"0"}})
	if err != nil {
		return State{}, err
	}
	return decodeState(r)
}

// decodeState decodes the remaining time and the fields of a hash with one
// owner.
func decodeState(r driver.Reply) (State, error) {
	if r.Type != driver.List || len(r.List)%2 != 1 || r.List[0].Type != driver.Int {
		return State{}, unexpected(mutexInspect, r)
	}
	if len(r.List) == 1 {
		return State{}, nil
	}
	count, err := strconv.Atoi(r.List[2].Str)
	if err != nil || r.List[1].Type != driver.Str || len(r.List) != 3 {
		return State{}, unexpected(mutexInspect, r)
	}
	return State{
		Owner: r.List[1].Str,
		Count: count,
		TTL:   remaining(r.List[0].Int),
	}, nil
}

package script

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	mutexAcquire = load("mutex_acquire")
	mutexRelease = load("mutex_release")
	mutexForce   = load("mutex_force")
	mutexInspect = load("mutex_inspect")
)

// publish is how scripts tell waiters. A sharded cluster would say SPUBLISH.
const publish = "PUBLISH"

// A Mutex is the wire of Redisson's RLock: a hash that maps the owner to its
// hold count, with the lease as its TTL, and a channel for those who wait.
type Mutex struct {
	keys [2]string // lock, channel
}

// NewMutex returns the wire of the mutex with that name.
func NewMutex(name string) *Mutex {
	return &Mutex{keys: [2]string{name, prefixed("redisson_lock__channel", name)}}
}

// Key returns the key that is locked.
func (m *Mutex) Key() string { return m.keys[0] }

// Channel returns the channel on which a release is announced.
func (m *Mutex) Channel() string { return m.keys[1] }

// A Claim is a wish to hold a lock.
type Claim struct {
	Owner string
	Count int // how often the owner holds it once granted
	Lease time.Duration
}

// A Verdict is the answer to a claim. Token is positive if it was granted.
type Verdict struct {
	Token int64
	TTL   time.Duration // how long the present owner still has; negative: for ever
}

// Granted reports whether the claim was granted.
func (v Verdict) Granted() bool { return v.Token > 0 }

// Acquire takes the mutex if it is free, or enters it again if claim.Count is
// more than one.
func (m *Mutex) Acquire(ctx context.Context, d driver.Driver, c Claim) (Verdict, error) {
	a := newArgs()
	defer a.free()
	r, err := d.Do(ctx, driver.Call{
		Script: mutexAcquire,
		Keys:   m.keys[:1],
		Args:   a.set(millis(c.Lease), c.Owner, strconv.Itoa(c.Count)),
	})
	switch {
	case err != nil:
		return Verdict{}, err
	case r.Type != driver.Int:
		return Verdict{}, unexpected(mutexAcquire, r)
	case r.Int > 0:
		return Verdict{Token: r.Int}, nil
	}
	return Verdict{TTL: time.Duration(-1-r.Int) * time.Millisecond}, nil
}

// Freed is the answer to a release.
type Freed struct {
	Held  bool // the owner did hold it
	Heard int  // how many clients listen to the channel; 0 if the lock is still held
}

// Release lowers the owner's hold count to left; zero frees the mutex.
func (m *Mutex) Release(ctx context.Context, d driver.Driver, owner string, left int) (Freed, error) {
	a := newArgs()
	defer a.free()
	r, err := d.Do(ctx, driver.Call{
		Script: mutexRelease,
		Keys:   m.keys[:],
		Args:   a.set(owner, strconv.Itoa(left), publish),
	})
	if err != nil {
		return Freed{}, err
	}
	if r.Type != driver.Int || r.Int < 0 {
		return Freed{}, unexpected(mutexRelease, r)
	}
	return Freed{Held: r.Int > 0, Heard: int(max(r.Int-1, 0))}, nil
}

// Free returns the call that releases the mutex if owner holds it.
func (m *Mutex) Free(owner string) driver.Call {
	return driver.Call{Script: mutexRelease, Keys: m.keys[:], Args: []string{owner, "0", publish}}
}

// Force frees the mutex whoever holds it, or only if owner does, unless that
// is empty. It reports whether there was anything to free.
func (m *Mutex) Force(ctx context.Context, d driver.Driver, owner string) (bool, error) {
	r, err := d.Do(ctx, driver.Call{Script: mutexForce, Keys: m.keys[:], Args: []string{publish, owner}})
	if err == nil && r.Type != driver.Int {
		err = unexpected(mutexForce, r)
	}
	return r.Int == 1, err
}

// State is what the server says about a lock. The zero State is a free one.
type State struct {
	Owner string
	Count int
	TTL   time.Duration // negative: it never expires
}

// Inspect looks at the mutex.
func (m *Mutex) Inspect(ctx context.Context, d driver.Driver) (State, error) {
	r, err := d.Do(ctx, driver.Call{Script: mutexInspect, Keys: m.keys[:1]})
	if err != nil {
		return State{}, err
	}
	return decodeState(r)
}

func decodeState(r driver.Reply) (State, error) {
	if r.Type != driver.List || len(r.List)%2 != 1 || r.List[0].Type != driver.Int {
		return State{}, unexpected(mutexInspect, r)
	}
	if len(r.List) == 1 {
		return State{}, nil
	}
	count, err := strconv.Atoi(r.List[2].Str)
	if err != nil || r.List[1].Type != driver.Str {
		return State{}, unexpected(mutexInspect, r)
	}
	return State{
		Owner: r.List[1].Str,
		Count: count,
		TTL:   time.Duration(r.List[0].Int) * time.Millisecond,
	}, nil
}

// millis writes a duration as the server wants it. Nearly all leases of a
// program have one length, so the last one is kept.
func millis(d time.Duration) string {
	if last := lastMillis.Load(); last != nil && last.d == d {
		return last.s
	}
	m := &written{d, strconv.FormatInt(d.Milliseconds(), 10)}
	lastMillis.Store(m)
	return m.s
}

type written struct {
	d time.Duration
	s string
}

var lastMillis atomic.Pointer[written]

// args keeps the arguments of the calls on the fast path off the heap.
type args struct{ buf [3]string }

var argsPool = sync.Pool{New: func() any { return new(args) }}

func newArgs() *args { return argsPool.Get().(*args) }

func (a *args) set(s ...string) []string { return a.buf[:copy(a.buf[:], s)] }

func (a *args) free() {
	*a = args{}
	argsPool.Put(a)
}

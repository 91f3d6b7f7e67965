package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/numbered"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/settle"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A target is what an acquisition asks for: one lock, or several at once.
type target interface {
	script.Claimer
	Traits() script.Traits          // how to wait for it
	Gate() string                   // the queue in this process; kinds whose holds differ have different gates
	Channels(owner string) []string // on which an owner is told of a release
	Free(owner string) driver.Call  // releases all that owner may hold, or has stored while it waited
}

// A Kind is a lock of some kind and name.
type Kind interface {
	target
	// Release lowers the hold count to left, or frees the lock.
	Release(ctx context.Context, d driver.Driver, owner string, left int) (script.Freed, error)
	Ref(owner string) script.LockRef // what the watchdog renews for an owner
	Queued() *script.Queued          // the same lock with its queue at the server; nil: it has none
}

// Options are the times and limits of an engine. All must be set.
type Options struct {
	Lease       time.Duration // the lease time of holds that are renewed
	Renew       time.Duration // between two renewals
	Poll        time.Duration // between two requests for a held lock, if messages can arrive
	PollBlind   time.Duration // the same, if messages cannot arrive
	Patience    time.Duration // how long to retry while the server is unavailable
	Linger      time.Duration // how long to keep a subscription without waiters
	SlicePasses int           // how many hand-offs may follow a grant; 0: none
	SliceTime   time.Duration // for how long after a grant hand-offs are allowed
	Queue       bool          // waiting clients queue at the server, and a release grants the lock to one of them
	MaxQueue    int           // how many may wait in the queue of a lock, at the server and in this process; 0: any number
	Replication Replication
	LongHold    time.Duration  // after which time a hold is reported; 0: never
	Client      *script.Client // what the client says about itself; nil: nothing
	Log         *slog.Logger
	Events      Events
}

// An Engine acquires, holds and releases the locks of one client.
type Engine struct {
	d        driver.Driver
	o        Options
	hub      *wait.Hub
	watchdog *watchdog.Watchdog
	settler  *settle.Settler
	numbered *numbered.Sequences
	life     *life

	owners    owners
	tokens    tokens
	gates     gates
	forced    forceTimes
	outages   outages
	refusals  refusals
	rights    rights
	announcer announcer
	warned    warned
	counts    Counts
	servers   servers
	firsts    firsts
}

// rights say what the server refuses to this client, as far as that is known.
type rights struct {
	noWait       atomic.Bool  // the server, or a proxy before it, has no command WAIT
	queueRefused atomic.Int64 // until then, the keys and channels of queues are not used: the user has no right to them
	queueChecked atomic.Bool  // the user may remove entries from queues
}

// New returns an engine on d.
func New(d driver.Driver, o Options) *Engine {
	id := newID()
	e := &Engine{
		d: d, o: o,
		watchdog: watchdog.New(d, o.Renew, o.Log),
		settler:  settle.New(d, o.grace(), o.Renew),
		numbered: numbered.New(d, id),
		life:     newLife(),
		owners:   owners{id: id},
		gates:    gates{byKey: make(map[string]*gate), most: minGates},
		warned:   warned{local: make(map[string]bool)},
		servers:  servers{runIDs: make(map[server]string)},
		outages:  outages{d: d, report: o.Events.Outage, nodes: make(map[string]string)},
		firsts:   firsts{byShape: make(map[string]int)},
	}
	e.watchdog.Observe(e.renewed)
	e.watchdog.Require(o.Replication.acks(), o.Replication.Timeout, o.Replication.Skew)
	e.life.unwatch = d.Watch(e.watchdog.Suspect)
	report := o.Events.Subscription
	if report == nil {
		report = func(error) {}
	}
	e.hub = wait.NewHub(d, o.Linger, wait.Callbacks{
		Lost: func(err error) {
			o.Log.Warn("subscriptions interrupted, will be restored", "error", err)
			report(err)
		},
		Restored: func() { report(nil) },
		Stray: func(channel, payload string) {
			if owner, text, _ := strings.Cut(payload, " "); text != "" && script.IsGrantChannel(channel) {
				e.settler.Again(owner) // it was given up, and its release is confirmed
			}
		},
		Refused: func(channel string, err error) {
			if script.IsGrantChannel(channel) {
				e.refuseQueue(err)
				return
			}
			o.Log.Warn("subscription refused, waiters of the channel will poll", "channel", channel, "error", err)
		},
	})
	return e
}

// renewed handles the result of a renewal.
func (e *Engine) renewed(r watchdog.Renewal) {
	switch {
	case r.Err == nil:
		e.outages.answered(r.Key)
	case driver.ClassOf(r.Err) != driver.Fatal:
		e.outages.failed(r.Key, r.Err)
	}
	if e.o.Events.Renewed != nil {
		e.o.Events.Renewed(r)
	}
	if r.Err == nil && r.Overdue > lateOverdue && e.warned.late.pass(latePause) {
		e.warn(Warning{Reason: "late renewal", Name: r.Called(), Owner: r.Owner, Err: errLate}, "late", clock.Rounded(r.Late), "leases", r.Leases)
	}
}

// ID returns the first part of the names of all owners of this engine.
func (e *Engine) ID() string { return e.owners.id }

// Lease returns the lease time of holds that are renewed.
func (e *Engine) Lease() time.Duration { return e.o.Lease }

// newID returns a random UUID, as a client of Redisson has. Those are of version 4. Ours are of
// version 8, for custom use, so that clients of this library can recognise each other.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// isForeign reports whether an owner belongs to no client of this library, in any process.
func isForeign(owner string) bool {
	return len(owner) <= 36 || owner[14] != '8' || owner[36] != ':'
}

// owners make the names of owners.
type owners struct {
	id   string // the first part of every name
	mu   sync.Mutex
	last uint64 // the number of the last owner
	r    *mathrand.Rand
}

// next returns the name of a new owner, unique among all processes. Its number ends with 13 random
// digits, one of more than 2^43 numbers. A message with the name of an owner grants a lock, and so
// it can only come from a client that may read the keys of the lock.
func (o *owners) next() string {
	o.mu.Lock()
	if o.r == nil {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		o.r = mathrand.New(mathrand.NewChaCha8(key))
	}
	o.last++
	number, secret := o.last, 1e12+o.r.Uint64N(9e12)
	o.mu.Unlock()
	b := make([]byte, 0, 80)
	b = strconv.AppendUint(append(append(b, o.id...), ':'), number, 10)
	return string(strconv.AppendUint(b, secret, 10))
}

// Ask runs a call at the server. With repeat, it retries for a second if there is no answer.
func (e *Engine) Ask(ctx context.Context, repeat bool, call func(context.Context) error) error {
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	patience := askPatience
	if !repeat {
		patience = -1
	}
	return e.retry(ctx, patience, call)
}

// retry runs a call at the server, and again while the server is unavailable, for that time.
func (e *Engine) retry(ctx context.Context, patience time.Duration, call func(context.Context) error) error {
	var out outage
	for {
		sent := clock.Early()
		err := call(ctx)
		switch {
		case err == nil:
			return nil
		case driver.ClassOf(err) == driver.Fatal:
			return refusedError(err)
		case out.note(err, sent) > patience:
			return out.error()
		}
		if _, err := e.sleep(ctx, nil, out.pause()); err != nil {
			return gaveUp(err, &out, 0)
		}
	}
}

// Force frees a lock, whichever owner holds it. It ends the holds of this process, calls force,
// which frees the lock at the server, and verifies holds that were granted meanwhile.
//
// A grant is guarded first, and then checks whether its key was forced. Force notes the key first,
// and then verifies the guarded holds. So one of the two notices the other.
func (e *Engine) Force(k Kind, force func() error) error {
	key, sided := k.Ref("").Key, k.Traits().PerSide
	var lost []*Hold
	for _, c := range e.watchdog.On(key) {
		h := c.Handler.(*Hold)
		switch {
		case sided && h.kind.Gate() != k.Gate():
		case h.origin.under != nil && h.origin.under.Valid(): // it ends with the hold that admitted it
		case e.watchdog.Lose(c, watchdog.Forced):
			lost = append(lost, h)
		}
	}
	err := force()
	for _, h := range lost {
		if err != nil || h.origin.remains.Open { // the lock may still exist, or a late request may acquire it
			e.settle(h.kind, h.owner, h.rests())
		}
	}
	e.forced.note(key)
	e.watchdog.Verify(key)
	return err
}

var seed = maphash.MakeSeed()

// hash returns the hash of a key, for tables of this process.
func hash(key string) uint64 { return maphash.String(seed, key) }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// forceTimes stores when keys were last freed by force in this process. Keys with the same hash
// share one time, so nothing has to be removed, and some grants are verified without need.
type forceTimes [1024]atomic.Int64

func (f *forceTimes) at(key string) *atomic.Int64 {
	return &f[hash(key)%uint64(len(f))]
}

// note stores that a key has just been freed by force.
func (f *forceTimes) note(key string) {
	at, now := f.at(key), int64(clock.Now())
	for old := at.Load(); old < now && !at.CompareAndSwap(old, now); {
		old = at.Load()
	}
}

// since reports whether a key may have been freed by force at that time or later.
func (f *forceTimes) since(key string, at time.Duration) bool {
	return f.at(key).Load() >= int64(at)
}

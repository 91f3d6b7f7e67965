package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// A target is what can be asked for: a lock, or several at once.
type target interface {
	script.Claimer
	// Traits say how to wait for it.
	Traits() script.Traits
	// Gate names the queue in this process. Kinds whose holds differ have
	// different gates, also where they share a key.
	Gate() string
	// Channels are where an owner hears of a release.
	Channels(owner string) []string
	// Free returns the call that takes back whatever owner may hold or have
	// left behind while it waited.
	Free(owner string) driver.Call
}

// A Kind is a lock of some kind and name, as it speaks to the server.
type Kind interface {
	target
	// Release lowers the hold count to left, or frees the lock.
	Release(ctx context.Context, d driver.Driver, owner string, left int) (script.Freed, error)
	// Holding is what the watchdog renews for an owner.
	Ref(owner string) script.LockRef
}

// Options are the times and bounds of an engine. All must be set.
type Options struct {
	Lease       time.Duration // of holds that are renewed
	Renew       time.Duration // between renewals
	Poll        time.Duration // between looks at a held lock when messages can arrive
	PollBlind   time.Duration // the same when they cannot
	Patience    time.Duration // with a server that cannot serve
	Linger      time.Duration // of subscriptions that nobody needs
	SlicePasses int           // hand-offs in a row; 0: none
	SliceTime   time.Duration
	Replication Replication
	Log         *slog.Logger
}

// An Engine does the work of one client.
type Engine struct {
	d        driver.Driver
	o        Options
	hub      *wait.Hub
	watchdog *watchdog.Watchdog

	id        string // the first part of every owner
	owners    atomic.Uint64
	tokens    tokens
	localWait atomic.Int64 // when noteLocalWait logged last
	unlook    func()       // ends the watch over the servers
	forced    forces

	waitless atomic.Bool // the server knows no way to wait for replicas

	tickets sync.Pool // of *ticket

	mu           sync.Mutex
	sequences    []int          // that are free, of those below sequence
	marks        map[int]string // by sequence: that of a request that was sent once and answered
	nextSequence int
	gates        map[string]*gate
	yields       map[string]yield  // what to remember of gates that are gone
	firsts       map[string]int    // with what to begin, see recall
	servers      map[server]string // run ids, see identity
	active       int               // calls under way
	closing      chan struct{}     // closed by Close
	closed       bool
	idle         chan struct{} // closed when closing and no call is under way
	done         chan struct{} // closed when Close is through
}

// New returns an engine on d.
func New(d driver.Driver, o Options) *Engine {
	e := &Engine{
		d: d, o: o,
		watchdog: watchdog.New(d, o.Renew, o.Log),
		id:       newID(),
		gates:    make(map[string]*gate),
		yields:   make(map[string]yield),
		firsts:   make(map[string]int),
		servers:  make(map[server]string),
		closing:  make(chan struct{}),
		idle:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	e.watchdog.Require(o.Replication.acks(), o.Replication.Timeout, o.Replication.Skew)
	e.unlook = d.Watch(e.watchdog.Suspect)
	e.hub = wait.NewHub(d, o.Linger, wait.Told{
		Lost: func(err error) { o.Log.Warn("subscriptions interrupted, will be restored", "error", err) },
		Refused: func(channel string, err error) {
			o.Log.Warn("subscription refused, waiters of the channel will poll", "channel", channel, "error", err)
		},
	})
	return e
}

// ID returns the first part of the names of all owners of this engine.
func (e *Engine) ID() string { return e.id }

// Lease returns the lease time of holds that are renewed.
func (e *Engine) Lease() time.Duration { return e.o.Lease }

// newID returns a random UUID: the form of a Redisson client's id. That is of
// version 4; ours is of version 8, which is free to use, so that clients of
// this library know each other.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ours reports whether an owner is one of this library, in any process.
func ours(owner string) bool { return len(owner) > 36 && owner[14] == '8' && owner[36] == ':' }

// owner returns a name that no acquisition had before, in any process.
func (e *Engine) owner() string {
	b := make([]byte, 0, 64)
	b = append(append(b, e.id...), ':')
	return string(strconv.AppendUint(b, e.owners.Add(1), 10))
}

func (e *Engine) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// begin notes a call under way, unless the engine is closed.
func (e *Engine) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.active++
	return nil
}

func (e *Engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
	if e.closed && e.active == 0 {
		close(e.idle)
	}
}

// Close turns waiters away, tells holders that their leases are over, frees
// what is held at the server, and ends every goroutine. Where the server does
// not answer, it takes twice the limit at most.
func (e *Engine) Close(limit time.Duration) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		<-e.done
		return
	}
	e.closed = true
	close(e.closing)
	if e.active == 0 {
		close(e.idle)
	}
	e.mu.Unlock()
	defer close(e.done)

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	select { // what is being granted now is held or undone in a moment
	case <-e.idle:
	case <-ctx.Done():
	}
	charges := e.watchdog.Close() // from here on nothing is granted
	calls := e.watchdog.DrainPending()
	for _, c := range charges {
		h := c.Handler.(*Hold)
		h.Lost(watchdog.Closed)
		calls = append(calls, h.kind.Free(h.owner))
	}
	e.free(limit, calls)
	e.unlook()
	e.hub.Close()
}

// free runs calls that free locks, those of one node together, as long as the
// node answers. It logs which locks are left.
func (e *Engine) free(limit time.Duration, calls []driver.Call) {
	nodes := make(map[string][]driver.Call)
	for _, c := range calls {
		node := e.d.Place(c.Keys[0]).Node
		nodes[node] = append(nodes[node], c)
	}
	var wg sync.WaitGroup
	for _, calls := range nodes {
		wg.Go(func() {
			if left, err := e.freeAll(limit, calls); len(left) > 0 {
				e.o.Log.Warn("could not free locks, they will expire", "locks", len(left), "keys", firstKeys(left), "error", err)
			}
		})
	}
	wg.Wait()
}

// firstKeys returns the keys of some calls, for the log.
func firstKeys(calls []driver.Call) []string {
	var keys []string
	for _, c := range calls[:min(len(calls), 10)] {
		keys = append(keys, c.Keys[0])
	}
	return keys
}

// freeAll runs calls of one node in pipelines. Those that fail run again, until
// the limit is over. It returns those that have not succeeded, and the error of
// one of them.
func (e *Engine) freeAll(limit time.Duration, calls []driver.Call) (left []driver.Call, err error) {
	start := clock.Early()
	rest := limit
	var out outage
	for {
		var again []driver.Call
		var why error
		for some := range slices.Chunk(calls, 500) {
			if why != nil && driver.CodeOf(why) == "" { // the node does not answer
				again = append(again, some...)
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), rest)
			for i, r := range e.d.DoMany(ctx, some) {
				switch {
				case r.Err == nil || driver.CodeOf(r.Err) == "WRONGTYPE": // the key is no lock any more
				case driver.ClassOf(r.Err) == driver.Fatal:
					left, err = append(left, some[i]), r.Err
				default:
					again, why = append(again, some[i]), r.Err
				}
			}
			cancel()
		}
		if len(again) == 0 {
			return left, err
		}
		if out.note(why, start) >= limit {
			return append(left, again...), why
		}
		time.Sleep(out.pause())
		rest = max(limit-(clock.Early()-start), time.Millisecond)
		calls = again
	}
}

// undo frees, in the background, what owner may have been granted by a request
// that was sent before now. With doubt the request may even be on its way.
func (e *Engine) undo(k target, owner string, lease time.Duration, doubt bool) {
	now := clock.Now()
	again := now
	if doubt {
		again += e.o.Patience / 4
	}
	if !e.watchdog.ReleaseLater(k.Free(owner), now, again, again+lease, nil) {
		e.free(releaseTime, []driver.Call{k.Free(owner)}) // closed: now or never
	}
}

// Ask runs a call at the server. One that may be repeated is, for a second,
// while the server cannot serve.
func (e *Engine) Ask(ctx context.Context, repeat bool, call func(context.Context) error) error {
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	return e.ask(ctx, repeat, call)
}

func (e *Engine) ask(ctx context.Context, repeat bool, call func(context.Context) error) error {
	patience := time.Second
	if !repeat {
		patience = -1
	}
	return e.persist(ctx, patience, call)
}

// persist runs a call at the server, and repeats it for that long while the
// server cannot serve.
func (e *Engine) persist(ctx context.Context, patience time.Duration, call func(context.Context) error) error {
	var out outage
	var timer *time.Timer
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
		if _, err := e.sleep(ctx, nil, &timer, out.pause()); err != nil {
			return gaveUp(err, &out, 0)
		}
	}
}

// Force takes a lock from whoever holds it in this process, runs what takes it
// from everybody, and has a look at what was granted meanwhile.
//
// A grant is guarded first and then looks whether its key was forced meanwhile;
// Force notes it first and then verifies what is guarded. So one of them sees
// the other.
func (e *Engine) Force(k Kind, force func() error) error {
	key, sided := k.Ref("").Key, k.Traits().PerSide
	var lost []*Hold
	for _, c := range e.watchdog.On(key) {
		h := c.Handler.(*Hold)
		switch {
		case sided && h.kind.Gate() != k.Gate():
		case h.under != nil && h.under.Valid(): // stands and falls with that one
		case e.watchdog.Lose(c, watchdog.Forced):
			lost = append(lost, h)
		}
	}
	err := force()
	for _, h := range lost {
		if err != nil || h.doubt { // it may still be there, or come yet
			e.undo(h.kind, h.owner, h.longest(), true)
		}
	}
	e.forced.note(key)
	e.watchdog.Verify(key)
	return err
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

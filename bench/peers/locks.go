package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/holdfast-go/holdfast"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"
)

// A client is what one pod would open. Clients share no connection.
type client interface {
	// lock returns the access of one goroutine to a name.
	lock(name string) lock
	close()
}

// A lock is used by one goroutine.
type lock interface {
	// acquire waits for the lock until ctx is done.
	acquire(ctx context.Context) error
	release(ctx context.Context) error
}

// A library is one implementation of locks.
type library struct {
	name string
	open func(ctx context.Context, addr string) (client, error) // nil if it is not a lock

	ours  bool // it is Holdfast
	floor bool // it does not wait, so it serves only names that are not contended
	renew bool // it renews the locks that it holds
	reads bool // many can hold a lock, but not beside a writer

	// sends names the commands that the client sends outside of scripts, apart
	// from those that no script can call. See requests.
	sends []string
}

// The names of the libraries. Those before redsync are Holdfast with several options and
// kinds. Redsync uses a pool of rueidis.
const (
	mutex       = "mutex"
	noHandoffs  = "mutex-no-handoffs"
	wakeAll     = "mutex-wake-all"
	fairMutex   = "fair-mutex"
	readLock    = "read-lock"
	writeLock   = "write-lock"
	writerFirst = "write-lock-first"
	multiOf8    = "multi-of-8"
	rateLimiter = "rate-limiter"
	redsyncs    = "redsync"
	redislocks  = "redislock"
	rueidisl    = "rueidislock"
	sketched    = "sketch"
	leased      = "leased-sketch"
	bareHash    = "bare-hash"
	bareSet     = "bare-set"
)

var libraries = []library{
	{name: bareHash, open: openBare(hashLock, hashUnlock), floor: true},
	{name: bareSet, open: openBare(setLock, setUnlock), floor: true},
	{name: sketched, open: openSketch(sketchLock, sketchUnlock)},
	{name: leased, open: openSketch(leasedSketchLock, leasedSketchUnlock)},
	{name: mutex, open: openHoldfast(holdfast.Options{}, asMutex), ours: true, renew: true},
	{name: noHandoffs, open: openHoldfast(holdfast.Options{Handoffs: -1}, asMutex), ours: true, renew: true},
	{name: wakeAll, open: openHoldfast(holdfast.Options{WakeAll: true}, asMutex), ours: true, renew: true},
	{name: fairMutex, open: openHoldfast(holdfast.Options{}, asFairMutex), ours: true, renew: true},
	{name: readLock, open: openHoldfast(holdfast.Options{}, asReadLock), ours: true, renew: true, reads: true},
	{name: writeLock, open: openHoldfast(holdfast.Options{}, asWriteLock), ours: true, renew: true},
	{name: writerFirst, open: openHoldfast(holdfast.Options{}, asWriterFirst), ours: true, renew: true},
	{name: multiOf8, open: openHoldfast(holdfast.Options{}, asMultiOf8), ours: true, renew: true},
	{name: rateLimiter, ours: true},
	{name: redsyncs, open: openRedsync, sends: []string{"set"}},
	{name: redislocks, open: openRedislock},
	{name: rueidisl, open: openRueidislock, renew: true},
}

// find returns the library of that name. All names in this program exist.
func find(name string) library {
	return libraries[slices.IndexFunc(libraries, func(l library) bool { return l.name == name })]
}

// Holdfast.

type holdfastClient struct {
	*holdfast.Client
	kind func(*holdfast.Client, string) holdfast.Locker
}

type holdfastLock struct {
	holdfast.Locker
	lease *holdfast.Lease
}

func asMutex(c *holdfast.Client, name string) holdfast.Locker     { return c.Mutex(name) }
func asFairMutex(c *holdfast.Client, name string) holdfast.Locker { return c.FairMutex(name) }
func asReadLock(c *holdfast.Client, name string) holdfast.Locker  { return c.RWMutex(name).RLocker() }
func asWriteLock(c *holdfast.Client, name string) holdfast.Locker { return c.RWMutex(name) }

func asWriterFirst(c *holdfast.Client, name string) holdfast.Locker {
	return c.RWMutex(name, holdfast.WriterFirst())
}

func asMultiOf8(c *holdfast.Client, name string) holdfast.Locker {
	locks := make([]holdfast.Locker, 8)
	for i := range locks {
		locks[i] = c.Mutex(fmt.Sprint(name, ":", i))
	}
	return holdfast.MultiLocker(locks...)
}

func openHoldfast(o holdfast.Options, kind func(*holdfast.Client, string) holdfast.Locker) func(context.Context, string) (client, error) {
	return func(ctx context.Context, addr string) (client, error) {
		c, err := holdfast.Open(ctx, "redis://"+addr, &o)
		return holdfastClient{c, kind}, err
	}
}

func (c holdfastClient) lock(name string) lock { return &holdfastLock{Locker: c.kind(c.Client, name)} }
func (c holdfastClient) close()                { c.Close() }

func (l *holdfastLock) acquire(ctx context.Context) (err error) {
	l.lease, err = l.Lock(ctx)
	return err
}

func (l *holdfastLock) release(ctx context.Context) error { return l.lease.Release(ctx) }

// Redsync waits by trying again. The pause is its default, a random time from 50 to
// 250 ms. By default it gives up after 32 attempts, and its documentation says that
// Lock may then be called again, so acquire does that. A lock expires after 8 s, the
// default.

type redsyncClient struct {
	conn rueidis.Client
	*redsync.Redsync
}

type redsyncLock struct{ *redsync.Mutex }

func openRedsync(_ context.Context, addr string) (client, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return redsyncClient{c, redsync.New(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(c)))}, nil
}

func (c redsyncClient) lock(name string) lock { return redsyncLock{c.NewMutex(name)} }
func (c redsyncClient) close()                { c.conn.Close() }

func (l redsyncLock) acquire(ctx context.Context) error {
	for {
		if err := l.LockContext(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (l redsyncLock) release(ctx context.Context) error {
	_, err := l.UnlockContext(ctx)
	return err
}

// Redislock waits by trying again, too. It has no default. Its documentation
// recommends ExponentialBackoff with a first pause of at least 16 ms; the longest pause
// is that of redsync. Obtain gives up after the TTL if the context has no deadline, so
// acquire calls it again.

const redislockTTL = 10 * time.Second

type redislockClient struct {
	conn *redis.Client
	*redislock.Client
}

type redislockLock struct {
	client redislockClient
	name   string
	held   *redislock.Lock
}

func openRedislock(ctx context.Context, addr string) (client, error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	return redislockClient{c, redislock.New(c)}, c.Ping(ctx).Err()
}

func (c redislockClient) lock(name string) lock { return &redislockLock{client: c, name: name} }
func (c redislockClient) close()                { _ = c.conn.Close() }

func (l *redislockLock) acquire(ctx context.Context) (err error) {
	for {
		l.held, err = l.client.Obtain(ctx, l.name, redislockTTL, &redislock.Options{
			RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 250*time.Millisecond),
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (l *redislockLock) release(ctx context.Context) error { return l.held.Release(ctx) }

// Rueidislock waits for the server to invalidate the key in its cache. Its
// documentation recommends both options for one server of version 7.0.5 or later.

type rueidislockClient struct{ rueidislock.Locker }

type rueidislockLock struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func openRueidislock(_ context.Context, addr string) (client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	return rueidislockClient{l}, err
}

func (c rueidislockClient) lock(name string) lock {
	return &rueidislockLock{locker: c.Locker, name: name}
}

func (c rueidislockClient) close() { c.Close() }

func (l *rueidislockLock) acquire(ctx context.Context) (err error) {
	if ctx.Done() == nil {
		// WithContext can wait forever for a lock that is free, for instance if a request
		// takes longer than TryNextAfter.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	// The lock ends with its context. Here ctx ends only the waiting.
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, stop)
	_, cancel, err := l.locker.WithContext(kept, l.name)
	if err == nil && !unlink() {
		cancel()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		return err
	}
	l.cancel = func() { cancel(); stop() }
	return nil
}

func (l *rueidislockLock) release(context.Context) error {
	l.cancel() // returns when the key is deleted
	return nil
}

package holdfast

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/asynclog"
	"github.com/holdfast-go/holdfast/internal/combine"
	"github.com/holdfast-go/holdfast/internal/deadlock"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/observe"
)

// Options configure a [Client]. The zero value is a good choice, and nil means the same.
type Options struct {
	// WatchdogTimeout is the lease time of leases that the watchdog renews. After a
	// crash of the process, the lock expires within this time. The default is 30 s.
	WatchdogTimeout time.Duration

	// RenewEvery is the time between two renewals. It must be at most half of
	// WatchdogTimeout, to leave time for a second attempt. The default is a
	// third of WatchdogTimeout.
	RenewEvery time.Duration

	// PollInterval is the time after which a waiter checks the lock without a message.
	// It bounds the delay if a message is lost. The default is 5 s.
	PollInterval time.Duration

	// RetryTimeout is how long a call that may wait retries while the server does not
	// answer or cannot serve. Then it fails with [ErrUnavailable]. TryLock and queries
	// retry for one second. The default is 10 s.
	RetryTimeout time.Duration

	// Handoffs is how many times in a row this client passes a lock to its next waiting
	// goroutine without asking the server. Then other clients can get the lock. The
	// default is 64. A negative value disables hand-offs, and holds that readers of an
	// [RWMutex] share.
	Handoffs int

	// HandoffTime bounds the time of such a sequence. A fifth of it applies while
	// clients wait that do not queue at the server, such as Redisson. Readers join the
	// hold of another reader for a quarter of it. The default is 5 ms.
	HandoffTime time.Duration

	// WakeAll makes a release wake all clients that wait for the lock, as with
	// Redisson. By default, clients that wait for a [Mutex], an [Election], permits of
	// a [LeasedSemaphore], or to write under an [RWMutex] queue at the server, and a
	// release grants the lock to the first one. Its cost then does not depend on how
	// many wait. A fair mutex keeps its order either way. Clients with and without
	// WakeAll can share a lock.
	WakeAll bool

	// MaxQueue bounds how many wait for a lock of a kind with a queue, see WakeAll. A
	// call for a held lock fails with [ErrQueueFull] if MaxQueue clients are queued at
	// the server, or MaxQueue calls wait in this process. A client counts once at the
	// server, but in the queue of a fair mutex each of its calls counts. Other clients
	// may have another bound. By default, any number can wait.
	MaxQueue int

	// Deadlocks says what to do about deadlocks between processes. By default, they
	// are reported.
	Deadlocks DeadlockMode

	// Replication configures when a lock counts as granted on a server that has
	// replicas. By default, one connected replica must have the lock, as with
	// Redisson.
	Replication Replication

	// ClockSkew is the largest difference between the clocks of a master and
	// its replicas. Every lease is shortened by it, because a promoted replica
	// expires leases by its own clock. The default is 250 ms if
	// Replication.Mode is [Strict], and zero otherwise.
	ClockSkew time.Duration

	// NamePrefix is put before every name: with "shop:", the server knows the mutex
	// "order" as "shop:order". All clients that share a lock need the same prefix. It
	// corresponds to a NameMapper in Redisson. Methods such as [Mutex.Name] and errors
	// have the name without the prefix. Events, statistics and package inspect have it
	// with the prefix.
	NamePrefix string

	// Label names this client for operators, beside its host, program and process, for
	// example in holdfast ls. It has at most 128 bytes.
	Label string

	// Anonymous makes the client store nothing about itself. By default, it stores its
	// host, process id, program, version, pod and label at the server, in the key
	// holdfast:client:<id>: one second after its first lock, or within four minutes if
	// it only waits. Others then see who holds a lock, and who waits for it. The key is
	// renewed every few minutes, and expires within ten minutes of a crash. If the user
	// lacks permission for the key, only the id is known.
	Anonymous bool

	// AllowReplica lets [Open] and [OpenConfig] connect to a read-only replica, where
	// locks can be inspected, but calls that write fail with [ErrUnavailable]. By
	// default, Open fails. It has no effect with several servers, where the client
	// finds the master.
	AllowReplica bool

	// Logger receives what no return value reports, such as failed renewals. Its
	// handler has its own goroutine, so a slow handler delays nothing. Up to 1024
	// records are queued; further records are dropped and counted. Close waits up to
	// 100 ms for the handler. By default, warnings and errors go to slog.Default(). To
	// log nothing, use slog.New(slog.DiscardHandler).
	Logger *slog.Logger

	// LongHold is the time after which a held lease is reported, once, to the log and
	// the observers. The watchdog checks it when it renews leases. It does not apply to
	// elections. By default, a lease may be held for any time.
	LongHold time.Duration

	// Observers receive the events of package observe, such as acquired locks, failed
	// attempts, losses, renewals and outages. Events of a [MultiLocker] go to the
	// observers of the client of its first lock, and those of a [Redlock] to those of
	// its first client. Close waits up to 100 ms for them. An observer that is an
	// [observe.Watcher] can also read [Client.Stats].
	Observers []observe.Observer
}

// Replication configures how many replicas must have a lock before it counts as
// granted. If only the master has the lock and fails, another client may get the lock
// from the promoted replica while the first client still relies on it.
type Replication struct {
	// Mode says which replicas an acquisition waits for. The default is Acked.
	Mode ReplicationMode

	// Replicas is the number of replicas that must have the lock in mode [Strict]. Set
	// it to the number of replicas of each master. Otherwise a replica without the lock
	// might be promoted.
	Replicas int

	// Timeout is how long to wait for the replicas. The default is 1 s, or
	// WatchdogTimeout if that is shorter.
	Timeout time.Duration
}

// A ReplicationMode says which replicas an acquisition waits for.
type ReplicationMode uint8

// The replication modes. Only Strict keeps a lock exclusive when a replica is
// promoted. With the other modes, let the resource check tokens: see package
// fence.
const (
	// Acked waits until one replica has acknowledged the acquisition, if a
	// replica is connected. The lock is lost if a different replica is
	// promoted. Then two owners may hold it for a moment. A replica that hangs
	// counts as connected until the server drops it, after repl-timeout. Until
	// then calls fail with [ErrNotReplicated].
	Acked ReplicationMode = iota

	// Async waits for no replica.
	Async

	// Strict waits until a fixed number of replicas has acknowledged each acquisition
	// and each renewal. If too few acknowledge an acquisition, the call fails with
	// [ErrNotReplicated]. If too few acknowledge the renewals, the lease is lost. All
	// clients must use this mode. A replica that has acknowledged must not lose its
	// memory before it is promoted.
	Strict
)

// String returns the mode in lower case.
func (m ReplicationMode) String() string {
	switch m {
	case Acked:
		return "acked"
	case Async:
		return "async"
	case Strict:
		return "strict"
	}
	return fmt.Sprintf("ReplicationMode(%d)", m)
}

// The bounds of all lease times. A shorter lease is of no use over a network. A
// longer one could overflow the arithmetic of clocks.
const (
	minLease   = 10 * time.Millisecond
	minRenewed = 100 * time.Millisecond // of a lease that is renewed
	maxLease   = access.MaxTime
)

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&o.WatchdogTimeout, 30*time.Second)
	set(&o.RenewEvery, o.WatchdogTimeout/3)
	set(&o.PollInterval, 5*time.Second)
	set(&o.RetryTimeout, 10*time.Second)
	set(&o.HandoffTime, 5*time.Millisecond)
	set(&o.Replication.Timeout, min(time.Second, o.WatchdogTimeout))
	if o.Replication.Mode == Strict {
		set(&o.ClockSkew, 250*time.Millisecond)
	}
	if o.Handoffs == 0 {
		o.Handoffs = 64
	}
	if o.Logger == nil {
		o.Logger = slog.New(warnings{})
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.WatchdogTimeout < minRenewed || o.WatchdogTimeout > maxLease:
		return invalid("WatchdogTimeout is %v: choose between %v and %v", o.WatchdogTimeout, minRenewed, maxLease)
	case o.RenewEvery < 10*time.Millisecond || o.RenewEvery > o.WatchdogTimeout/2:
		return invalid("RenewEvery is %v: choose between 10ms and half of WatchdogTimeout (%v)", o.RenewEvery, o.WatchdogTimeout/2)
	case o.PollInterval < time.Millisecond:
		return invalid("PollInterval is %v: choose at least 1ms", o.PollInterval)
	case o.RetryTimeout < 0:
		return invalid("RetryTimeout is %v: it cannot be negative", o.RetryTimeout)
	case o.MaxQueue < 0:
		return invalid("MaxQueue is %d: it cannot be negative; 0 is no bound", o.MaxQueue)
	case o.MaxQueue > 0 && o.WakeAll:
		return invalid("MaxQueue is %d, but with WakeAll there is no queue: remove one of them", o.MaxQueue)
	case o.Deadlocks > IgnoreDeadlocks:
		return invalid("Deadlocks is %d: choose ReportDeadlocks, EndDeadlocks or IgnoreDeadlocks", o.Deadlocks)
	case o.Replication.Mode > Strict:
		return invalid("Replication.Mode is %v: choose Acked, Async or Strict", o.Replication.Mode)
	case o.Replication.Mode == Strict && o.Replication.Replicas < 1:
		return invalid("Replication.Replicas is %d: in mode Strict, set it to the number of replicas of each master", o.Replication.Replicas)
	case o.Replication.Mode != Strict && o.Replication.Replicas != 0:
		return invalid("Replication.Replicas is %d: it applies only to mode Strict; set it to 0", o.Replication.Replicas)
	case o.Replication.Timeout < time.Millisecond || o.Replication.Timeout > o.WatchdogTimeout:
		return invalid("Replication.Timeout is %v: choose between 1ms and WatchdogTimeout (%v)", o.Replication.Timeout, o.WatchdogTimeout)
	case o.ClockSkew < 0 || o.ClockSkew > o.WatchdogTimeout/4:
		return invalid("ClockSkew is %v: choose at most a quarter of WatchdogTimeout (%v)", o.ClockSkew, o.WatchdogTimeout/4)
	case o.NamePrefix != "" && script.CheckName(o.NamePrefix+"x") != nil:
		return invalid("NamePrefix is %.80q: %w", o.NamePrefix, script.CheckName(o.NamePrefix+"x"))
	case o.LongHold < 0:
		return invalid("LongHold is %v: it cannot be negative; 0 is no limit", o.LongHold)
	case len(o.Label) > maxLabel:
		return invalid("Label has %d bytes: use at most %d", len(o.Label), maxLabel)
	case o.Label != "" && o.Anonymous:
		return invalid("Label is %q, but the client is Anonymous: remove one of them", o.Label)
	case slices.Contains(o.Observers, nil):
		return invalid("an observer is nil: remove it from Observers")
	case o.HandoffTime < 0:
		return invalid("HandoffTime is %v: it cannot be negative; to disable hand-offs, set Handoffs to -1", o.HandoffTime)
	}
	return nil
}

// A Client is connected to one server, or to servers that belong together, such as a
// cluster. It holds the leases that were acquired through it. A program needs one
// Client per server or cluster.
type Client struct {
	engine    *engine.Engine
	driver    driver.Driver
	combined  driver.Driver // the same, with combined calls
	options   Options
	observers *observers // nil: none
	calls     calls
	holders   holders
	declared  declarations
	waits     *deadlock.Client
	unwatch   []func() // see [observe.Watcher]
	closed    sync.Once
	anyHost   bool // the configuration file disables the check of host names in certificates
}

// New returns a client that uses the driver d. Closing the client closes d.
// Most programs use [Open] instead. Use New with package driver/rueidis to set
// a tls.Config, or a password outside of a URL.
func New(d driver.Driver, options *Options) (*Client, error) {
	if d == nil {
		return nil, &Error{Op: "new client", Err: invalid("the driver is nil")}
	}
	o := options.value().withDefaults()
	if err := o.check(); err != nil {
		return nil, &Error{Op: "new client", Err: err}
	}
	if unverified(d) {
		o.Logger.Warn(unverifiedText) // on the goroutine of the caller, so it is logged before New returns
	}
	var observers *observers
	o.Logger = asynclog.New(o.Logger, func() { observers.blocked("the logger") })
	observers, identity := newObservers(o.Observers, o.Logger), o.identity()
	combined := combine.New(d)
	e := engine.New(combined, engine.Options{
		Lease:       o.WatchdogTimeout,
		Renew:       o.RenewEvery,
		Poll:        o.PollInterval,
		PollBlind:   min(o.PollInterval, time.Second),
		Patience:    o.RetryTimeout,
		Linger:      time.Second,
		SlicePasses: max(o.Handoffs, 0),
		SliceTime:   o.HandoffTime,
		Queue:       !o.WakeAll,
		MaxQueue:    o.MaxQueue,
		LongHold:    o.LongHold,
		Replication: engine.Replication{
			Mode:     engine.Mode(o.Replication.Mode),
			Replicas: o.Replication.Replicas,
			Timeout:  o.Replication.Timeout,
			Skew:     o.ClockSkew,
		},
		Client: identity,
		Log:    o.Logger,
		Events: observers.events(),
	})
	if observers != nil {
		observers.client = e.ID()
	}
	c := &Client{engine: e, driver: d, combined: combined, options: o, observers: observers}
	c.waits = &deadlock.Client{Driver: d, ID: e.ID(), Who: identity.Text(e.ID()), Ends: o.Deadlocks == EndDeadlocks}
	c.showWatchers()
	return c, nil
}

// closeTime is how long Close waits for a server that does not answer.
const closeTime = 2 * time.Second

// userTime is how long Close waits for each observer and for the user's logger.
const userTime = 100 * time.Millisecond

// Close closes the client and its driver. Waiting calls return [ErrClosed]. The
// contexts of held leases end with a cause that matches ErrClosed. Their locks are
// released, or they expire if the server does not answer within two seconds. Closing
// twice is allowed.
func (c *Client) Close() error {
	if err := c.usable(); err != nil {
		return &Error{Op: "close", Err: err}
	}
	c.engine.Close(closeTime)
	c.calls.close()
	err := c.combined.Close()
	c.observers.flush(userTime)
	asynclog.Flush(c.options.Logger, userTime)
	c.closed.Do(func() {
		for _, stop := range c.unwatch {
			stop()
		}
	})
	return err
}

// usable returns an error if the client was not opened.
func (c *Client) usable() error {
	if c == nil || c.engine == nil {
		return invalid("the client is nil or a zero value: create it with Open, and check the error of Open")
	}
	return nil
}

// must panics with the error of usable. It is for methods that return no error.
func (c *Client) must() *Client {
	if err := c.usable(); err != nil {
		panic("holdfast: " + err.Error())
	}
	return c
}

// prefixed returns a name as the server knows it.
func (c *Client) prefixed(name string) string {
	if c == nil || name == "" { // an empty name stays invalid
		return name
	}
	return c.options.NamePrefix + name
}

// ID returns the random id of this client, the first part of the owner of its leases.
func (c *Client) ID() string { return c.must().engine.ID() }

// Driver returns the driver of the client, for packages such as fence that run their
// own scripts. Do not close it: [Client.Close] does.
func (c *Client) Driver() driver.Driver { return c.must().driver }

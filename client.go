package holdfast

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/asynclog"
	"github.com/holdfast-go/holdfast/internal/engine"
)

// Options are the settings of a [Client]. The zero value is a good choice.
type Options struct {
	// WatchdogTimeout is the lease time of leases that the watchdog renews,
	// and so the longest that a lock outlives a killed process. Default: 30 s.
	WatchdogTimeout time.Duration

	// RenewEvery is the time between renewals. It must leave room for a second
	// try, so at most half of WatchdogTimeout. Default: a third of it.
	RenewEvery time.Duration

	// PollInterval is how often a waiter looks at the lock although no message
	// has come. Messages normally wake it within a millisecond; this is the
	// bound where one was lost. Default: 5 s.
	PollInterval time.Duration

	// RetryTimeout is how long a call that may wait puts up with a server that
	// does not answer, or cannot serve, before it fails with [ErrUnavailable].
	// TryLock and questions give up after a second. Default: 10 s.
	RetryTimeout time.Duration

	// Handoffs is how often in a row a lock is passed from one goroutine of
	// this client to the next that waits for it, without asking the server;
	// then others are let in. Default: 64. Negative: never.
	Handoffs int

	// HandoffTime is how long such a row may take. Default: 5 ms.
	HandoffTime time.Duration

	// Replication says when a lock counts as granted on a server that has
	// replicas. Default: when one of those connected has it, which is what
	// Redisson does.
	Replication Replication

	// ClockSkew is how far apart the clocks of a master and its replicas may
	// be. It is taken off every lease, since a replica that takes over ends
	// leases by its own clock. Default: 250 ms if Replication is [Strict], else
	// none.
	ClockSkew time.Duration

	// Logger receives what no return value tells: renewals that fail,
	// subscriptions that break, certificates that are not checked. Its handler
	// runs on a goroutine of its own, so a slow one delays nothing: up to 1024
	// records wait for it, further ones are dropped and counted. Close waits
	// 100 ms for it. Default: warnings go to slog.Default(), nothing else is
	// logged. To log nothing, set it to slog.New(slog.DiscardHandler).
	Logger *slog.Logger
}

// Replication says how many replicas must have a lock before it counts as
// granted. A lock that only the master knows is gone when that dies, and another
// client may then get it from the replica that takes over while the first still
// counts on it.
type Replication struct {
	Mode ReplicationMode

	// Replicas is how many replicas of a master must have it in mode [Strict]:
	// all that it has, or one without the lock might be the one that takes over.
	Replicas int

	// Timeout is how long to wait for them. Default: 1 s, or WatchdogTimeout if
	// that is less.
	Timeout time.Duration
}

// A ReplicationMode is one of the ways to treat replicas.
type ReplicationMode uint8

// The modes. Only Strict keeps a lock exclusive when a replica takes over; with
// the others, let the resource check tokens: see package fence.
const (
	// Acked has one replica acknowledge each acquisition, if any is connected;
	// one that hangs counts as connected until the server gives it up, after its
	// repl-timeout, and until then calls fail with [ErrNotReplicated]. Should
	// another replica take over than the one that has it, the lock is lost, and
	// so it may be in two hands for a moment.
	Acked ReplicationMode = iota

	// Async waits for no replica.
	Async

	// Strict has a fixed number of replicas acknowledge each acquisition and
	// each renewal. What too few have acknowledged is given back, and the call
	// fails with [ErrNotReplicated]; a lease that too few have heard of is
	// lost. All clients have to be strict, and no replica that acknowledged may
	// lose its memory before it takes over.
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

// The bounds of all lease times. The lower one is what a lease needs to be of
// any use over a network; the upper one keeps the arithmetic of clocks sound.
const (
	minLease = 10 * time.Millisecond
	maxLease = 10 * 365 * 24 * time.Hour
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
	case o.WatchdogTimeout < 100*time.Millisecond || o.WatchdogTimeout > maxLease:
		return invalid("WatchdogTimeout is %v: choose between 100ms and %v", o.WatchdogTimeout, maxLease)
	case o.RenewEvery < 10*time.Millisecond || o.RenewEvery > o.WatchdogTimeout/2:
		return invalid("RenewEvery is %v: choose between 10ms and half of WatchdogTimeout (%v)", o.RenewEvery, o.WatchdogTimeout/2)
	case o.PollInterval < time.Millisecond:
		return invalid("PollInterval is %v: choose at least 1ms", o.PollInterval)
	case o.RetryTimeout < 0:
		return invalid("RetryTimeout is %v: it cannot be negative", o.RetryTimeout)
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
	case o.HandoffTime < 0:
		return invalid("HandoffTime is %v: it cannot be negative; to disable hand-offs, set Handoffs to -1", o.HandoffTime)
	}
	return nil
}

// A Client is a connection to Redis and everything that is locked through it.
// It is safe for concurrent use; a program needs one per server.
type Client struct {
	engine  *engine.Engine
	driver  driver.Driver
	options Options
	anyHost bool // the file of OpenConfig wants no check of hosts in certificates
}

// New returns a client that talks to Redis through d, which it closes when it
// is closed. Most programs use [Open] instead. With package driver/rueidis, New
// serves those who want to give a tls.Config or a password outside of a URL.
func New(d driver.Driver, o Options) (*Client, error) {
	if d == nil {
		return nil, &Error{Op: "new client", Err: invalid("the driver is nil")}
	}
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, &Error{Op: "new client", Err: err}
	}
	if unverified(d) {
		o.Logger.Warn(unverifiedText) // on the goroutine of the caller, who can see it before New returns
	}
	o.Logger = asynclog.New(o.Logger)
	e := engine.New(d, engine.Options{
		Lease:       o.WatchdogTimeout,
		Renew:       o.RenewEvery,
		Poll:        o.PollInterval,
		PollBlind:   min(o.PollInterval, time.Second),
		Patience:    o.RetryTimeout,
		Linger:      time.Second,
		SlicePasses: max(o.Handoffs, 0),
		SliceTime:   o.HandoffTime,
		Replication: engine.Replication{
			Mode:     engine.Mode(o.Replication.Mode),
			Replicas: o.Replication.Replicas,
			Timeout:  o.Replication.Timeout,
			Skew:     o.ClockSkew,
		},
		Log: o.Logger,
	})
	return &Client{engine: e, driver: d, options: o}, nil
}

// closeTime bounds how long Close waits for a server that does not answer.
const closeTime = 2 * time.Second

// logTime bounds how long Close waits for the user's logger.
const logTime = 100 * time.Millisecond

// Close ends the client and its driver. Waiting calls return [ErrClosed],
// contexts of leases that are still held end with a cause that matches it, and
// their locks are freed, or expire if the server does not answer within two
// seconds. Closing twice is fine.
func (c *Client) Close() error {
	if err := c.usable(); err != nil {
		return &Error{Op: "close", Err: err}
	}
	c.engine.Close(closeTime)
	err := c.driver.Close()
	asynclog.Flush(c.options.Logger, logTime)
	return err
}

// usable says what is wrong with a client that was not opened.
func (c *Client) usable() error {
	if c == nil || c.engine == nil {
		return invalid("the client is nil or a zero value: create it with Open, and check the error of Open")
	}
	return nil
}

// must panics with what usable says, where there is no error to return.
func (c *Client) must() *Client {
	if err := c.usable(); err != nil {
		panic("holdfast: " + err.Error())
	}
	return c
}

// fits refuses lease times of which the skew of the clocks would leave little.
func (c *Client) fits(lease time.Duration) error {
	if least := 4 * c.options.ClockSkew; lease > 0 && lease < least {
		return invalid("LeaseTime is %v: ClockSkew is %v, so choose at least %v", lease, c.options.ClockSkew, least)
	}
	return nil
}

// ID returns the random name of this client, the first part of the owner of
// every lease it holds.
func (c *Client) ID() string { return c.must().engine.ID() }

// Driver returns the driver that the client talks through, for packages such as
// fence that run scripts of their own. It ends with the client; do not close
// it.
func (c *Client) Driver() driver.Driver { return c.must().driver }

package rueidis

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/driver"
)

// pingGap is the time without traffic after which rueidis sends a PING. It closes the
// connection if no answer arrives within Config.Timeout. Other faults are found sooner: the
// system notices that a server cannot be reached, see keepAlive, and silence notices that a
// reply is overdue. Only a PING notices that a proxy keeps a connection open although the
// server is gone.
const pingGap = 30 * time.Second

// keepAlive makes the system close a connection whose other end has not answered for four
// seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 4}

// A node is one server. All goroutines share one connection to it for commands.
// The connection is opened at first use, and again after it has broken.
//
// On each new connection, the node identifies the server before it sends other
// commands. The server may have been replaced by a replica, or it may have been
// restarted and have lost its data. A different identity begins a new term.
type node struct {
	addr   string
	c      Config
	events nodeEvents

	sentinel bool         // the server is a sentinel
	logins   atomic.Int32 // calls of Config.Credentials in progress

	client  atomic.Pointer[rueidis.Client] // nil until the first connection
	opening opening
	life    context.Context // done when the node is closed
	end     context.CancelFunc
	eras    eras

	conn         atomic.Pointer[commandConn] // nil until the first dial
	calls        atomic.Int64                // calls in progress
	interrupted  atomic.Bool                 // a call was interrupted; see callContext
	reconnecting atomic.Bool

	term   atomic.Uint64
	report report
}

// An opening is the state of the first connection. Its mutex is held while the
// connection is opened.
type opening struct {
	sync.Mutex
	failed  time.Time // when the last attempt failed
	failure error
}

// nodeEvents are the callbacks of a node to its driver.
type nodeEvents interface {
	// nextTerm returns a number that no node has had before.
	nextTerm() uint64
	// changed reports that a node is in a new term.
	changed()
	// scanNow requests a scan, because the node may no longer be a master.
	scanNow()
	// confirm returns nil if the node may be used as a master on its new
	// connection; see source.
	confirm(ctx context.Context, n *node, same bool) error
}

func newNode(ctx context.Context, c Config, addr string, events nodeEvents) *node {
	n := &node{addr: addr, c: c, events: events}
	n.life, n.end = context.WithCancel(ctx)
	n.eras.begin()
	n.term.Store(events.nextTerm())
	n.report.replicas.Store(-1)
	return n
}

// connect opens the first connection. It takes no context, because several
// callers may wait for the connection.
func (n *node) connect() error {
	if n.client.Load() != nil {
		return nil
	}
	came := time.Now()
	n.opening.Lock()
	defer n.opening.Unlock()
	switch {
	case n.client.Load() != nil:
		return nil
	case n.life.Err() != nil:
		return errReplaced
	case n.opening.failed.After(came): // an attempt failed while this call waited
		return n.opening.failure
	}
	c := &n.c
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{n.addr},
		ForceSingleClient: true, // do not detect clusters
		Username:          c.Username,
		Password:          string(c.Password),
		AuthCredentialsFn: n.authFn(),
		SelectDB:          c.DB,
		ClientName:        c.ClientName,
		TLSConfig:         c.TLS,
		Dialer:            net.Dialer{Timeout: c.DialTimeout, KeepAlive: pingGap, KeepAliveConfig: keepAlive},
		DialCtxFn:         n.dialer(c.Network),
		ConnWriteTimeout:  c.Timeout,
		AlwaysRESP2:       c.RESP2,
		DisableRetry:      true, // the engine retries, since it knows the deadline
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection: commands keep their order
		// Calls that wait for replicas have their own connections, closed when idle.
		BlockingPoolSize:    256,
		BlockingPoolCleanup: 10 * time.Second,
		// Lock traffic is small and does not need the default of 0.5 MiB per buffer.
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
	})
	if err == nil && n.life.Err() != nil {
		err = errReplaced
	}
	if err != nil {
		if client != nil {
			client.Close()
		}
		n.conn.Store(nil)
		n.opening.failed, n.opening.failure = time.Now(), n.classify(err)
		return n.opening.failure
	}
	n.client.Store(&client)
	return nil
}

// authFn returns the function with which rueidis asks for credentials, or nil if
// they never change.
func (n *node) authFn() func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	if n.c.Credentials == nil {
		return nil
	}
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		username, password, err := n.credentials(n.life)
		return rueidis.AuthCredentials{Username: username, Password: string(password)}, err
	}
}

// close ends all calls and connections.
func (n *node) close() {
	n.end()
	n.opening.Lock()
	defer n.opening.Unlock()
	defer n.eras.close()
	if c := n.client.Load(); c != nil {
		(*c).Close()
	}
}

// reconnect restores the connection and identifies the server, in the
// background. It retries until it succeeds, or fails for good, or the node is
// closed.
func (n *node) reconnect() {
	if n.life.Err() != nil || !n.reconnecting.CompareAndSwap(false, true) {
		return
	}
	n.events.scanNow()
	go func() {
		defer n.reconnecting.Store(false)
		for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			err := n.identify(n.life)
			if err == nil || driver.ClassOf(err) == driver.Fatal {
				return
			}
			select {
			case <-time.After(pause):
			case <-n.life.Done():
				return
			}
		}
	}()
}

func (n *node) b() rueidis.Builder { return (*n.client.Load()).B() }

// ask runs a command other than a script.
func (n *node) ask(ctx context.Context, build func(rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	type answer struct {
		m   rueidis.RedisMessage
		err error
	}
	a := runDetached(ctx, func(err error) answer { return answer{err: err} }, func() answer {
		if err := n.connect(); err != nil {
			return answer{err: err}
		}
		done := n.newCallContext(context.WithoutCancel(ctx))
		defer done.release()
		done.identifies = true // the command changes nothing, so any server may answer
		m, err := (*n.client.Load()).Do(done, build(n.b())).ToMessage()
		if err != nil {
			return answer{err: n.timeoutCause(ctx, n.classify(err))}
		}
		return answer{m, nil}
	})
	return a.m, a.err
}

// errReplaced is the error of calls to a node that is closed.
var errReplaced = driver.Unsent(errors.New("the server was replaced by another one"))

// classify turns an error of rueidis into one of package driver.
func (n *node) classify(err error) error {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return n.replied(driver.ServerError(e.Error()))
	}
	var op *net.OpError
	var known *driver.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, rueidis.ErrClosing):
		return driver.Unknown(errors.New("the server was replaced by another one"))
	case errors.As(err, &op) && op.Op == "dial":
		return driver.Unsent(err)
	case errors.Is(err, errNotDialled):
		return driver.Unsent(err)
	}
	return driver.Unknown(err)
}

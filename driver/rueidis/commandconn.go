package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// errUnidentified is the error of a call that would be the first on a new
// connection. The server on that connection must be identified first.
var errUnidentified = driver.Unsent(errors.New("the connection broke"))

// errNotDialled marks calls that failed before a connection was open.
var errNotDialled = errors.New("cannot connect")

// A callContext is the context of one call. It lets rueidis use its fast path,
// which is about 20 % faster than its pipeline: for a single caller, rueidis
// writes and reads in the caller's goroutine. It does so only for contexts that
// have a deadline or cannot be cancelled, because nothing can interrupt that
// read. A callContext gives every other context a deadline. If the context is
// cancelled, the callContext makes the read of the connection fail.
//
// This breaks the connection and all other calls on it. So after the first
// interrupted call, the node passes contexts on unchanged. Its connections then
// run the pipeline, where a cancelled call does not affect other calls.
type callContext struct {
	context.Context
	n          *node
	conn       *commandConn // when the call began
	alone      bool         // it is the only call on conn: see enter
	deadline   time.Time    // zero: none
	stop       func() bool
	mu         sync.Mutex
	returned   bool // the call has returned: other calls use the connection now
	dialled    bool // the dial has derived contexts that may outlive the call
	identifies bool // and so may be the first on a connection
}

var callContexts = sync.Pool{New: func() any { return new(callContext) }}

// newCallContext returns a context for one call on the command connection. The
// caller must call release once the call has returned.
func (n *node) newCallContext(ctx context.Context) *callContext {
	n.calls.Add(1)
	c := callContexts.Get().(*callContext)
	c.Context, c.n, c.conn = ctx, n, n.conn.Load()
	c.alone = c.conn != nil && c.conn.enter()
	if ctx.Done() == nil || n.interrupted.Load() { // rueidis applies the timeout by itself
		return c
	}
	c.deadline = time.Now().Add(n.c.Timeout)
	if dl, ok := ctx.Deadline(); ok && dl.Before(c.deadline) {
		c.deadline = dl
	}
	if !c.conn.piped.Load() {
		c.stop = context.AfterFunc(ctx, c.interrupt)
	}
	return c
}

func (c *callContext) release() {
	c.n.calls.Add(-1)
	late := c.stop != nil && !c.stop()
	if late {
		c.mu.Lock()
		c.returned = true
		c.mu.Unlock()
	}
	if c.alone {
		c.conn.leave()
	}
	if !c.dialled && !late {
		*c = callContext{}
		callContexts.Put(c)
	}
}

// interrupt ends the call, unless it has returned: another call may run on the
// connection by now.
func (c *callContext) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.returned {
		c.conn.interrupt()
	}
}

// answered marks the connection as ready, if it is still the current one.
func (c *callContext) answered() {
	if conn := c.conn; !conn.ready.Load() && c.n.conn.Load() == conn {
		conn.ready.Store(true)
	}
}

func (c *callContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() {
		return time.Time{}, false
	}
	return c.deadline, true
}

type callKey struct{}

// ackedKey marks the contexts of calls by doAcked, which run on connections
// other than the commandConn.
type ackedKey struct{}

// Value returns c for callKey. This tells the dialer that it opens a connection
// for commands.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// A commandConn is the connection that commands share.
type commandConn struct {
	net.Conn
	n     *node
	since time.Time    // when it was opened
	until atomic.Int64 // the deadline, in ns after since
	piped atomic.Bool  // rueidis runs its pipeline and handles contexts itself
	ready atomic.Bool  // it is open, and a command was answered on it
	known atomic.Bool  // the server is identified

	single chan struct{} // full while a call is alone: see enter
	waited atomic.Int32  // how many calls overlapped, less one for overlapFor that did not
	served int           // calls that were alone; only those change it
}

// The fast path of rueidis ends for good when two calls overlap. This is right if many
// goroutines use the connection, but not if the watchdog renews a lease while a single
// goroutine locks and releases. So a call waits for another one to end, unless overlaps are
// frequent.
const (
	maxOverlap = time.Millisecond // how long a call waits at most
	overlaps   = 16               // how many calls in a row wait
	overlapFor = 256              // after so many calls that did not overlap, one more may
)

// enter lets a call wait until no other call uses the connection. It returns false if the
// call must not wait, or has waited long enough. Otherwise the call must leave.
func (c *commandConn) enter() bool {
	if c.piped.Load() {
		return false
	}
	select {
	case c.single <- struct{}{}:
		return true
	default:
	}
	if c.waited.Add(1) > overlaps {
		return false
	}
	timer := time.NewTimer(maxOverlap)
	defer timer.Stop()
	select {
	case c.single <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// leave ends a call for which enter has returned true.
func (c *commandConn) leave() {
	if c.served++; c.served%overlapFor == 0 && c.waited.Load() > 0 {
		c.waited.Add(-1)
	}
	<-c.single
}

// Close closes the connection. If it was ready, Close starts to reconnect.
func (c *commandConn) Close() error {
	c.known.Store(false)
	if c.ready.Swap(false) {
		c.n.reconnect()
	}
	return c.Conn.Close()
}

// mayBlock reports whether a call might block regardless of its context and
// timeout: while a connection is opened, or while the queue of rueidis is full
// because the server does not answer.
func (n *node) mayBlock() bool {
	c := n.conn.Load()
	return c == nil || !c.ready.Load() || n.calls.Load() > maxCalls
}

// maxCalls is below the 1024 entries of the queue of rueidis.
const maxCalls = 900

// runDetached runs a call in a new goroutine. If ctx is done first, it returns
// without waiting for the call. The goroutine ends when the dial ends, at the
// latest after the dial timeout.
func runDetached[T any](ctx context.Context, failed func(error) T, call func() T) T {
	ch := make(chan T, 1)
	go func() { ch <- call() }()
	select {
	case v := <-ch:
		return v
	case <-ctx.Done():
		return failed(driver.Unknown(ctx.Err()))
	}
}

// SetDeadline sets the deadline. A zero deadline means that rueidis has started
// its pipeline on this connection.
//
// rueidis sets a deadline for every call. Setting one is not cheap, and most
// differ little from the last one. So a deadline may be late by an eighth of the
// timeout. The end of a context is not late: see interrupt.
func (c *commandConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.piped.Store(true)
		return c.Conn.SetDeadline(t)
	}
	at, set, late := t.Sub(c.since), time.Duration(c.until.Load()), c.n.c.Timeout/8
	if at <= set && set <= at+late {
		return nil
	}
	if at > set {
		at, t = at+late, t.Add(late)
	}
	c.until.Store(int64(at))
	return c.Conn.SetDeadline(t)
}

// interrupt makes the read of a single caller fail. This breaks the connection,
// and the node reconnects.
func (c *commandConn) interrupt() {
	if !c.piped.Load() {
		c.n.interrupted.Store(true)
		c.until.Store(0)
		_ = c.Conn.SetDeadline(time.Unix(1, 0))
	}
}

// dialer returns the function that opens connections. Closing the node ends its
// dials.
func (n *node) dialer(network string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, nd *net.Dialer, conf *tls.Config) (net.Conn, error) {
		call, command := ctx.Value(callKey{}).(*callContext)
		if command {
			call.dialled = true
			if !call.identifies {
				return nil, errUnidentified
			}
		}
		// The connection that connect makes is the first to carry commands.
		command = command || n.conn.Load() == nil
		// Several callers may wait for this connection. It must not fail because
		// the first of them gives up.
		conn, err := n.dial(n.life, network, addr, nd, conf)
		if err != nil && n.life.Err() != nil {
			err = errReplaced
		}
		if err != nil {
			return nil, err
		}
		raw := conn
		conn = &checkedConn{Conn: raw, forget: context.AfterFunc(n.era.Load().ctx, func() { _ = raw.Close() })}
		if !command {
			// The server may have been replaced since it was identified.
			if c := n.conn.Load(); c != nil && ctx.Value(ackedKey{}) != nil {
				c.known.Store(false)
			}
			return conn, nil
		}
		c := &commandConn{Conn: conn, n: n, since: time.Now(), single: make(chan struct{}, 1)}
		n.conn.Store(c)
		return c, nil
	}
}

// dial opens a connection and waits for a first reply on it, both within the
// timeout of the dialer.
func (n *node) dial(ctx context.Context, network, addr string, nd *net.Dialer, conf *tls.Config) (conn net.Conn, err error) {
	end := time.Now().Add(nd.Timeout)
	if conf != nil {
		conn, err = (&tls.Dialer{NetDialer: nd, Config: conf}).DialContext(ctx, network, addr)
	} else {
		conn, err = nd.DialContext(ctx, network, addr)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", nd.Timeout) // the driver's own limit, not the caller's
		if conf != nil {
			err = fmt.Errorf("no TLS handshake within %v: does the port use TLS?", nd.Timeout)
		}
	}
	if err == nil {
		err = firstReply(conn, end)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotDialled, err)
	}
	return conn, nil
}

// replyTypes are the bytes that replies in the Redis protocol begin with.
const replyTypes = "+-:$*_#,(!=%~>|"

// firstReply sends PING and reads one line. A server that has reached its client
// limit, or that runs in protected mode, sends an error unasked and closes the
// connection. rueidis would panic at such an unexpected reply.
func firstReply(conn net.Conn, end time.Time) error {
	_ = conn.SetDeadline(end)
	_, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	var line []byte
	for b := make([]byte, 1); err == nil && b[0] != '\n' && len(line) < 1000; {
		var n int
		n, err = conn.Read(b)
		line = append(line, b[:n]...)
	}
	said := strings.TrimSpace(string(line))
	switch {
	case strings.HasPrefix(said, "-DENIED"), strings.HasPrefix(said, "-ERR max"):
		err = driver.ServerError(said[1:])
	case len(line) > 0 && !strings.ContainsRune(replyTypes, rune(line[0])):
		err = fmt.Errorf("%w: it answered %.40q. Use the port of a Redis or Valkey server, and rediss:// if that port uses TLS", driver.ErrNotRedis, said)
	case len(line) > 0 && line[len(line)-1] == '\n': // an error is an answer, too
		err = nil
	case err == nil:
		err = fmt.Errorf("%w: it answered with a line of more than %d bytes", driver.ErrNotRedis, len(line))
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	return conn.SetDeadline(time.Time{})
}

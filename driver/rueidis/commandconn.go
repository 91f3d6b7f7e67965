package rueidis

import (
	"net"
	"sync/atomic"
	"time"
)

// A commandConn is the connection that commands share.
type commandConn struct {
	net.Conn
	n     *node
	since time.Time    // when it was opened
	until atomic.Int64 // the deadline, in ns after since
	piped atomic.Bool  // rueidis runs its pipeline and handles contexts itself
	ready atomic.Bool  // it is open, and a command was answered on it
	known atomic.Bool  // the server is identified

	silence *silence

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
	c.silence.timer.Stop()
	return c.Conn.Close()
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

// Write sends commands, and watches for their replies.
func (c *commandConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.silence.watch()
	return n, err
}

// Read reads replies.
func (c *commandConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.silence.reads.Add(1)
	return n, err
}

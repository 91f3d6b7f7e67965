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

// errUnidentified is the error of a call that would have been the first on a new
// connection. Before that, whoever answers there has to say who he is.
var errUnidentified = driver.Unsent(errors.New("the connection broke"))

// errNotDialled marks calls that failed before there was a connection.
var errNotDialled = errors.New("cannot connect")

// rueidis serves a lone caller on a fast path: write, then read, in the
// caller's own goroutine, a fifth faster than its pipeline. It takes that path
// only for contexts that have a deadline or cannot be cancelled, because
// nothing can interrupt such a read. A callContext lends every context a
// deadline, and an interrupt brings the cancellation: it makes the read of the
// connection fail.
//
// That costs the connection, and whatever others have sent on it. So once a
// call was interrupted, contexts are passed on as they are: from then on the
// connections run the pipeline, where a cancelled call disturbs nobody.
type callContext struct {
	context.Context
	n        *node
	link     *link // when the call began
	deadline time.Time
	stop     func() bool
	mu       sync.Mutex
	over     bool // the call has returned: the connection is somebody else's
	dialled  bool // contexts derived for the dial may outlive the call
	greets   bool // and so may be the first on a connection
}

var callContexts = sync.Pool{New: func() any { return new(callContext) }}

// bound returns a context for one call on the command connection. Release must
// be called once the call has returned.
func (n *node) bound(ctx context.Context) *callContext {
	n.calls.Add(1)
	c := callContexts.Get().(*callContext)
	c.Context, c.n, c.link = ctx, n, n.link.Load()
	c.deadline = time.Now().Add(n.c.Timeout)
	if dl, ok := ctx.Deadline(); ok && dl.Before(c.deadline) {
		c.deadline = dl
	}
	if ctx.Done() == nil {
		return c
	}
	switch {
	case n.broke.Load():
		c.deadline = time.Time{}
	case !c.link.piped.Load():
		c.stop = context.AfterFunc(ctx, c.interrupt)
	}
	return c
}

func (c *callContext) release() {
	c.n.calls.Add(-1)
	late := c.stop != nil && !c.stop()
	if late {
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
	}
	if !c.dialled && !late {
		*c = callContext{}
		callContexts.Put(c)
	}
}

// interrupt ends the call, unless it is over: the next one may have begun.
func (c *callContext) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.link.interrupt()
	}
}

// answered notes that the connection works, if the call was made on the
// present one.
func (c *callContext) answered() {
	if l := c.link; !l.ready.Load() && c.n.link.Load() == l {
		l.ready.Store(true)
	}
}

func (c *callContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() {
		return time.Time{}, false
	}
	return c.deadline, true
}

type linkKey struct{}

// grantKey marks contexts of calls whose answer counts, on connections other than
// the link.
type grantKey struct{}

// Value tells the dialer which connections carry commands: those that are
// dialled on behalf of a call.
func (c *callContext) Value(key any) any {
	if key == (linkKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// A link is the connection that carries commands.
type link struct {
	net.Conn
	n     *node
	piped atomic.Bool // rueidis runs its pipeline: it minds contexts by itself
	ready atomic.Bool // a command has been answered on it, and it is not closed
	known atomic.Bool // the server at its other end has said who it is
}

// Close notes that there is no connection for commands any more, and sees to
// it that there will be one.
func (l *link) Close() error {
	l.known.Store(false)
	if l.ready.Swap(false) {
		l.n.revive()
	}
	return l.Conn.Close()
}

// mayBlock reports whether a call might wait for something that minds neither
// its context nor its timeout: for a connection that is being opened, or for a
// place in the full queue of a server that does not answer.
func (n *node) mayBlock() bool {
	l := n.link.Load()
	return l == nil || !l.ready.Load() || n.calls.Load() > maxCalls
}

// maxCalls is safely below the 1024 places that rueidis has in its queue.
const maxCalls = 900

// detour runs a call in a goroutine of its own and leaves it there when ctx is
// done first. The goroutine ends with the dial, in a second or two.
func detour[T any](ctx context.Context, failed func(error) T, call func() T) T {
	ch := make(chan T, 1)
	go func() { ch <- call() }()
	select {
	case v := <-ch:
		return v
	case <-ctx.Done():
		return failed(driver.Unknown(ctx.Err()))
	}
}

// SetDeadline notes the moment at which rueidis starts its pipeline on this
// connection: it then takes the deadline away, once and for all.
func (l *link) SetDeadline(t time.Time) error {
	if t.IsZero() {
		l.piped.Store(true)
	}
	return l.Conn.SetDeadline(t)
}

// interrupt fails the read that a lone caller waits in. The connection is lost
// with it, which costs a reconnection and nothing else.
func (l *link) interrupt() {
	if !l.piped.Load() {
		l.n.broke.Store(true)
		_ = l.Conn.SetDeadline(time.Unix(1, 0))
	}
}

// dialer returns the function that opens connections. It lives no longer than
// the node.
func (n *node) dialer(network string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, nd *net.Dialer, conf *tls.Config) (net.Conn, error) {
		call, command := ctx.Value(linkKey{}).(*callContext)
		if command {
			call.dialled = true
			if !call.greets {
				return nil, errUnidentified
			}
		}
		// The connection that connect makes is the first to carry commands.
		command = command || n.link.Load() == nil
		// Others will wait for this connection, too: it must not fail with the
		// caller that happened to need it first.
		conn, err := n.dial(n.life, network, addr, nd, conf)
		if err != nil && n.life.Err() != nil {
			err = errGone
		}
		if err != nil {
			return nil, err
		}
		conn = &guard{Conn: conn}
		if !command {
			// What is granted on it may come from somebody else than the one before.
			if l := n.link.Load(); l != nil && ctx.Value(grantKey{}) != nil {
				l.known.Store(false)
			}
			return conn, nil
		}
		l := &link{Conn: conn, n: n}
		n.link.Store(l)
		return l, nil
	}
}

// dial opens a connection, and hears a first answer on it, within the timeout of
// the dialer.
func (n *node) dial(ctx context.Context, network, addr string, nd *net.Dialer, conf *tls.Config) (conn net.Conn, err error) {
	end := time.Now().Add(nd.Timeout)
	if conf != nil {
		conn, err = (&tls.Dialer{NetDialer: nd, Config: conf}).DialContext(ctx, network, addr)
	} else {
		conn, err = nd.DialContext(ctx, network, addr)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", nd.Timeout) // our own limit, not the caller's
		if conf != nil {
			err = fmt.Errorf("no TLS handshake within %v: is it a port for TLS?", nd.Timeout)
		}
	}
	if err == nil {
		err = knock(conn, end)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotDialled, err)
	}
	return conn, nil
}

// replyTypes are the bytes that replies in the Redis protocol begin with.
const replyTypes = "+-:$*_#,(!=%~>|"

// knock says hello and waits until anybody answers. A server that has no room
// for another client, or serves only its own machine, says so unasked and hangs
// up, and rueidis panics at words that it has not asked for.
func knock(conn net.Conn, end time.Time) error {
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
		err = fmt.Errorf("%w: it has answered %.40q. Name the port of a Redis or Valkey server, with rediss:// if that is for TLS", driver.ErrNotRedis, said)
	case len(line) > 0 && line[len(line)-1] == '\n': // an error, too, is an answer
		err = nil
	case err == nil:
		err = fmt.Errorf("%w: it has answered with a line of more than %d bytes", driver.ErrNotRedis, len(line))
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	return conn.SetDeadline(time.Time{})
}

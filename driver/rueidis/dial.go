package rueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// errUnidentified is the error of a call that would be the first on a new
// connection. The server on that connection must be identified first.
var errUnidentified = driver.Unsent(errors.New("the connection broke"))

// errNotDialled marks calls that failed before a connection was open.
var errNotDialled = errors.New("cannot connect")

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
		checked := &checkedConn{Conn: raw, forget: context.AfterFunc(n.eras.current.Load().ctx, func() { _ = raw.Close() })}
		conn = checked
		if !command {
			// The server may have been replaced since it was identified.
			if c := n.conn.Load(); c != nil && ctx.Value(ackedKey{}) != nil {
				c.known.Store(false)
			}
			return conn, nil
		}
		c := &commandConn{Conn: conn, n: n, since: time.Now(), silence: newSilence(checked, n.c.Timeout), single: make(chan struct{}, 1)}
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

// firstReply sends PING and reads one line. So it finds a server that is silent,
// that is not Redis, or that rejects clients before a call is sent. A server that
// has reached its client limit, or that runs in protected mode, sends an error
// without a request and closes the connection.
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

package rueidis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A subConn is a connection for subscriptions. It uses RESP2, which every server
// supports and in which all messages are lists of strings.
//
// The driver does not use rueidis for subscriptions, because rueidis panics when
// a server that is busy refuses UNSUBSCRIBE: see TestUnsubscribeFromBusyServer.
type subConn struct {
	conn    net.Conn
	timeout time.Duration
	handle  func(kind, channel, payload string)
	closed  chan struct{} // closed when reading has ended
	err     error         // why reading has ended; read it after closed is closed

	mu      sync.Mutex
	pending *request // the request in progress, or nil
}

// A request is a batch of commands that were sent together. The server answers
// each command with one error or with one confirmation per channel.
type request struct {
	kind      string   // the kind of the confirmations
	channels  []string // in the order of the confirmations; nil if confirmations have no channel
	each      int      // confirmations per command
	errs      []error  // one per command
	command   int      // index of the command that the next reply belongs to
	confirmed int      // confirmations of this command so far
	done      chan struct{}
}

// openSubConn opens a subConn. A goroutine passes what the server sends to
// handle, until close is called.
func (n *node) openSubConn(ctx context.Context, heard func(kind, channel, payload string)) (*subConn, error) {
	username, password, err := n.credentials(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := n.dial(ctx, n.c.Network, n.addr, &net.Dialer{Timeout: n.c.DialTimeout, KeepAliveConfig: keepAlive}, n.c.TLS)
	if err != nil {
		return nil, n.classify(err)
	}
	c := &subConn{conn: conn, timeout: n.c.Timeout, handle: heard, closed: make(chan struct{})}
	go c.readLoop()
	var login [][]string
	switch {
	case username != "":
		login = append(login, []string{"AUTH", username, string(password)})
	case password != "":
		login = append(login, []string{"AUTH", string(password)})
	}
	if n.c.ClientName != "" {
		login = append(login, []string{"CLIENT", "SETNAME", n.c.ClientName})
	}
	for _, cmd := range login {
		errs, err := c.do(ctx, "OK", nil, cmd)
		if err == nil && cmd[0] == "AUTH" { // the name is dispensable: the user may lack permission for CLIENT
			err = errs[0]
		}
		if err != nil {
			c.close()
			return nil, n.replied(err)
		}
	}
	return c, nil
}

// close closes the connection. The handler is not called after close has
// returned.
func (c *subConn) close() {
	_ = c.conn.Close()
	<-c.closed
}

// do sends commands and waits until the server has answered all of them. It
// returns one error per command, nil if it was accepted. The channels are those
// of all commands, with the same number in each command.
func (c *subConn) do(ctx context.Context, kind string, channels []string, cmds ...[]string) ([]error, error) {
	r := &request{kind: kind, channels: channels, each: max(len(channels)/len(cmds), 1), errs: make([]error, len(cmds)), done: make(chan struct{})}
	c.mu.Lock()
	c.pending = r
	c.mu.Unlock()
	var b []byte
	for _, cmd := range cmds {
		b = fmt.Appendf(b, "*%d\r\n", len(cmd))
		for _, arg := range cmd {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.timeout))
	if _, err := c.conn.Write(b); err != nil {
		return nil, driver.Unknown(err)
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.errs, nil
	case <-c.closed:
		return nil, driver.Unknown(c.err)
	case <-timer.C:
		return nil, &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", c.timeout)}
	case <-ctx.Done():
		return nil, driver.Unknown(ctx.Err())
	}
}

// readLoop handles what the server sends, until the connection ends.
func (c *subConn) readLoop() {
	defer close(c.closed)
	r := bufio.NewReaderSize(c.conn, maxLine)
	for {
		words, err := read(r, 0)
		var refused *driver.Error
		switch {
		case errors.As(err, &refused):
			c.refuse(err)
		case err != nil:
			c.err = err
			return
		case len(words) == 3 && (words[0] == "message" || words[0] == "smessage"):
			c.handle(words[0], words[1], words[2])
		case len(words) == 3:
			c.handle(words[0], words[1], "")
			c.confirm(words[0], words[1])
		case len(words) > 0:
			c.confirm(strings.ToUpper(words[0]), "") // OK, or PONG in either form
		}
	}
}

// confirm handles a confirmation.
func (c *subConn) confirm(kind, channel string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.pending
	if r == nil || r.kind != kind || r.channels != nil && r.channels[r.command*r.each+r.confirmed] != channel {
		return // not requested, such as the end of a slot's subscriptions
	}
	if r.confirmed++; r.confirmed == r.each {
		c.next(nil)
	}
}

// refuse handles an error reply to a command.
func (c *subConn) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		c.next(err)
	}
}

// next ends the current command of the pending request. The caller holds c.mu.
func (c *subConn) next(err error) {
	r := c.pending
	r.errs[r.command] = err
	r.command, r.confirmed = r.command+1, 0
	if r.command == len(r.errs) {
		c.pending = nil
		close(r.done)
	}
}

// Limits of what a server may send: the length of a line, the length of a
// string, the number of strings in a list. No message on the channels of locks
// comes near them.
const (
	maxLine  = 16 << 10
	maxReply = 64 << 20
	maxWords = 16
)

// read reads a reply. It returns a string or a number as one word and a list of
// these as several words. It returns an error reply as a *driver.Error.
func read(r *bufio.Reader, depth int) ([]string, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errProtocol
	}
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if text == "" {
		return nil, errProtocol
	}
	sort, rest := text[0], text[1:]
	switch {
	case sort == '+' || sort == ':':
		return []string{rest}, nil
	case sort == '-' && depth == 0:
		return nil, driver.ServerError(rest)
	case sort == '$' || sort == '*' && depth == 0:
	default:
		return nil, errProtocol
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || n < -1 || n > maxReply || sort == '*' && n > maxWords:
		return nil, errProtocol
	case n < 0:
		return []string{""}, nil // null
	case sort == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return []string{string(b[:n])}, nil
	}
	var words []string
	for range n {
		word, err := read(r, depth+1)
		if err != nil {
			return nil, err
		}
		words = append(words, word...)
	}
	return words, nil
}

var errProtocol = errors.New("the server does not speak the Redis protocol")

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

// A subConn is a connection that is only listened to. It speaks the older of
// Redis's protocols, which every server knows and in which all that can be heard
// is a list of strings.
//
// rueidis could do that, but for one thing: it panics when a server that is busy,
// or loads its data, refuses to end a subscription.
type subConn struct {
	conn    net.Conn
	timeout time.Duration
	heard   func(kind, channel, payload string)
	dead    chan struct{} // closed when nothing more will be heard
	err     error         // why, once dead

	mu      sync.Mutex
	pending *request // the one under way, or nil
}

// A request is some commands that were sent at once. Each is answered by one
// error or by a confirmation for each of its channels.
type request struct {
	kind     string   // of the confirmations
	channels []string // in the order in which they are confirmed; nil: they name none
	each     int      // confirmations per command
	errs     []error  // by command
	command  int      // the one that the next reply belongs to
	heard    int      // confirmations of it, so far
	done     chan struct{}
}

// call opens a subConn. What it hears goes to heard, from a goroutine that ends
// with hangUp.
func (n *node) call(ctx context.Context, heard func(kind, channel, payload string)) (*subConn, error) {
	conn, err := n.dial(ctx, n.c.Network, n.addr, &net.Dialer{Timeout: n.c.DialTimeout, KeepAlive: pingGap}, n.c.TLS)
	if err != nil {
		return nil, n.classify(err)
	}
	p := &subConn{conn: conn, timeout: n.c.Timeout, heard: heard, dead: make(chan struct{})}
	go p.listen()
	var login [][]string
	switch {
	case n.c.Username != "":
		login = append(login, []string{"AUTH", n.c.Username, string(n.c.Password)})
	case n.c.Password != "":
		login = append(login, []string{"AUTH", string(n.c.Password)})
	}
	if n.c.ClientName != "" {
		login = append(login, []string{"CLIENT", "SETNAME", n.c.ClientName})
	}
	for _, cmd := range login {
		errs, err := p.do(ctx, "OK", nil, cmd)
		if err == nil {
			err = errs[0]
		}
		if err != nil {
			p.hangUp()
			return nil, err
		}
	}
	return p, nil
}

// hangUp ends the connection. Nothing is heard after it has returned.
func (p *subConn) hangUp() {
	_ = p.conn.Close()
	<-p.dead
}

// do sends commands and waits until all are answered. It returns what the
// server says of each: nil, or why it refuses. The channels are those of all
// commands, the same number in each.
func (p *subConn) do(ctx context.Context, kind string, channels []string, cmds ...[]string) ([]error, error) {
	r := &request{kind: kind, channels: channels, each: max(len(channels)/len(cmds), 1), errs: make([]error, len(cmds)), done: make(chan struct{})}
	p.mu.Lock()
	p.pending = r
	p.mu.Unlock()
	var b []byte
	for _, cmd := range cmds {
		b = fmt.Appendf(b, "*%d\r\n", len(cmd))
		for _, arg := range cmd {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.timeout))
	if _, err := p.conn.Write(b); err != nil {
		return nil, driver.Unknown(err)
	}
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.errs, nil
	case <-p.dead:
		return nil, driver.Unknown(p.err)
	case <-timer.C:
		return nil, &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", p.timeout)}
	case <-ctx.Done():
		return nil, driver.Unknown(ctx.Err())
	}
}

// listen takes in what comes, until nothing can.
func (p *subConn) listen() {
	defer close(p.dead)
	r := bufio.NewReaderSize(p.conn, maxLine)
	for {
		words, err := read(r, 0)
		var refused *driver.Error
		switch {
		case errors.As(err, &refused):
			p.refuse(err)
		case err != nil:
			p.err = err
			return
		case len(words) == 3 && (words[0] == "message" || words[0] == "smessage"):
			p.heard(words[0], words[1], words[2])
		case len(words) == 3:
			p.heard(words[0], words[1], "")
			p.confirm(words[0], words[1])
		case len(words) > 0:
			p.confirm(strings.ToUpper(words[0]), "") // OK, or a pong of either sort
		}
	}
}

// confirm takes in that something was done.
func (p *subConn) confirm(kind, channel string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.pending
	if r == nil || r.kind != kind || r.channels != nil && r.channels[r.command*r.each+r.heard] != channel {
		return // not what was asked for, such as the end of a slot's subscriptions
	}
	if r.heard++; r.heard == r.each {
		p.next(nil)
	}
}

// refuse takes in that the server has refused a command.
func (p *subConn) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending != nil {
		p.next(err)
	}
}

// next ends a command of the request under way. The caller holds p.mu.
func (p *subConn) next(err error) {
	r := p.pending
	r.errs[r.command] = err
	r.command, r.heard = r.command+1, 0
	if r.command == len(r.errs) {
		p.pending = nil
		close(r.done)
	}
}

// What a server may say, at most: the length of a line, the length of a string,
// the number of strings in a list. No message on the channels of locks comes
// near it.
const (
	maxLine  = 16 << 10
	maxReply = 64 << 20
	maxWords = 16
)

// read reads a reply: a string or number as one word, a list of these as
// several. An error reply is a *driver.Error.
func read(r *bufio.Reader, depth int) ([]string, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errGarbled
	}
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if text == "" {
		return nil, errGarbled
	}
	sort, rest := text[0], text[1:]
	switch {
	case sort == '+' || sort == ':':
		return []string{rest}, nil
	case sort == '-' && depth == 0:
		return nil, driver.ServerError(rest)
	case sort == '$' || sort == '*' && depth == 0:
	default:
		return nil, errGarbled
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || n < -1 || n > maxReply || sort == '*' && n > maxWords:
		return nil, errGarbled
	case n < 0:
		return []string{""}, nil // nothing
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

var errGarbled = errors.New("the server speaks no protocol of Redis")

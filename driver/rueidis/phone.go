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

// A phone is a connection that is only listened to. It speaks the older of
// Redis's protocols, which every server knows and in which all that can be heard
// is a list of strings.
//
// rueidis could do that, but for one thing: it panics when a server that is busy,
// or loads its data, refuses to end a subscription.
type phone struct {
	conn    net.Conn
	timeout time.Duration
	heard   func(kind, channel, payload string)
	dead    chan struct{} // closed when nothing more will be heard
	err     error         // why, once dead

	mu      sync.Mutex
	pending string     // the kind of reply that the request under way is waiting for; "": none is
	left    int        // how many of them
	reply   chan error // buffered
}

// call opens a phone. What it hears goes to heard, from a goroutine that ends
// with hangUp.
func (n *node) call(ctx context.Context, heard func(kind, channel, payload string)) (*phone, error) {
	conn, err := n.dial(ctx, n.c.Network, n.addr, &net.Dialer{Timeout: n.c.DialTimeout, KeepAlive: pingGap}, n.c.TLS)
	if err != nil {
		return nil, n.classify(err)
	}
	p := &phone{conn: conn, timeout: n.c.Timeout, heard: heard, dead: make(chan struct{}), reply: make(chan error, 1)}
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
		if err := p.do(ctx, "OK", 1, cmd...); err != nil {
			p.hangUp()
			return nil, err
		}
	}
	return p, nil
}

// hangUp ends the connection. Nothing is heard after it has returned.
func (p *phone) hangUp() {
	_ = p.conn.Close()
	<-p.dead
}

// do sends a command and waits for n replies of some kind, or for an error.
func (p *phone) do(ctx context.Context, kind string, n int, cmd ...string) error {
	p.mu.Lock()
	p.pending, p.left = kind, n
	p.mu.Unlock()
	var b []byte
	b = fmt.Appendf(b, "*%d\r\n", len(cmd))
	for _, arg := range cmd {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(p.timeout))
	if _, err := p.conn.Write(b); err != nil {
		return driver.Unknown(err)
	}
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case err := <-p.reply:
		return err
	case <-p.dead:
		return driver.Unknown(p.err)
	case <-timer.C:
		return &driver.Error{Class: driver.Ambiguous, Err: fmt.Errorf("no answer within %v", p.timeout)}
	case <-ctx.Done():
		return driver.Unknown(ctx.Err())
	}
}

// listen takes in what comes, until nothing can.
func (p *phone) listen() {
	defer close(p.dead)
	r := bufio.NewReader(p.conn)
	for {
		words, err := read(r, 0)
		var refused *driver.Error
		switch {
		case errors.As(err, &refused):
			p.answer(p.awaited(), 1<<30, err)
		case err != nil:
			p.err = err
			return
		case len(words) == 3 && (words[0] == "message" || words[0] == "smessage"):
			p.heard(words[0], words[1], words[2])
		case len(words) == 3:
			p.heard(words[0], words[1], "")
			p.answer(words[0], 1, nil)
		case len(words) > 0:
			p.answer(strings.ToUpper(words[0]), 1, nil) // OK, or a pong of either sort
		}
	}
}

func (p *phone) awaited() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending
}

// answer counts replies to the request under way.
func (p *phone) answer(kind string, n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == "" || p.pending != kind {
		return
	}
	if p.left -= n; p.left <= 0 {
		p.pending = ""
		p.reply <- err
	}
}

// maxReply bounds what is believed of a length: no message of anybody's locks is
// as long.
const maxReply = 64 << 20

// read reads a reply: a string or number as one word, a list of these as
// several. An error reply is a *driver.Error.
func read(r *bufio.Reader, depth int) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if line == "" {
		return nil, errGarbled
	}
	rest := line[1:]
	switch line[0] {
	case '+', ':':
		return []string{rest}, nil
	case '-':
		return nil, driver.ServerError(rest)
	case '$', '*':
	default:
		return nil, errGarbled
	}
	n, err := strconv.Atoi(rest)
	switch {
	case err != nil || n > maxReply || line[0] == '*' && (n > 16 || depth > 0):
		return nil, errGarbled
	case n < 0:
		return []string{""}, nil // nothing
	case line[0] == '$':
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

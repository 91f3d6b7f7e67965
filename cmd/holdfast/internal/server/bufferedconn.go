package server

import (
	"errors"
	"net"
	"sync"
)

// backlog is the maximum number of bytes that wait for a slow client.
const backlog = 16 << 20

var errSlow = errors.New("the client does not read its replies")

// bufferedConn is a connection whose Write does not block. Miniredis holds a global lock
// while it publishes a message, so one stopped client would block all others. As in
// Redis, unread replies are buffered, and the connection is closed when the buffer
// is full.
type bufferedConn struct {
	net.Conn
	mu      sync.Mutex
	more    sync.Cond // signaled when pending grows or the connection is closed
	pending []byte
	closed  bool
}

func newBufferedConn(conn net.Conn) *bufferedConn {
	p := &bufferedConn{Conn: conn}
	p.more.L = &p.mu
	go p.send()
	return p
}

func (p *bufferedConn) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return 0, net.ErrClosed
	case len(p.pending)+len(b) > backlog:
		p.end()
		return 0, errSlow
	}
	p.pending = append(p.pending, b...)
	p.more.Signal()
	return len(b), nil
}

// send writes the pending bytes until the connection is closed.
func (p *bufferedConn) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next []byte // two buffers: one is filled while the other is sent
	for {
		for len(p.pending) == 0 && !p.closed {
			p.more.Wait()
		}
		if p.closed {
			return
		}
		next, p.pending = p.pending, next[:0]
		p.mu.Unlock()
		_, err := p.Conn.Write(next)
		p.mu.Lock()
		if err != nil {
			p.end()
		}
	}
}

// end closes the connection. This also ends pending calls of Write and Read.
func (p *bufferedConn) end() {
	if !p.closed {
		p.closed, p.pending = true, nil
		_ = p.Conn.Close()
		p.more.Signal()
	}
}

func (p *bufferedConn) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	return nil
}

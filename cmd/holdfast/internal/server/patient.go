package server

import (
	"errors"
	"net"
	"sync"
)

// backlog is how much may wait for a client that does not read.
const backlog = 16 << 20

var errSlow = errors.New("the client does not read its replies")

// patient is a connection on which nobody waits for a client to read.
// Miniredis publishes a message while the whole server stands still, so one
// client that is stopped would stop all others. As in Redis, what a client has
// not read is kept for it, and when it is too much the connection is closed.
type patient struct {
	net.Conn
	mu      sync.Mutex
	more    sync.Cond // there is more in pending, or it is closed
	pending []byte
	closed  bool
}

func newPatient(conn net.Conn) *patient {
	p := &patient{Conn: conn}
	p.more.L = &p.mu
	go p.send()
	return p
}

func (p *patient) Write(b []byte) (int, error) {
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

// send writes what is pending, until the connection is closed.
func (p *patient) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next []byte // of two buffers, one is filled while the other is sent
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

// end closes the connection, which also ends a Write and a Read under way.
func (p *patient) end() {
	if !p.closed {
		p.closed, p.pending = true, nil
		_ = p.Conn.Close()
		p.more.Signal()
	}
}

func (p *patient) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	return nil
}

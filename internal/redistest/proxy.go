package redistest

import (
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy forwards connections to a server and injects faults on the way. It
// reads whole frames in both directions and pairs every reply with its request,
// so that a fault can hit the reply of one chosen command.
//
// Replies are paired by their order, so commands that change how many replies
// there are (CLIENT REPLY, MONITOR, SYNC) and inline commands are not
// supported. All methods may be called at any time from any goroutine.
type Proxy struct {
	tb       testing.TB
	target   atomic.Pointer[string]
	listener net.Listener

	requests gate // what goes to the server
	replies  gate // what goes to the clients

	delay        atomic.Int64 // of what goes to the clients, as a time.Duration
	refuse       atomic.Bool
	opened       atomic.Int64 // connections, with those refused
	dropMessages atomic.Bool

	mu     sync.Mutex // guards what follows
	conns  map[*proxyConn]struct{}
	counts map[string]int
	drops  []*drop
	holds  []*hold
}

// NewProxy returns a proxy in front of the server at target, a host and port.
// It is closed, with all its connections, in the cleanup of tb.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{
		tb:       tb,
		listener: listener,
		conns:    make(map[*proxyConn]struct{}),
		counts:   make(map[string]int),
	}
	p.target.Store(&target)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		p.accept()
	}()
	tb.Cleanup(func() {
		listener.Close()
		<-accepting
		p.Cut()
	})
	return p
}

// Lead sets the server for new connections, like a host name that now refers to
// another machine. Cut ends the connections to the old server.
func (p *Proxy) Lead(target string) { p.target.Store(&target) }

// Addr returns the host and port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the URL for clients.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// accept serves connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.tb.Errorf("redistest: proxy: %v", err)
			return
		}
		p.opened.Add(1)
		client := conn.(*net.TCPConn)
		c := newProxyConn(p, client)
		p.mu.Lock()
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		if p.refuse.Load() { // checked after the connection is registered, so that Refuse and then Cut miss none
			c.cut()
		}
		go func() {
			c.run()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
			close(c.ended)
		}()
	}
}

// admit registers a command that is about to be forwarded, with the faults for
// its reply.
func (p *Proxy) admit(cmd []string) *request {
	req := &request{name: strings.ToUpper(cmd[0]), left: len(cmd) - 1}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[req.name]++
	p.arm(req, cmd)
	return req
}

// Count returns how many commands of the given name were forwarded since the
// last ResetCounts. A command is counted before it reaches the server, hence
// before its reply reaches the client.
func (p *Proxy) Count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[strings.ToUpper(name)]
}

// Connections returns how many connections clients have opened, including those that were
// refused.
func (p *Proxy) Connections() int { return int(p.opened.Load()) }

// Commands returns the counts of all commands by their upper-case names.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Total returns the number of all commands forwarded since the last
// ResetCounts.
func (p *Proxy) Total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0
	for _, n := range p.counts {
		total += n
	}
	return total
}

// ResetCounts sets all counts to zero.
func (p *Proxy) ResetCounts() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
}

// due returns when a frame that arrives now is forwarded to its client.
func (p *Proxy) due() time.Time {
	return time.Now().Add(time.Duration(p.delay.Load()))
}

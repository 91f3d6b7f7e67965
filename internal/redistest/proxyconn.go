package redistest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// maxQueue is how many frames to a client a delayed or frozen connection keeps
// in memory. Further frames are not read from the server.
const maxQueue = 1024

// proxyConn is one connection of a client through the proxy. Each direction ends
// separately, when its sender closes it: the end of a connection is forwarded
// like bytes, after what was sent before and only while nothing is frozen.
type proxyConn struct {
	proxy  *Proxy
	client *net.TCPConn
	ctx    context.Context // ends when the connection is cut
	cancel context.CancelFunc
	pairs  pairing
	queue  chan arrival
	ended  chan struct{} // closed when both directions have ended

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
}

// arrival is a frame that the server has sent.
type arrival struct {
	raw     []byte
	due     time.Time
	message bool
	req     *request // in the first frame that answers the request, else nil
}

func newProxyConn(p *Proxy, client *net.TCPConn) *proxyConn {
	ctx, cancel := context.WithCancel(context.Background())
	return &proxyConn{
		proxy:  p,
		client: client,
		ctx:    ctx,
		cancel: cancel,
		queue:  make(chan arrival, maxQueue),
		ended:  make(chan struct{}),
	}
}

// run forwards until both directions have ended.
func (c *proxyConn) run() {
	defer c.cut()
	c.proxy.requests.pass(c.ctx, func() {}) // no connections are made while frozen
	if !c.dial() {
		return
	}
	var wg sync.WaitGroup
	wg.Go(c.forwardRequests)
	wg.Go(c.readReplies)
	wg.Go(c.forwardReplies)
	wg.Wait()
}

// dial connects to the server, unless the connection was cut.
func (c *proxyConn) dial() bool {
	conn, err := new(net.Dialer).DialContext(c.ctx, "tcp", *c.proxy.target.Load())
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		conn.Close()
		return false
	}
	c.server = conn.(*net.TCPConn)
	return true
}

// cut ends the connection at once. The client sees a reset.
func (c *proxyConn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	reset(c.client)
	if c.server != nil {
		c.server.Close()
	}
}

// forwardRequests forwards commands from the client to the server. A failed
// write does not end it: the server is gone, and the other direction closes the
// connection to the client.
func (c *proxyConn) forwardRequests() {
	frames := newFrameReader(c.client)
	for {
		f, err := frames.next()
		if err != nil {
			c.report("client", err)
			c.proxy.requests.pass(c.ctx, func() { _ = c.server.CloseWrite() })
			return
		}
		c.proxy.requests.pass(c.ctx, func() {
			// A server does not answer an empty command.
			if cmd := f.words(); len(cmd) > 0 {
				c.pairs.expect(c.proxy.admit(cmd))
			}
			_, _ = c.server.Write(f.raw)
		})
	}
}

// readReplies reads frames from the server, pairs them with their requests and
// queues them.
func (c *proxyConn) readReplies() {
	defer close(c.queue)
	frames := newFrameReader(c.server)
	for {
		f, err := frames.next()
		if err != nil {
			c.report("server", err)
			return
		}
		a := arrival{raw: f.raw, due: c.proxy.due()}
		a.req, a.message = c.pairs.match(f)
		if a.req != nil && a.req.answered {
			a.req = nil
		}
		if a.req != nil {
			a.req.answered = true
			for _, h := range a.req.holds {
				close(h.arrived)
			}
		}
		select {
		case c.queue <- a:
		case <-c.ctx.Done():
			return
		}
	}
}

// forwardReplies forwards queued frames to the client when they are due. A
// failed write does not end it: the client is gone, but its commands must still
// run.
func (c *proxyConn) forwardReplies() {
	for a := range c.queue {
		if wait := time.Until(a.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-c.ctx.Done():
			}
		}
		if a.req != nil {
			for _, h := range a.req.holds {
				select {
				case <-h.released:
				case <-c.ctx.Done():
				}
			}
		}
		c.proxy.replies.pass(c.ctx, func() { c.deliver(a) })
	}
	c.proxy.replies.pass(c.ctx, func() { c.client.Close() })
}

// deliver sends a frame to the client, or applies a fault to it.
func (c *proxyConn) deliver(a arrival) {
	switch {
	case a.message && c.proxy.dropMessages.Load():
	case a.req != nil && len(a.req.drops) > 0:
		c.cut()
		for _, d := range a.req.drops {
			close(d.done)
		}
	default:
		_, _ = c.client.Write(a.raw)
	}
}

// report logs a frame that the proxy cannot read. Without the log, a test would
// see a connection end without a reason.
func (c *proxyConn) report(sender string, err error) {
	if errors.Is(err, errProtocol) {
		c.proxy.tb.Logf("redistest: proxy: from the %s: %v", sender, err)
	}
}

// reset closes a connection so that its peer sees an error rather than an
// orderly end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

package redistest

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// maxQueue is how many frames towards a client a delayed or frozen connection
// keeps in memory. What exceeds it stays with the server.
const maxQueue = 1024

// link is one connection of a client through the proxy. Each direction ends by
// itself when its sender does: an end of connection is forwarded like bytes,
// after what was sent before and only while nothing is frozen.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ctx    context.Context // ends when the link is cut
	cancel context.CancelFunc
	pairs  pairing
	queue  chan arrival
	ended  chan struct{} // closed when nothing of the link is left

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
}

// arrival is a frame that the server has sent.
type arrival struct {
	raw     []byte
	due     time.Time
	message bool
	req     *request // of the first frame that answers it, else nil
}

func newLink(p *Proxy, client *net.TCPConn) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{
		proxy:  p,
		client: client,
		ctx:    ctx,
		cancel: cancel,
		queue:  make(chan arrival, maxQueue),
		ended:  make(chan struct{}),
	}
}

// run forwards until both directions have ended.
func (l *link) run() {
	defer l.cut()
	l.proxy.requests.pass(l.ctx, func() {}) // a frozen network makes no connections
	if !l.dial() {
		return
	}
	var wg sync.WaitGroup
	wg.Go(l.forwardRequests)
	wg.Go(l.readReplies)
	wg.Go(l.forwardReplies)
	wg.Wait()
}

// dial connects to the server, unless the link was cut.
func (l *link) dial() bool {
	conn, err := new(net.Dialer).DialContext(l.ctx, "tcp", *l.proxy.target.Load())
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		conn.Close()
		return false
	}
	l.server = conn.(*net.TCPConn)
	return true
}

// cut ends the link at once. The client sees a reset.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	reset(l.client)
	if l.server != nil {
		l.server.Close()
	}
}

// forwardRequests takes commands from the client to the server. A failed write
// does not end it: the server is gone, and the client is told by the other
// direction.
func (l *link) forwardRequests() {
	frames := newFrameReader(l.client)
	for {
		f, err := frames.next()
		if err != nil {
			l.report("client", err)
			l.proxy.requests.pass(l.ctx, func() { _ = l.server.CloseWrite() })
			return
		}
		l.proxy.requests.pass(l.ctx, func() {
			// A server does not answer an empty command.
			if cmd := f.words(); len(cmd) > 0 {
				l.pairs.expect(l.proxy.admit(cmd))
			}
			_, _ = l.server.Write(f.raw)
		})
	}
}

// readReplies takes frames from the server, finds out what they are and queues
// them.
func (l *link) readReplies() {
	defer close(l.queue)
	frames := newFrameReader(l.server)
	for {
		f, err := frames.next()
		if err != nil {
			l.report("server", err)
			return
		}
		a := arrival{raw: f.raw, due: l.proxy.due()}
		a.req, a.message = l.pairs.settle(f)
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
		case l.queue <- a:
		case <-l.ctx.Done():
			return
		}
	}
}

// forwardReplies takes what is queued to the client when its time has come. A
// failed write does not end it: the client is gone, and what it still asked
// for must run.
func (l *link) forwardReplies() {
	for a := range l.queue {
		if wait := time.Until(a.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.ctx.Done():
			}
		}
		if a.req != nil {
			for _, h := range a.req.holds {
				select {
				case <-h.released:
				case <-l.ctx.Done():
				}
			}
		}
		l.proxy.replies.pass(l.ctx, func() { l.deliver(a) })
	}
	l.proxy.replies.pass(l.ctx, func() { l.client.Close() })
}

// deliver gives a frame to the client, or what the faults make of it.
func (l *link) deliver(a arrival) {
	switch {
	case a.message && l.proxy.dropMessages.Load():
	case a.req != nil && len(a.req.drops) > 0:
		l.cut()
		for _, d := range a.req.drops {
			close(d.done)
		}
	default:
		_, _ = l.client.Write(a.raw)
	}
}

// report logs a frame that the proxy cannot read. Without a word of it a test
// would only see a connection that ends for no reason.
func (l *link) report(sender string, err error) {
	if errors.Is(err, errProtocol) {
		l.proxy.tb.Logf("redistest: proxy: from the %s: %v", sender, err)
	}
}

// reset closes a connection so that its peer sees an error rather than an
// orderly end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

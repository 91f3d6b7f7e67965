package redistest

import (
	"context"
	"net"
	"sync"
)

// relay is one connection through a [Network].
type relay struct {
	from, to string // addresses of servers, "" of clients
	net      *Network
	client   *net.TCPConn
	ctx      context.Context // ends when the relay is cut
	cancel   context.CancelFunc
	ended    chan struct{} // closed when both directions have ended

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
}

func newRelay(n *Network, client *net.TCPConn, to string) *relay {
	ctx, cancel := context.WithCancel(context.Background())
	return &relay{
		from: n.sender(client), to: to, net: n, client: client,
		ctx: ctx, cancel: cancel, ended: make(chan struct{}),
	}
}

// run forwards until both directions have ended.
func (r *relay) run(target string) {
	defer r.cut()
	there, back := r.net.gate(r.from, r.to), r.net.gate(r.to, r.from)
	if r.net.refuses(r.from, r.to) {
		return
	}
	if there.isShut() || back.isShut() {
		// No connection can be opened through a partition. What the client has sent
		// was never received, so it must not arrive later.
		there.pass(r.ctx, func() {})
		back.pass(r.ctx, func() {})
		return
	}
	if !r.dial(target) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.forward(r.server, r.client, there) })
	wg.Go(func() { r.forward(r.client, r.server, back) })
	wg.Wait()
}

// dial connects to the server, unless the relay was cut.
func (r *relay) dial(target string) bool {
	conn, err := new(net.Dialer).DialContext(r.ctx, "tcp", target)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		conn.Close()
		return false
	}
	r.server = conn.(*net.TCPConn)
	return true
}

// forward copies what one side sends, and its end, while the gate is open. Data
// that is sent after the gate was shut does not pass.
func (r *relay) forward(dst, src *net.TCPConn, g *gate) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		g.pass(r.ctx, func() {})
		if r.ctx.Err() != nil {
			return
		}
		if _, failed := dst.Write(buf[:n]); failed != nil {
			r.cut()
			return
		}
		if err != nil {
			_ = dst.CloseWrite()
			return
		}
	}
}

// cut breaks the connection at once. Both sides see a reset.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel()
	reset(r.client)
	if r.server != nil {
		reset(r.server)
	}
}

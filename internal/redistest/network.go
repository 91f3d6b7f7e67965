package redistest

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Clients represents, in a [Network], all processes that are not its servers.
var Clients = &Server{}

// Side is one of two groups that a partition keeps apart. It may include
// [Clients].
type Side = []*Server

// Network carries all traffic between the servers of a group started
// [WithPartitions], and between them and their clients. It forwards bytes. It
// recognizes the sender of a connection by its address. The methods of [Server]
// bypass the network.
//
// MIGRATE connects from another address than that of its server, so the network
// treats it as one of the [Clients].
type Network struct {
	tb testing.TB
	on bool

	mu      sync.Mutex
	nodes   map[string]*Server // by the addresses that they connect from; nil until they run
	gates   map[[2]string]*gate
	refused map[[2]string]bool
	relays  map[*relay]struct{}
}

// WithPartitions puts a [Network] between the servers, and between them and
// their clients. It needs Linux, where every server can have its own address.
func WithPartitions() Option { return func(s *setup) { s.partitions = true } }

func newNetwork(tb testing.TB, on bool) *Network {
	if on && runtime.GOOS != "linux" {
		tb.Fatal("redistest: WithPartitions needs Linux, where all of 127.0.0.0/8 is local")
	}
	return &Network{
		tb: tb, on: on,
		nodes:   make(map[string]*Server),
		gates:   make(map[[2]string]*gate),
		refused: make(map[[2]string]bool),
		relays:  make(map[*relay]struct{}),
	}
}

// Partition blocks all traffic between two sides, without an error. Connections
// stay open, and what is sent on them arrives after [Network.Heal]. New
// connections are accepted, but nothing passes on them, and Heal breaks them.
func (n *Network) Partition(a, b Side) {
	n.each(a, b, func(x, y *Server) {
		n.Silence(x, y)
		n.Silence(y, x)
	})
}

// Silence blocks what one server, or the [Clients], sends to another, until
// [Network.Heal]. The other direction is not affected, except that no new
// connection can be opened.
func (n *Network) Silence(from, to *Server) {
	n.tb.Helper()
	n.mustBeOn()
	n.gate(from.host, to.host).shut()
}

// Refuse closes the connections between two sides and refuses new ones, until
// [Network.Heal].
func (n *Network) Refuse(a, b Side) {
	n.each(a, b, func(x, y *Server) {
		n.mu.Lock()
		n.refused[[2]string{x.host, y.host}], n.refused[[2]string{y.host, x.host}] = true, true
		n.mu.Unlock()
	})
	n.cut(func(r *relay) bool { return n.refuses(r.from, r.to) })
}

// Isolate is a [Network.Partition] between a server on one side and all other
// servers and the clients on the other side.
func (n *Network) Isolate(s *Server) { n.Partition(Side{s}, append(n.Others(s), Clients)) }

// Heal ends all partitions.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.refused)
	for _, g := range n.gates {
		g.open()
	}
}

// Others returns the servers of the network that are not among those named.
func (n *Network) Others(servers ...*Server) Side {
	n.mu.Lock()
	defer n.mu.Unlock()
	var rest Side
	for _, s := range n.nodes {
		if s != nil && !slices.Contains(servers, s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// each calls do for each pair of servers from two sides.
func (n *Network) each(a, b Side, do func(x, y *Server)) {
	n.tb.Helper()
	n.mustBeOn()
	for _, x := range a {
		for _, y := range b {
			if x != y {
				do(x, y)
			}
		}
	}
}

func (n *Network) mustBeOn() {
	n.tb.Helper()
	if !n.on {
		n.tb.Fatal("redistest: to cut the network, start the servers WithPartitions")
	}
}

// gate returns the gate for traffic from one address to another. The address of
// all clients is the empty string.
func (n *Network) gate(from, to string) *gate {
	n.mu.Lock()
	defer n.mu.Unlock()
	pair := [2]string{from, to}
	if n.gates[pair] == nil {
		n.gates[pair] = new(gate)
	}
	return n.gates[pair]
}

func (n *Network) refuses(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused[[2]string{from, to}]
}

// cut breaks the connections that match and waits for their end.
func (n *Network) cut(match func(*relay) bool) {
	n.mu.Lock()
	var relays []*relay
	for r := range n.relays {
		relays = append(relays, r)
	}
	n.mu.Unlock()
	for _, r := range relays {
		if match(r) {
			r.cut()
			<-r.ended
		}
	}
}

// serve puts the network in front of a server: at its front address, it
// forwards to the ports that the server listens on.
func (n *Network) serve(s *Server) {
	n.tb.Helper()
	n.mu.Lock()
	n.nodes[s.host] = s
	n.mu.Unlock()
	ports := []int{s.port}
	if option(s.args, "--cluster-enabled") == "yes" {
		ports = append(ports, s.port+10000) // the bus
	}
	for _, port := range ports {
		listener, err := net.Listen("tcp", net.JoinHostPort(s.front, strconv.Itoa(port)))
		if err != nil {
			n.tb.Fatalf("redistest: network: %v", err)
		}
		accepting := make(chan struct{})
		go func() {
			defer close(accepting)
			n.accept(listener, s.host, net.JoinHostPort(s.host, strconv.Itoa(port)))
		}()
		n.tb.Cleanup(func() {
			listener.Close()
			<-accepting
			n.cut(func(r *relay) bool { return r.to == s.host })
		})
	}
}

// accept forwards connections to target, a port of the server whose address is
// to, until the listener is closed.
func (n *Network) accept(listener net.Listener, to, target string) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n.tb.Errorf("redistest: network: %v", err)
			return
		}
		r := newRelay(n, conn.(*net.TCPConn), to)
		n.mu.Lock()
		n.relays[r] = struct{}{}
		n.mu.Unlock()
		go func() {
			r.run(target)
			n.mu.Lock()
			delete(n.relays, r)
			n.mu.Unlock()
			close(r.ended)
		}()
	}
}

// sender returns the address of the server that opened the connection, or the
// empty string for a client.
func (n *Network) sender(conn *net.TCPConn) string {
	host := conn.RemoteAddr().(*net.TCPAddr).IP.String()
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.nodes[host]; ok {
		return host
	}
	return ""
}

// reserve registers the address of a server, since the server may connect to
// others before it is known to run.
func (n *Network) reserve(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[host] = nil
}

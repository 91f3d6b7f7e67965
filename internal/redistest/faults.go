package redistest

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// drop is a fault that discards one reply.
type drop struct {
	match func(cmd []string) bool
	left  int           // matching commands up to the affected one
	done  chan struct{} // closed when the reply is discarded
}

// hold is a fault that holds back one reply.
type hold struct {
	match    func(cmd []string) bool
	arrived  chan struct{} // closed when the proxy has the reply
	released chan struct{} // closed when the reply may pass
}

// arm assigns to a command the faults that it triggers. The caller holds p.mu.
func (p *Proxy) arm(req *request, cmd []string) {
	p.drops = slices.DeleteFunc(p.drops, func(d *drop) bool {
		if d.match(cmd) {
			d.left--
		}
		if d.left > 0 {
			return false
		}
		req.drops = append(req.drops, d)
		return true
	})
	p.holds = slices.DeleteFunc(p.holds, func(h *hold) bool {
		if !h.match(cmd) {
			return false
		}
		req.holds = append(req.holds, h)
		return true
	})
}

// Freeze stops all forwarding until [Proxy.Thaw]. Connections stay open, and new
// ones are accepted, but neither bytes nor the end of a connection pass. Nothing
// is lost: a command sent into the frozen proxy runs after the thaw, even if its
// client has closed the connection.
func (p *Proxy) Freeze() {
	p.requests.shut()
	p.replies.shut()
}

// FreezeReplies is a [Proxy.Freeze] of the direction to the clients only.
// Commands arrive and run, but no client gets a reply.
func (p *Proxy) FreezeReplies() { p.replies.shut() }

// Thaw ends Freeze and FreezeReplies.
func (p *Proxy) Thaw() {
	p.requests.open()
	p.replies.open()
}

// Delay delays everything that servers send by d, like network latency:
// pipelined replies are delayed together, not one after the other. It applies to
// what arrives from now on. A delay of 0 turns it off.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut closes every current connection. Clients see a reset; the server
// executes what was forwarded to it.
//
// A client that has merely connected may not have been noticed yet; one that
// has received a reply certainly was.
func (p *Proxy) Cut() {
	p.mu.Lock()
	var conns []*proxyConn
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		c.cut()
	}
	for _, c := range conns {
		<-c.ended
	}
}

// Refuse makes the proxy close new connections at once while on. It leaves
// current ones alone; see [Proxy.Cut].
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// DropReply lets the n-th command that matches from now on run, discards its
// reply and cuts the connection, so that the client cannot know whether the
// command ran. The channel is closed when this has happened.
//
// Commands are counted over all connections. DropReply may be called several
// times. The function match must not call the proxy.
func (p *Proxy) DropReply(n int, match func(cmd []string) bool) <-chan struct{} {
	p.tb.Helper()
	if n < 1 {
		p.tb.Fatalf("redistest: DropReply: n is %d, the first command is number 1", n)
	}
	d := &drop{match: match, left: n, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, d)
	return d.done
}

// HoldReply holds back the reply of the next command that matches, and
// everything that follows on its connection, until release is called. The
// channel arrived is closed when the reply has reached the proxy, which means
// that the command has run. It is safe to call release twice, or before a
// command matched.
//
// The function match must not call the proxy.
func (p *Proxy) HoldReply(match func(cmd []string) bool) (arrived <-chan struct{}, release func()) {
	h := &hold{match: match, arrived: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h.arrived, sync.OnceFunc(func() { close(h.released) })
}

// DropMessages sets whether published messages are discarded. Replies and
// confirmations of subscriptions pass.
func (p *Proxy) DropMessages(on bool) { p.dropMessages.Store(on) }

// Command matches the commands of that name, in upper or lower case.
func Command(name string) func(cmd []string) bool {
	return func(cmd []string) bool { return strings.EqualFold(cmd[0], name) }
}

// Script matches the calls of the script with that SHA-1 digest by EVALSHA.
func Script(sha string) func(cmd []string) bool {
	evalsha := Command("EVALSHA")
	return func(cmd []string) bool {
		return evalsha(cmd) && len(cmd) > 1 && strings.EqualFold(cmd[1], sha)
	}
}

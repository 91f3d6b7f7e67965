package redistest

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// drop is an order to swallow one reply.
type drop struct {
	match func(cmd []string) bool
	left  int           // matching commands up to the one that is hit
	done  chan struct{} // closed when the reply is swallowed
}

// hold is an order to hold back one reply.
type hold struct {
	match    func(cmd []string) bool
	arrived  chan struct{} // closed when the proxy has the reply
	released chan struct{} // closed when the reply may pass
}

// arm assigns to a command the orders it triggers. The caller holds p.mu.
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

// Freeze stops all forwarding. Connections stay open, new ones are accepted
// but silent, and neither bytes nor the end of a connection pass until
// [Proxy.Thaw]. Nothing is lost: a command sent into the frozen proxy runs
// after the thaw, even if its client has given up and closed the connection.
func (p *Proxy) Freeze() {
	p.requests.shut()
	p.replies.shut()
}

// FreezeReplies is a [Proxy.Freeze] of the way to the clients only: commands
// arrive and run, and no client learns of it.
func (p *Proxy) FreezeReplies() { p.replies.shut() }

// Thaw ends Freeze and FreezeReplies.
func (p *Proxy) Thaw() {
	p.requests.open()
	p.replies.open()
}

// Delay makes everything that servers send arrive later by d, like a long
// line: pipelined replies are late once, not one after the other. It applies
// to what arrives from now on; 0 turns it off.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Cut closes every current connection. Clients see a reset; the server
// executes what was forwarded to it.
//
// A client that has merely connected may not have been noticed yet; one that
// has received a reply certainly was.
func (p *Proxy) Cut() {
	p.mu.Lock()
	var links []*link
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
	for _, l := range links {
		<-l.ended
	}
}

// Refuse makes the proxy close new connections at once while on. It leaves
// current ones alone; see [Proxy.Cut].
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// DropReply lets the n-th command that matches from now on run and swallows
// its reply, then cuts the connection, so that the client cannot know whether
// the command ran. The channel is closed when that has happened.
//
// Commands count on all connections together. Several orders may be armed.
// The function match must not call the proxy.
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

// HoldReply holds back the reply of the next command that matches, and all
// that follows on its connection, until release is called. The channel arrived
// is closed when the reply has reached the proxy, hence the command has run.
// Releasing twice, or before a command matched, is fine.
//
// The function match must not call the proxy.
func (p *Proxy) HoldReply(match func(cmd []string) bool) (arrived <-chan struct{}, release func()) {
	h := &hold{match: match, arrived: make(chan struct{}), released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return h.arrived, sync.OnceFunc(func() { close(h.released) })
}

// DropMessages swallows published messages on their way to subscribers while
// on. Replies and the confirmations of subscriptions pass.
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

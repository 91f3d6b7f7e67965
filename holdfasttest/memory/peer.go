package memory

import (
	"bufio"
	"fmt"
	"strings"
	"time"
)

// subscribe runs a command that changes the subscriptions. Sharded channels are like others:
// there is one shard.
func (p *peer) subscribe(command string, channels []string) {
	l := p.listen()
	add := command == "subscribe" || command == "ssubscribe"
	if len(channels) == 0 && !add {
		p.server.mu.Lock()
		for c := range l.channels {
			channels = append(channels, c)
		}
		p.server.mu.Unlock()
	}
	for _, c := range channels {
		p.server.mu.Lock()
		if add {
			l.channels[c] = true
			if strings.HasPrefix(c, "__key") {
				p.server.dueAgain()
			}
		} else {
			delete(l.channels, c)
		}
		n := len(l.channels)
		p.count = n
		// In the queue of the messages, so that the confirmation comes before them.
		l.add(0, func() { p.push(command, c, int64(n)) })
		p.server.mu.Unlock()
	}
}

// listen returns the queue of the messages for this client.
func (p *peer) listen() *listener {
	if p.listener == nil {
		p.listener = p.server.listen(p)
		p.listener.slow = func() { _ = p.conn.Close() }
	}
	return p.listener
}

// ofPeers are the commands that only connections have.
var ofPeers = nameSet("hello auth client command readonly readwrite asking reset monitor script eval evalsha quit subscribe ssubscribe unsubscribe sunsubscribe")

// watch counts a command, and shows it to clients that watch the server.
func (p *peer) watch(name string, args []string) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if ofPeers[name] { // do counts the others
		p.server.calls[name]++
	}
	p.server.show(p.db, p.conn.RemoteAddr().String(), args)
}

// show shows a command to clients that watch the server with MONITOR.
func (s *Server) show(db int, from string, args []string) {
	if len(s.monitors) == 0 {
		return
	}
	now := s.clockNow().UnixMicro()
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%06d [%d %s]", now/1e6, now%1e6, db, from)
	for _, a := range args {
		b.WriteString(" " + quote(a))
	}
	line := b.String()
	for m := range s.monitors {
		m.listener.add(len(line), func() {
			m.reply(status(line))
			m.flush()
		})
	}
}

// quote writes a text as MONITOR does.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b.WriteString("\\" + string(c))
		case c == '\n':
			b.WriteString("\\n")
		case c == '\r':
			b.WriteString("\\r")
		case c == '\t':
			b.WriteString("\\t")
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "\\x%02x", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// awaitPause waits until the pause of CLIENT PAUSE is over.
func (p *peer) awaitPause() {
	for {
		p.server.mu.Lock()
		left := time.Until(p.server.paused)
		p.server.mu.Unlock()
		if left <= 0 {
			return
		}
		p.flush()
		time.Sleep(min(left, 10*time.Millisecond)) // the pause may end early
	}
}

// Message implements driver.Handler.
func (p *peer) Message(channel, payload string) { p.push("message", channel, payload) }

// Subscribed implements driver.Handler. See subscribe.
func (*peer) Subscribed(string, uint64) {}

// Lost implements driver.Handler: a server that is cut off closes its connections.
func (p *peer) Lost([]string, error) { _ = p.conn.Close() }

// push writes a message out of turn.
func (p *peer) push(list ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sign := byte('*')
	if p.resp3 {
		sign = '>'
	}
	writeList(p.out, sign, list, p.resp3)
	_ = p.out.Flush()
}

// reply writes a reply.
func (p *peer) reply(r any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	write(p.out, r, p.resp3)
}

// flush sends the replies.
func (p *peer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Flush()
}

// oneReply removes the ends of lines from a text of a script: they would end the reply.
var oneReply = strings.NewReplacer("\r", " ", "\n", " ")

func write(out *bufio.Writer, r any, resp3 bool) {
	switch r := r.(type) {
	case nil:
		if resp3 {
			_, _ = out.WriteString("_\r\n")
		} else {
			_, _ = out.WriteString("$-1\r\n")
		}
	case int64:
		fmt.Fprintf(out, ":%d\r\n", r)
	case string:
		fmt.Fprintf(out, "$%d\r\n%s\r\n", len(r), r)
	case status:
		fmt.Fprintf(out, "+%s\r\n", oneReply.Replace(string(r)))
	case error:
		fmt.Fprintf(out, "-%s\r\n", oneReply.Replace(r.Error()))
	case pairs:
		if resp3 {
			fmt.Fprintf(out, "%%%d\r\n", len(r)/2)
			for _, e := range r {
				write(out, e, resp3)
			}
			return
		}
		writeList(out, '*', r, resp3)
	case []any:
		writeList(out, '*', r, resp3)
	}
}

func writeList(out *bufio.Writer, sign byte, list []any, resp3 bool) {
	fmt.Fprintf(out, "%c%d\r\n", sign, len(list))
	for _, e := range list {
		write(out, e, resp3)
	}
}

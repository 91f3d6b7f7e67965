package memory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Serve serves connections until the listener is closed, and then returns nil when all
// connections are closed. It speaks RESP2 and RESP3, and knows the commands that clients of
// Holdfast and redis-cli need. There are no users and no passwords.
func (s *Server) Serve(l net.Listener) error {
	var conns sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	defer func() {
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		s.mu.Lock()
		s.paused = time.Time{} // scripts of these clients must not wait
		s.mu.Unlock()
		conns.Wait()
	}()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
			time.Sleep(acceptPause) // until clients have closed connections
			continue
		}
		if err != nil {
			return err
		}
		mu.Lock()
		open[c] = true
		mu.Unlock()
		conns.Go(func() {
			s.serve(c)
			mu.Lock()
			delete(open, c)
			mu.Unlock()
		})
	}
}

// acceptPause is the time after which the server tries again to accept a connection.
const acceptPause = 10 * time.Millisecond

// A peer is a client at the other end of a connection.
type peer struct {
	server *Server
	conn   net.Conn
	in     *bufio.Reader
	id     int64
	db     int
	name   string
	count  int // of subscriptions

	mu       sync.Mutex // for the fields below: messages are written by another goroutine
	out      *bufio.Writer
	resp3    bool
	listener *listener // nil: not subscribed yet
}

func (s *Server) serve(c net.Conn) {
	s.mu.Lock()
	s.peers++
	p := &peer{server: s, conn: c, id: s.peers, in: bufio.NewReader(c), out: bufio.NewWriter(c)}
	s.mu.Unlock()
	defer func() {
		p.flush()
		_ = c.Close()
		s.mu.Lock()
		delete(s.monitors, p)
		s.mu.Unlock()
		if p.listener != nil {
			_ = p.listener.Close()
		}
	}()
	for {
		if p.in.Buffered() == 0 { // replies to a pipeline go together
			p.flush()
		}
		args, err := readCommand(p.in)
		var bad failure
		if errors.As(err, &bad) {
			p.reply(bad)
			return
		}
		if err != nil {
			return
		}
		if len(args) == 0 {
			continue
		}
		if quit := p.handle(args); quit {
			return
		}
	}
}

// readCommand reads a command: an array of texts, or words on a line.
func readCommand(in *bufio.Reader) ([]string, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "*") {
		return strings.Fields(line), nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n > maxArgs {
		return nil, failure("ERR Protocol error: invalid multibulk length")
	}
	var args []string
	left := maxBytes
	for range n {
		line, err := readLine(in)
		if err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
		if err != nil || !strings.HasPrefix(line, "$") || size < 0 || size > left {
			return nil, failure("ERR Protocol error: invalid bulk length")
		}
		left -= size
		text, err := readText(in, size+2)
		if err != nil {
			return nil, err
		}
		args = append(args, string(text[:size]))
	}
	return args, nil
}

// readText reads so many bytes. Its memory grows with what has arrived, not with what a client
// has announced.
func readText(in *bufio.Reader, size int) ([]byte, error) {
	text := make([]byte, min(size, 1<<16))
	for n := 0; ; {
		if _, err := io.ReadFull(in, text[n:]); err != nil || len(text) == size {
			return text, err
		}
		n = len(text)
		text = append(text, make([]byte, min(size-n, n))...)
	}
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", failure("ERR Protocol error: too big request")
	}
	return strings.TrimRight(string(line), "\r\n"), err
}

// handle runs a command and writes its reply. It reports whether the connection ends.
func (p *peer) handle(args []string) (quit bool) {
	name := strings.ToLower(args[0])
	if name == "post" || name == "host:" {
		p.server.warn("possible security attack: a client sent POST or Host: as a command. A web page may try to use this server. The connection is closed.", p.conn.RemoteAddr())
		return true
	}
	p.watch(name, args)
	switch name {
	case "quit":
		p.reply(status("OK"))
		return true
	case "subscribe", "ssubscribe", "unsubscribe", "sunsubscribe":
		p.subscribe(name, args[1:])
		return false
	case "ping":
		if p.count > 0 && !p.resp3 { // RESP2 can send only arrays to subscribers
			p.reply([]any{"pong", strings.Join(args[1:], " ")})
			return false
		}
	}
	r, err := p.run(name, args[1:])
	if err != nil {
		r = err
	}
	p.reply(r)
	return false
}

// run runs a command that has one reply.
func (p *peer) run(name string, args []string) (any, error) {
	switch name {
	case "hello":
		return p.hello(args)
	case "auth":
		return nil, failure("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	case "client":
		return p.client(args)
	case "command":
		return []any{}, nil
	case "readonly", "readwrite", "asking", "reset":
		return status("OK"), nil
	case "monitor":
		p.listen()
		p.server.mu.Lock()
		defer p.server.mu.Unlock()
		p.server.monitors[p] = true
		return status("OK"), nil
	case "script":
		return p.script(args)
	case "eval", "evalsha":
		return p.eval(name, args)
	}
	t := p.server.begin(p.db)
	defer t.end()
	r, err := t.do(append([]string{name}, args...))
	p.db = t.db // SELECT
	return r, err
}

func (p *peer) hello(args []string) (any, error) {
	if len(args) > 0 {
		switch args[0] {
		case "2", "3":
			p.mu.Lock()
			p.resp3 = args[0] == "3"
			p.mu.Unlock()
		default:
			return nil, failure("NOPROTO unsupported protocol version")
		}
		for i := 1; i < len(args); i++ {
			switch {
			case words(args[i], "AUTH"):
				return nil, failure("WRONGPASS this server has no users")
			case words(args[i], "SETNAME") && i+1 < len(args):
				p.name = args[i+1]
				i++
			}
		}
	}
	version := int64(2)
	if p.resp3 {
		version = 3
	}
	return pairs{"server", "redis", "version", serverVersion, "proto", version, "id", p.id, "mode", "standalone", "role", "master", "modules", []any{}}, nil
}

// maxPause is the longest pause, in ms.
const maxPause = 24 * 60 * 60 * 1000

func (p *peer) client(args []string) (any, error) {
	switch {
	case len(args) == 0:
		return nil, failure("ERR wrong number of arguments for 'client' command")
	case words(args[0], "ID"):
		return p.id, nil
	case words(args[0], "GETNAME"):
		return p.name, nil
	case words(args[0], "SETNAME") && len(args) == 2:
		p.name = args[1]
		return status("OK"), nil
	case words(args[0], "PAUSE") && len(args) > 1:
		ms, err := integer(args[1])
		if err != nil {
			return nil, err
		}
		p.server.mu.Lock()
		defer p.server.mu.Unlock()
		p.server.paused = time.Now().Add(time.Duration(min(max(ms, 0), maxPause)) * time.Millisecond)
		return status("OK"), nil
	case words(args[0], "UNPAUSE"):
		p.server.mu.Lock()
		defer p.server.mu.Unlock()
		p.server.paused = time.Time{}
		return status("OK"), nil
	case words(args[0], "SETINFO", "NO-EVICT", "NO-TOUCH"):
		return status("OK"), nil
	default:
		return nil, failure(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try CLIENT HELP.", args[0]))
	}
}

func (p *peer) script(args []string) (any, error) {
	t := p.server.begin(p.db)
	defer t.end()
	switch {
	case len(args) == 2 && words(args[0], "LOAD"):
		hash := sha1Hex(args[1])
		_, err := t.s.compile(hash, args[1])
		return hash, err
	case len(args) > 1 && words(args[0], "EXISTS"):
		var all []any
		for _, hash := range args[1:] {
			_, ok := t.s.protos[strings.ToLower(hash)]
			all = append(all, number(ok))
		}
		return all, nil
	case len(args) > 0 && words(args[0], "FLUSH"):
		clear(t.s.protos)
		return status("OK"), nil
	default:
		return nil, failure("ERR unknown subcommand or wrong number of arguments for 'script' command")
	}
}

func (p *peer) eval(name string, args []string) (any, error) {
	if len(args) < 2 {
		return nil, failure(fmt.Sprintf("ERR wrong number of arguments for '%s' command", name))
	}
	n, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(args)-2) {
		return nil, failure("ERR Number of keys can't be greater than number of args")
	}
	p.awaitPause()
	hash, source := strings.ToLower(args[0]), ""
	t := p.server.begin(p.db)
	defer t.end()
	if name == "eval" {
		hash, source = sha1Hex(args[0]), args[0]
	} else if _, ok := t.s.protos[hash]; !ok {
		return nil, failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	return t.eval(hash, source, args[2:2+n], args[2+n:])
}

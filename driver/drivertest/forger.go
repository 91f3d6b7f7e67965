package drivertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A Forger is a server that answers normally, except for one command. While it
// is armed, it answers this command with a forged reply.
type Forger struct {
	net.Listener
	resp2  bool
	armed  atomic.Bool
	count  atomic.Int64
	Mute   bool   // send nothing after the forged reply
	at     string // the command to forge the reply of
	forged []byte
	mu     sync.Mutex
	conns  []net.Conn
}

// NewForger starts a forger that forges the reply to the command at. If forged
// is empty, it closes the connection instead. It is stopped at the end of the
// test.
func NewForger(t *testing.T, resp2 bool, at, forged string) *Forger {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Forger{Listener: l, resp2: resp2, at: at, forged: []byte(forged)}
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, c := range f.conns {
			_ = c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			go f.serve(c)
		}
	}()
	return f
}

// Forged returns the number of forged replies.
func (f *Forger) Forged() int { return int(f.count.Load()) }

// Arm turns forging on or off. It returns the previous state.
func (f *Forger) Arm(on bool) bool { return f.armed.Swap(on) }

func (f *Forger) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		cmd, err := readCommand(r)
		if err != nil {
			return
		}
		reply, forge := f.answer(cmd), strings.EqualFold(cmd[0], f.at) && f.armed.Load()
		if forge {
			reply = f.forged
			f.count.Add(1)
		}
		if _, err := c.Write(reply); err != nil || forge && len(reply) == 0 {
			return
		}
		if forge && f.Mute {
			_, _ = io.Copy(io.Discard, r)
			return
		}
	}
}

func readCommand(r *bufio.Reader) (cmd []string, err error) {
	number := func() (n int) {
		var line string
		if line, err = r.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for range number() {
		b := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, b)
		}
		if err != nil {
			break
		}
		cmd = append(cmd, string(b[:len(b)-2]))
	}
	if err == nil && len(cmd) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return cmd, err
}

// info has the largest possible number of replicas.
var info = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:9223372036854775807\r\nrun_id:" + strings.Repeat("a", 40) + "\r\n"

func (f *Forger) answer(cmd []string) []byte {
	switch strings.ToUpper(cmd[0]) {
	case "PING":
		return []byte("+PONG\r\n")
	case "HELLO":
		if f.resp2 {
			return []byte("*4\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n")
		}
		return []byte("%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n")
	case "INFO":
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(info), info)
	case "EVALSHA":
		return []byte("*3\r\n:1\r\n$-1\r\n*0\r\n")
	case "SUBSCRIBE":
		var b []byte
		for i, c := range cmd[1:] {
			b = fmt.Appendf(b, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:%d\r\n", len(c), c, i+1)
		}
		return b
	default:
		return []byte("+OK\r\n")
	}
}

// Forgeries returns replies that no server sends, or not as a reply to the
// command.
func Forgeries() map[string]string {
	deep := strings.Repeat("*1\r\n", 4_000_000)
	return map[string]string{
		"nothing":                  "",
		"two replies":              ":1\r\n:1\r\n",
		"many replies":             strings.Repeat("+OK\r\n", 1000),
		"negative string":          "$-5\r\n",
		"negative list":            "*-7\r\n",
		"negative map":             "%-1\r\n",
		"negative set":             "~-3\r\n",
		"negative verbatim":        "=-2\r\n",
		"negative error":           "!-9\r\n",
		"minus zero":               "$-0\r\n\r\n",
		"huge string":              "$9223372036854775807\r\n",
		"huge list":                "*9223372036854775807\r\n",
		"huge map":                 "%4611686018427387904\r\n",
		"huge set":                 "~9223372036854775800\r\n",
		"more digits than fit":     "$99999999999999999999999999\r\n",
		"large string":             "$200000000000\r\n",
		"large list":               "*100000000000\r\n",
		"large map":                "%50000000000\r\n",
		"large lists":              strings.Repeat("*900000\r\n", 20),
		"deep lists":               deep,
		"deep maps":                strings.ReplaceAll(deep[:8_000_000], "*1\r\n", "%1\r\n:1\r\n"),
		"deep sets":                strings.ReplaceAll(deep, "*", "~"),
		"attributes":               strings.Repeat("|1\r\n+a\r\n+b\r\n", 1000) + ":1\r\n",
		"deep attributes":          strings.Repeat("|1\r\n", 4_000_000),
		"string in parts":          "$?\r\n;4\r\nabcd\r\n;-3\r\n",
		"large string in parts":    "$?\r\n;200000000000\r\n",
		"list without an end":      "*?\r\n:1\r\n",
		"end of no list":           ".\r\n",
		"confirmation":             ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n:1\r\n",
		"short push":               ">1\r\n$10\r\ninvalidate\r\n:1\r\n",
		"empty push":               ">0\r\n:1\r\n",
		"push inside":              "*2\r\n>2\r\n$7\r\nmessage\r\n$1\r\na\r\n:1\r\n",
		"line without return":      "+OK\n",
		"long truth":               "#true\r\n",
		"long nothing":             "_nothing\r\n",
		"no type":                  "\r\n",
		"zero":                     "\x00\x00\x00\x00",
		"another protocol":         "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"length that is no number": "$12a\r\n",
		"length without digits":    "$\r\n",
		"length with a sign":       "$+5\r\nhello\r\n",
		"half a string":            "$100\r\nabc",
		"half a list":              "*3\r\n:1\r\n",
		"endless line":             "+" + strings.Repeat("x", 20<<20),
		"endless length":           "$" + strings.Repeat("0", 20<<20),
		"redirection to nowhere":   "-MOVED\r\n",
		"redirection":              "-ASK 99999999999 \r\n",
		"empty error":              "-\r\n",
		"unasked unsubscription":   "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n",
		"confirmation of nothing":  "*3\r\n$9\r\nsubscribe\r\n$-1\r\n:0\r\n",
		"list in a list":           "*3\r\n*1\r\n:1\r\n$1\r\nc\r\n:1\r\n",
	}
}

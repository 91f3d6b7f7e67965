package redistest

import (
	"net"
	"strings"
	"testing"
)

// Accept calls serve for each connection to a new address, in a goroutine of its own, until
// the test ends. It returns the address. The connection is closed when serve returns.
func Accept(tb testing.TB, serve func(net.Conn)) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// Answer starts a server that sends what reply returns for each command, whose first word is
// in upper case. An empty reply closes the connection. Answer returns the address.
func Answer(tb testing.TB, reply func(words []string) string) string {
	tb.Helper()
	return Accept(tb, func(conn net.Conn) {
		for r := newFrameReader(conn); ; {
			f, err := r.next()
			words := f.words()
			if err != nil || len(words) == 0 {
				return
			}
			words[0] = strings.ToUpper(words[0])
			text := reply(words)
			if _, err := conn.Write([]byte(text)); err != nil || text == "" {
				return
			}
		}
	})
}

package redistest

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// adminTimeout limits one command, so that a test that talks to a paused server
// fails instead of hanging.
const adminTimeout = time.Minute

// admin is a plain client on a connection of its own, dialled when it is first
// needed.
type admin struct {
	addr  string
	login *url.Userinfo // nil if the server needs none
	tls   *tls.Config   // nil without TLS

	mu     sync.Mutex
	conn   net.Conn
	frames *frameReader
}

// do runs one command. The connection may have been closed by the server since
// it was last used; then the command is sent once more on a new one.
func (a *admin) do(args ...string) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reused := a.conn != nil
	value, err := a.attempt(args)
	if reused && disconnected(err) {
		value, err = a.attempt(args)
	}
	return value, err
}

func (a *admin) attempt(args []string) (any, error) {
	if a.conn == nil {
		if err := a.dial(); err != nil {
			return nil, err
		}
	}
	return a.exchange(args)
}

func (a *admin) dial() error {
	dialer := &net.Dialer{Timeout: adminTimeout}
	var conn net.Conn
	var err error
	if a.tls != nil {
		conn, err = tls.DialWithDialer(dialer, "tcp", a.addr, a.tls)
	} else {
		conn, err = dialer.Dial("tcp", a.addr)
	}
	if err != nil {
		return err
	}
	a.conn, a.frames = conn, newFrameReader(conn)
	if a.login == nil {
		return nil
	}
	auth := []string{"AUTH"}
	if name := a.login.Username(); name != "" {
		auth = append(auth, name)
	}
	password, _ := a.login.Password()
	_, err = a.exchange(append(auth, password))
	return err
}

// exchange sends a command and reads its reply. It closes the connection after a
// failure, because a late reply would be taken for that of the next command.
func (a *admin) exchange(args []string) (any, error) {
	err := a.conn.SetDeadline(time.Now().Add(adminTimeout))
	if err == nil {
		_, err = a.conn.Write(appendCommand(nil, args...))
	}
	var reply frame
	if err == nil {
		reply, err = a.frames.next()
	}
	if err != nil {
		a.conn.Close()
		a.conn = nil
		return nil, err
	}
	if err, ok := reply.value.(replyError); ok {
		return nil, err
	}
	return reply.value, nil
}

func (a *admin) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// disconnected reports whether err means that the peer closed the connection
// without an answer.
func disconnected(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

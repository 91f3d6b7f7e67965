package rueidis

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A Peer is the server of a new connection. Config.Credentials gets it.
type Peer struct {
	Addr     string // host:port, or the path of a socket
	Sentinel bool   // the server is a sentinel
}

// A credentialsError is the failure of Config.Credentials. Its text does not
// contain the text of the cause, since that may contain a secret.
type credentialsError struct {
	addr  string
	text  string
	cause error // nil if there is none
}

func (e *credentialsError) Error() string {
	return fmt.Sprintf("no credentials for %s: Config.Credentials %s", e.addr, e.text)
}

func (e *credentialsError) Unwrap() error { return e.cause }

// maxLogins limits how many calls of Config.Credentials run at the same time for
// one server. A call that ignores its context may run forever.
const maxLogins = 16

// credentials returns the user and the password for a new connection. If
// Config.Credentials does not return within the dial timeout, only this
// connection fails.
func (n *node) credentials(ctx context.Context) (username string, password Secret, err error) {
	if n.c.Credentials == nil {
		return n.c.Username, n.c.Password, nil
	}
	if n.logins.Add(1) > maxLogins {
		n.logins.Add(-1)
		return "", "", n.noCredentials(fmt.Sprintf("has not returned from %d earlier calls", maxLogins), nil)
	}
	type answer struct {
		username string
		password Secret
		err      error
	}
	ctx, cancel := context.WithTimeout(ctx, n.c.DialTimeout)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil { // the value may contain a secret
				a = answer{err: n.noCredentials(fmt.Sprintf("panicked with a value of type %T", v), nil)}
			}
			n.logins.Add(-1)
			answers <- a
		}()
		a.username, a.password, a.err = n.c.Credentials(ctx, Peer{n.addr, n.sentinel})
		if a.err != nil {
			a = answer{err: n.noCredentials(fmt.Sprintf("failed with an error of type %T; "+
				"the text is not shown, since it may contain a secret: log it in that function", a.err), a.err)}
		}
	}()
	select {
	case a := <-answers:
		return a.username, a.password, a.err
	case <-ctx.Done():
		if n.life.Err() != nil {
			return "", "", errReplaced
		}
		return "", "", n.noCredentials(fmt.Sprintf("did not return within %v", n.c.DialTimeout), nil)
	}
}

func (n *node) noCredentials(text string, cause error) error {
	return driver.Unsent(&credentialsError{n.addr, text, cause})
}

// redialGap is the minimum age of a connection that redial closes.
const redialGap = time.Second

// redial closes the connections to the server, so that the next one resolves the
// host name again and logs in again.
func (n *node) redial() {
	c := n.conn.Load()
	if c == nil || !c.ready.Load() || time.Since(c.since) < redialGap {
		return
	}
	_ = c.Close() // before the others: it begins to reconnect
	n.newEra()
}

// roleEvery is how often a server with a host name is asked whether it is still
// a master.
const roleEvery = 5 * time.Second

// hasName reports whether the server is known by a host name only, which may
// move to another server.
func (n *node) hasName() bool {
	host, _, err := net.SplitHostPort(n.addr)
	_, notIP := netip.ParseAddr(host)
	return n.c.Mode == Single && n.c.Network == "tcp" && err == nil && notIP != nil
}

// newEra closes all connections that were opened in the last era, except those
// for subscriptions.
func (n *node) newEra() {
	ctx, end := context.WithCancel(n.gone)
	if old := n.era.Swap(&era{ctx, end}); old != nil {
		old.end()
	}
}

// An era ends when the connections that were opened in it must be closed.
type era struct {
	ctx context.Context
	end context.CancelFunc
}

// replied handles an error reply and returns its error. Some replies say that
// another connection may work.
func (n *node) replied(err error) error {
	code := driver.CodeOf(err)
	login := n.c.Credentials != nil && (code == "NOAUTH" || code == "WRONGPASS")
	if login && code == "NOAUTH" || code == "READONLY" && n.c.Mode == Single {
		n.redial() // the login has expired, or the host name may belong to another server by now
	}
	if login { // later credentials may work, and the server has not run the command
		return &driver.Error{Class: driver.Definite, Code: code, Err: fmt.Errorf("the server rejects what Config.Credentials returned: %w", err)}
	}
	return err
}

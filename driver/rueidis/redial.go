package rueidis

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

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
	n.eras.next()
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

// An era ends when the connections that were opened in it must be closed. This
// does not include those for subscriptions.
type era struct {
	ctx context.Context
	end context.CancelFunc
}

// eras are the eras of a node.
type eras struct {
	node    era // ends last: rueidis does not close a connection that it opens while it is being closed
	current atomic.Pointer[era]
}

func (e *eras) begin() {
	e.node.ctx, e.node.end = context.WithCancel(context.Background())
	e.next()
}

// next ends the current era, and begins another one.
func (e *eras) next() {
	ctx, end := context.WithCancel(e.node.ctx)
	if old := e.current.Swap(&era{ctx, end}); old != nil {
		old.end()
	}
}

// close ends all eras.
func (e *eras) close() { e.node.end() }

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

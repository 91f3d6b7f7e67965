package redistest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	replyTimeout = 60 * time.Second
	silence      = 60 * time.Millisecond
)

// client is a connection that hides nothing from the test.
type client struct {
	t      *testing.T
	conn   net.Conn
	frames redistest.FrameReader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, frames: redistest.NewFrameReader(conn)}
}

func (c *client) send(args ...string) {
	c.t.Helper()
	c.pipeline(args)
}

// pipeline sends several commands in one write, which a connection that is cut
// because of one of them cannot split.
func (c *client) pipeline(cmds ...[]string) {
	c.t.Helper()
	var buf []byte
	for _, cmd := range cmds {
		buf = redistest.AppendCommand(buf, cmd...)
	}
	if _, err := c.conn.Write(buf); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next frame that comes within d.
func (c *client) read(d time.Duration) (byte, any, error) {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		c.t.Fatal(err)
	}
	return c.frames.Next()
}

// want reads one frame and compares its value.
func (c *client) want(want any) {
	c.t.Helper()
	_, got, err := c.read(replyTimeout)
	if err != nil {
		c.t.Fatalf("reply: %v, want %v", err, want)
	}
	if err, ok := got.(error); ok {
		got = err.Error()
	}
	if !reflect.DeepEqual(got, want) {
		c.t.Fatalf("reply %#v, want %#v", got, want)
	}
}

// call runs a command and compares its reply.
func (c *client) call(want any, args ...string) {
	c.t.Helper()
	c.send(args...)
	c.want(want)
}

// hello switches to RESP3.
func (c *client) hello() {
	c.t.Helper()
	c.send("HELLO", "3")
	if kind, value, err := c.read(replyTimeout); err != nil || kind != '%' {
		c.t.Fatalf("HELLO 3: %c %v, %v", kind, value, err)
	}
}

// wantSilence checks that nothing comes, not even the end of the connection.
func (c *client) wantSilence() {
	c.t.Helper()
	if _, value, err := c.read(silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("reply %v, %v while nothing may come", value, err)
	}
}

// wantEnd checks that the connection ends without another frame.
func (c *client) wantEnd() {
	c.t.Helper()
	_, value, err := c.read(replyTimeout)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("reply %v, %v, want the end of the connection", value, err)
	}
}

// wantRefused checks that a new connection ends at once. The end may come
// before the client has noticed that it is connected.
func wantRefused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err != nil {
		return
	}
	defer conn.Close()
	c := &client{t: t, conn: conn, frames: redistest.NewFrameReader(conn)}
	c.wantEnd()
}

// await fails the test unless ch is closed or receives soon.
func await[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(replyTimeout):
		t.Fatalf("%s: not in time", what)
		panic("unreachable")
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !redistest.Poll(replyTimeout, ok) {
		t.Fatalf("%s: not in time", what)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

var keys atomic.Int64

// key returns a new key. The name of the test alone would not be unique,
// because a test may run several times against the shared server.
func key(t *testing.T) string { return fmt.Sprintf("%s:%d", t.Name(), keys.Add(1)) }

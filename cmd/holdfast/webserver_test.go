package main

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/dashboard"
)

// TestCheckHosts checks when the names of hosts are needed, and what they may be.
func TestCheckHosts(t *testing.T) {
	for _, c := range []struct {
		insecure, allowBreak bool
		hosts                []string
		good                 bool
	}{
		{false, false, nil, true},
		{false, true, nil, true},
		{true, false, nil, true},
		{true, true, nil, false},
		{true, true, []string{"locks.example"}, true},
		{true, true, []string{"192.0.2.7"}, true},
		{true, true, []string{""}, false},
		{false, false, []string{"http://locks.example"}, false},
	} {
		if err := checkHosts(dashboard.Options{AllowBreak: c.allowBreak, Hosts: c.hosts}, c.insecure); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A pipe is a listener whose connections are in memory, so that their time can be faked.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipe) Close() error   { close(p.closed); return nil }
func (p pipe) Addr() net.Addr { return &net.TCPAddr{} }

// TestIdleConnections checks that the server of the dashboard closes connections whose
// client sends nothing, half a request, or reads nothing.
func TestIdleConnections(t *testing.T) {
	const get, post = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
	for name, sent := range map[string]string{"nothing": "", "half a header": "GET / HTTP/1.1\r\nHost:", "half a body": post + "x", "one request": get, "two requests": get + get} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipe{make(chan net.Conn), make(chan struct{})}
				s := webServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(w, r.Body)
				}))
				go func() { _ = s.Serve(l) }()
				defer func() { _ = s.Close() }()
				client, server := net.Pipe()
				defer func() { _ = client.Close() }()
				l.conns <- server
				go func() { _, _ = io.WriteString(client, sent) }()
				start := time.Now()
				_ = client.SetReadDeadline(start.Add(time.Hour))
				if _, err := io.Copy(io.Discard, client); err != nil {
					t.Errorf("still open after %v: %v", time.Since(start), err)
				}
			})
		})
	}
	t.Run("a client that reads nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := pipe{make(chan net.Conn), make(chan struct{})}
			ended := make(chan error, 1)
			s := webServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(make([]byte, 1<<20))
				ended <- err
			}))
			go func() { _ = s.Serve(l) }()
			defer func() { _ = s.Close() }()
			client, server := net.Pipe()
			defer func() { _ = client.Close() }()
			l.conns <- server
			go func() { _, _ = io.WriteString(client, get) }()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the response was written")
				}
			case <-time.After(time.Hour):
				t.Error("the handler still writes")
			}
		})
	})
}

package deploy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// names is the DNS server of this package. It has a record for each name that a
// test has set. All answers have a TTL of zero.
var names nameServer

type nameServer struct {
	addr string
	mu   sync.Mutex
	ips  map[string]net.IP
}

// start answers on a local port and makes this process use it.
func (d *nameServer) start() error {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.addr, d.ips = conn.LocalAddr().String(), make(map[string]net.IP)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", d.addr)
	}}
	go func() {
		for b := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(d.answer(b[:n]), from)
		}
	}()
	return nil
}

// answer returns the reply to a query with one question.
func (d *nameServer) answer(query []byte) []byte {
	const header, typeA = 12, 1
	name, end := "", header
	for query[end] != 0 {
		next := end + 1 + int(query[end])
		name += string(query[end+1:next]) + "."
		end = next
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	end += 5 // the end of the name, the type and the class
	d.mu.Lock()
	ip := d.ips[name]
	d.mu.Unlock()
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[header:end]...)
	switch {
	case ip == nil:
		reply[3] |= 3 // no such name
	case kind == typeA:
		reply[7] = 1
		reply = append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
		reply = append(reply, ip.To4()...)
	}
	return reply
}

func (d *nameServer) set(name string, ip net.IP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ips[name+"."] = ip
}

// A place is an address at which a server can be reached, beside its own.
type place struct {
	*redistest.Server
	ip net.IP
}

// places returns addresses for servers that differ in the IP only.
func places(t *testing.T, servers ...*redistest.Server) (all []place, port string) {
	t.Helper()
	port = "0"
	for i, s := range servers {
		ip := net.IPv4(127, 77, 0, byte(1+i))
		l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), port))
		if err != nil {
			t.Skipf("this test needs several loopback addresses: %v", err)
		}
		t.Cleanup(func() { _ = l.Close() })
		port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		go relay(l, s.Addr())
		all = append(all, place{s, ip})
	}
	return all, port
}

// relay connects what connects to l with a server.
func relay(l net.Listener, addr string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			s, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer s.Close()
			go func() {
				defer s.Close()
				_, _ = io.Copy(s, c)
			}()
			_, _ = io.Copy(c, s)
		}()
	}
}

// quickly makes a replica get its data at once.
var quickly = []string{"--repl-diskless-sync-delay", "0"}

// After a failover, the host name belongs to another server. Clients notice it
// when the old server ends, and when it refuses writes as a replica.
func TestNameMoves(t *testing.T) {
	for name, tt := range map[string]struct {
		replicated bool // the new server has the data of the old one
		demoted    bool // the old server goes on, as a replica of the new one
		mode       holdfast.ReplicationMode
	}{
		"killed, with data":           {replicated: true, mode: holdfast.Async},
		"killed, without data":        {mode: holdfast.Async},
		"demoted, with data":          {replicated: true, demoted: true, mode: holdfast.Async},
		"demoted, without data":       {demoted: true, mode: holdfast.Async},
		"demoted, acked, with data":   {replicated: true, demoted: true, mode: holdfast.Acked},
		"demoted, acked without data": {demoted: true, mode: holdfast.Acked},
	} {
		t.Run(name, func(t *testing.T) {
			at, port := places(t, redistest.Start(t, quickly...), redistest.Start(t, quickly...))
			before, after := at[0], at[1]
			replicate := func(s, of place) {
				host, port, _ := net.SplitHostPort(of.Addr())
				s.Do(t, "REPLICAOF", host, port)
				locktest.Eventually(t, patience, "a replica", func() bool {
					return strings.Contains(s.Do(t, "INFO", "replication").(string), "master_link_status:up") &&
						strings.Contains(of.Do(t, "INFO", "replication").(string), "state=online")
				})
			}
			if tt.replicated {
				replicate(after, before)
			}
			const host = "cache.holdfast.test"
			names.set(host, before.ip)
			url := "redis://" + net.JoinHostPort(host, port)
			holder, waiter := openIn(t, url, tt.mode), openIn(t, url, tt.mode)
			held := locktest.Lock(t, t.Context(), holder.Mutex("m"))
			w := wait(t.Context(), waiter.Mutex("m"))
			locktest.Eventually(t, patience, "a waiter", func() bool { return subscribers(t, before) == 1 })

			if tt.replicated {
				locktest.Eventually(t, patience, "the lock at the replica", func() bool { return after.Int(t, "EXISTS", "m") == 1 })
			}
			names.set(host, after.ip)
			if tt.replicated {
				after.Do(t, "REPLICAOF", "NO", "ONE")
			}
			if tt.demoted {
				replicate(before, after)
			} else {
				before.Kill()
			}
			if !tt.replicated {
				select {
				case <-held.Context().Done():
				case <-t.Context().Done():
				}
				var lost *holdfast.LostError
				if err := context.Cause(held.Context()); !errors.As(err, &lost) ||
					lost.Reason != holdfast.LossFailover && (!tt.demoted || lost.Reason != holdfast.LossNotOwner) { // a replica says that it does not know the lease
					t.Errorf("%v, want a lease lost in a failover", err)
				}
				w.granted(t)
				return
			}
			renewed(t, held)
			locktest.Eventually(t, patience, "a subscription at the new server", func() bool { return subscribers(t, after) == 1 })
			locktest.Release(t, held)
			locktest.Release(t, w.granted(t))
		})
	}
}

// subscribers returns how many connections of clients a server has for messages.
func subscribers(t *testing.T, s place) int64 {
	var n int64
	for _, c := range s.Strings(t, "PUBSUB", "CHANNELS") {
		n += s.Do(t, "PUBSUB", "NUMSUB", c).([]any)[1].(int64)
	}
	return min(n, 1)
}

package redistest_test

import (
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// proxied returns the shared server and a proxy in front of it.
func proxied(t *testing.T) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	redistest.CheckGoroutines(t)
	s := redistest.Shared(t)
	return s, redistest.NewProxy(t, s.Addr())
}

func TestProxyForwardsAndCounts(t *testing.T) {
	_, p := proxied(t)
	c := dial(t, p.Addr())
	k := key(t)
	c.send("set", k, "v")
	c.send("GET", k)
	c.send("GET", k+"none")
	c.send("NOSUCH")
	c.want("OK")
	c.want("v")
	c.want(nil)
	if _, value, err := c.read(replyTimeout); err != nil || reflect.TypeOf(value).Kind() != reflect.String {
		t.Errorf("NOSUCH: %v, %v", value, err)
	}
	if got, want := p.Commands(), (map[string]int{"SET": 1, "GET": 2, "NOSUCH": 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("commands %v, want %v", got, want)
	}
	if p.Count("get") != 2 || p.Total() != 4 {
		t.Errorf("GET counted %d times, total %d", p.Count("get"), p.Total())
	}
	p.ResetCounts()
	if p.Total() != 0 {
		t.Errorf("total %d after ResetCounts", p.Total())
	}
	if want := "redis://" + p.Addr(); p.URL() != want {
		t.Errorf("URL %q, want %q", p.URL(), want)
	}
}

func TestProxyForwardsEnds(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := dial(t, p.Addr())
	c.call("PONG", "PING")
	clients := func() int { return strings.Count(s.Do(t, "CLIENT", "LIST").(string), "\n") }
	if n := clients(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	c.conn.Close()
	eventually(t, "server sees the end", func() bool { return clients() == 1 })

	c = dial(t, p.Addr())
	c.call("PONG", "PING")
	s.Kill()
	c.wantEnd()
	wantRefused(t, p.Addr())
	s.Restart()
	c = dial(t, p.Addr())
	c.call("PONG", "PING")
}

func TestProxyPubSub(t *testing.T) {
	for _, resp3 := range []bool{false, true} {
		t.Run(map[bool]string{false: "RESP2", true: "RESP3"}[resp3], func(t *testing.T) {
			s, p := proxied(t)
			a, b, k := key(t), key(t), key(t)
			c := dial(t, p.Addr())
			pong := any([]any{"pong", ""})
			if resp3 {
				c.hello()
				pong = "PONG"
			}
			publish := func(channel, text string) {
				t.Helper()
				if n := s.Int(t, "PUBLISH", channel, text); n == 0 {
					t.Fatal("no subscriber")
				}
			}
			c.send("SUBSCRIBE", a, b)
			c.want([]any{"subscribe", a, int64(1)})
			c.want([]any{"subscribe", b, int64(2)})
			publish(a, "one")
			c.want([]any{"message", a, "one"})

			p.DropMessages(true)
			publish(a, "two")
			publish(b, "two")
			c.call([]any{"psubscribe", "none", int64(3)}, "PSUBSCRIBE", "none")
			c.call(pong, "PING")
			p.DropMessages(false)
			publish(b, "three")
			c.want([]any{"message", b, "three"})

			// Pairing is still right: the reply of PING is the one held.
			arrived, release := p.HoldReply(redistest.Command("PING"))
			publish(a, "four")
			c.want([]any{"message", a, "four"})
			if closed(arrived) {
				t.Error("a message was taken for a reply")
			}
			c.send("UNSUBSCRIBE")
			c.read(replyTimeout)
			c.read(replyTimeout)
			c.call([]any{"punsubscribe", "none", int64(0)}, "PUNSUBSCRIBE")
			if closed(arrived) {
				t.Error("a confirmation was taken for a reply")
			}
			c.send("PING")
			await(t, arrived, "reply of PING")
			c.wantSilence()
			release()
			c.want("PONG")

			c.call(int64(3), "RPUSH", k, "message", a, "five")
			p.DropMessages(true)
			c.call([]any{"message", a, "five"}, "LRANGE", k, "0", "-1")
			p.DropMessages(false)

			dropped := p.DropReply(1, redistest.Command("SUBSCRIBE"))
			c.send("SUBSCRIBE", a, b)
			c.wantEnd()
			await(t, dropped, "DropReply of SUBSCRIBE")
		})
	}
}

func TestProxyGarbage(t *testing.T) {
	_, p := proxied(t)
	c := dial(t, p.Addr())
	if _, err := c.conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	c.wantEnd()
}

// TestProxyUnderLoad cuts connections that are in use, for the race detector.
func TestProxyUnderLoad(t *testing.T) {
	_, p := proxied(t)
	stop, ended := make(chan struct{}), make(chan struct{})
	for range 4 {
		go func() {
			defer func() { ended <- struct{}{} }()
			for !closed(stop) {
				conn, err := net.Dial("tcp", p.Addr())
				if err != nil {
					continue
				}
				frames := redistest.NewFrameReader(conn)
				for !closed(stop) {
					if _, err = conn.Write(redistest.AppendCommand(nil, "PING")); err == nil {
						_, _, err = frames.Next()
					}
					if err != nil {
						break
					}
				}
				conn.Close()
			}
		}()
	}
	for i := range 30 {
		eventually(t, "traffic", func() bool { return p.Count("PING") > 20*i })
		p.Freeze()
		total := p.Total()
		p.DropReply(1, redistest.Command("PING"))
		if p.Total() != total {
			t.Error("a command passed the frozen proxy")
		}
		p.Thaw()
		p.Cut()
	}
	close(stop)
	for range 4 {
		<-ended
	}
}

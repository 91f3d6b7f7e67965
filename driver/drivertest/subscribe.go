package drivertest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func cut(addr string) (host, port string, err error) { return net.SplitHostPort(addr) }

func testSubscribe(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	h := NewRecorder()
	l := d.Listen(h)
	l.Subscribe("a")
	h.Want(t, "+a")
	l.Subscribe("b")
	h.Want(t, "+b")
	if _, err := d.Do(t.Context(), call(shout, "a", "hello")); err != nil {
		t.Fatal(err)
	}
	h.Want(t, "a:hello")
	// Subscribing to a channel again confirms it again.
	l.Subscribe("a")
	h.Want(t, "+a")
	// A subscription does not affect commands.
	if _, err := d.Do(t.Context(), call(incr, "k")); err != nil {
		t.Fatal(err)
	}
	l.Unsubscribe("a")
	waitChannels(t, s, 1)
	l.Unsubscribe("b")
	waitChannels(t, s, 0)
}

func waitChannels(t *testing.T, s *redistest.Server, n int) {
	t.Helper()
	if !redistest.Poll(20*time.Second, func() bool { return len(s.Channels(t)) == n }) {
		t.Fatalf("%d channels at the server, want %d", len(s.Channels(t)), n)
	}
}

// Ten thousand channels work without tuning, and share a few connections.
func testSubscribeMany(t *testing.T, open Open) {
	const n = 10_000
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	l := d.Listen(NewRecorder())
	for i := range n {
		l.Subscribe(fmt.Sprint("c", i))
	}
	waitChannels(t, s, n)
	if list := s.Do(t, "CLIENT", "LIST").(string); strings.Count(list, "\n") > 10 {
		t.Errorf("%d connections for %d channels", strings.Count(list, "\n"), n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	waitChannels(t, s, 0)
}

// After a broken connection every channel is confirmed again, in a new
// generation, and messages arrive.
func testResubscribe(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	h := NewRecorder()
	l := d.Listen(h)
	l.Subscribe("a", "b")
	h.Want(t, "+a")
	shoutUntilHeard := func() {
		t.Helper()
		s.Do(t, "PUBLISH", "a", "x")
		h.Want(t, "a:x")
	}
	shoutUntilHeard()
	for range 3 {
		before := h.Generation("a")
		p.Cut()
		h.Want(t, "-a")
		h.Want(t, "+a")
		if now := h.Generation("a"); now <= before {
			t.Errorf("generation %d after %d", now, before)
		}
		shoutUntilHeard()
	}
	before := h.Generation("a")
	p.Refuse(true)
	p.Cut()
	h.Want(t, "-a")
	failed := p.Connections()
	if !redistest.Poll(15*time.Second, func() bool { return p.Connections() >= failed+3 }) {
		t.Fatal("the driver does not connect again")
	}
	l.Subscribe("c")
	p.Refuse(false)
	h.Want(t, "+c")
	if !redistest.Poll(15*time.Second, func() bool { return h.Generation("a") > before && h.Generation("c") > 0 }) {
		t.Fatal("two channels are not both confirmed")
	}
	shoutUntilHeard()
	s.Restart()
	h.Want(t, "-a")
	h.Want(t, "+a")
	shoutUntilHeard()
}

// A dead connection without a TCP reset is noticed within a few seconds.
func testHalfOpen(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	h := NewRecorder()
	d.Listen(h).Subscribe("a")
	h.Want(t, "+a")
	start := time.Now()
	p.Freeze()
	h.Want(t, "-a")
	if took := time.Since(start); took > 2*Timeout {
		t.Errorf("noticed after %v", took)
	}
	p.Thaw()
	h.Want(t, "+a")
}

// Limit creates the user "limited" with the password "secret" on the servers.
// The user may run all commands, but may subscribe only to channels that begin
// with "good".
func Limit(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		s.Do(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels", "&good*")
	}
}

// Forbidden checks that a refused channel does not affect the messages of other
// channels. The driver is connected as the user of [Limit]. The server s has
// the slot of "x". Messages are published with each of the commands.
func Forbidden(t *testing.T, d driver.Driver, s *redistest.Server, commands ...string) {
	const n = 100
	h := NewRecorder()
	l := d.Listen(h)
	refused := 0
	wait := func(events ...string) {
		t.Helper()
		for _, e := range h.WantAll(t, events...) {
			if e == "refused bad{x}" {
				refused++
			}
		}
	}
	shout := func(channel string) {
		t.Helper()
		var all []string
		for i := range n {
			for _, command := range commands {
				payload := fmt.Sprint(command, i)
				s.Do(t, command, channel, payload)
				all = append(all, channel+":"+payload)
			}
		}
		wait(all...)
	}
	l.Subscribe("good{x}", "bad{x}", "good1{x}")
	wait("+good{x}", "+good1{x}", "refused bad{x}")
	shout("good{x}")
	l.Subscribe("good2{x}")
	wait("+good2{x}")
	for range 2 {
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		wait("-good{x}", "+good{x}", "+good1{x}", "+good2{x}")
		shout("good{x}")
		shout("good2{x}")
	}
	if refused != 1 {
		t.Errorf("the refusal was reported %d times, want once", refused)
	}
	// The driver notices a permission that is granted later.
	s.Do(t, "ACL", "SETUSER", "limited", "&bad*")
	wait("+bad{x}")
	shout("bad{x}")
	l.Unsubscribe("good{x}", "bad{x}", "good1{x}", "good2{x}")
	waitChannels(t, s, 0)
	// It also notices that the permission is revoked: the server closes the connection.
	l.Subscribe("bad{x}", "good{x}")
	wait("+bad{x}", "+good{x}")
	s.Do(t, "ACL", "SETUSER", "limited", "resetchannels", "&good*")
	wait("-good{x}", "refused bad{x}", "+good{x}")
	shout("good{x}")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func testForbidden(t *testing.T, open Open) {
	s := redistest.Start(t)
	Limit(t, s)
	d := connect(t, open, "redis://limited:secret@"+s.Addr())
	Forbidden(t, d, s, "PUBLISH")
}

// BenchmarkChange subscribes and unsubscribes one channel beside others, after
// all of them were subscribed at once.
func BenchmarkChange(b *testing.B, open Open) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d, err := open(b.Context(), redistest.Start(b).URL())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = d.Close() }()
			h := make(confirmations, n)
			l := d.Listen(h)
			var all []string
			for i := range n {
				all = append(all, fmt.Sprint("c", i))
			}
			l.Subscribe(all...)
			for range n {
				<-h
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := fmt.Sprint("d", i%1000)
				l.Subscribe(c)
				<-h
				l.Unsubscribe(c)
			}
		})
	}
}

// confirmations receives the channels that were confirmed.
type confirmations chan string

func (c confirmations) Subscribed(channel string, _ uint64) { c <- channel }
func (confirmations) Message(string, string)                {}
func (confirmations) Lost([]string, error)                  {}

package drivertest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func cut(addr string) (host, port string, err error) { return net.SplitHostPort(addr) }

func testSubscribe(t *testing.T, open Open) {
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	h := newHandler()
	l := d.Listen(h)
	l.Subscribe("a")
	h.want(t, "+a")
	l.Subscribe("b")
	h.want(t, "+b")
	if _, err := d.Do(t.Context(), call(shout, "a", "hello")); err != nil {
		t.Fatal(err)
	}
	h.want(t, "a:hello")
	// Asking again for a channel that is there confirms it again.
	l.Subscribe("a")
	h.want(t, "+a")
	// Commands are not disturbed by a subscription.
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
	for range 2000 {
		if len(s.Channels(t)) == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d channels at the server, want %d", len(s.Channels(t)), n)
}

// Ten thousand channels need no tuning, and no connection each.
func testSubscribeMany(t *testing.T, open Open) {
	const n = 10_000
	s := redistest.Start(t)
	d := connect(t, open, s.URL())
	l := d.Listen(newHandler())
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
	h := newHandler()
	l := d.Listen(h)
	l.Subscribe("a", "b")
	h.want(t, "+a")
	shoutUntilHeard := func() {
		t.Helper()
		s.Do(t, "PUBLISH", "a", "x")
		h.want(t, "a:x")
	}
	shoutUntilHeard()
	for range 3 {
		before := h.generation("a")
		p.Cut()
		h.want(t, "lost")
		h.want(t, "+a")
		if now := h.generation("a"); now <= before {
			t.Errorf("generation %d after %d", now, before)
		}
		shoutUntilHeard()
	}
	before := h.generation("a")
	p.Refuse(true)
	p.Cut()
	h.want(t, "lost")
	time.Sleep(200 * time.Millisecond) // long enough to fail a few times
	l.Subscribe("c")
	p.Refuse(false)
	h.want(t, "+c")
	for end := time.Now().Add(15 * time.Second); h.generation("a") <= before || h.generation("c") == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("two channels are not both confirmed")
		}
	}
	shoutUntilHeard()
	s.Restart()
	h.want(t, "lost")
	h.want(t, "+a")
	shoutUntilHeard()
}

// A connection that is dead without a sign is noticed within a few seconds.
func testHalfOpen(t *testing.T, open Open) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, open, p.URL())
	h := newHandler()
	d.Listen(h).Subscribe("a")
	h.want(t, "+a")
	start := time.Now()
	p.Freeze()
	h.want(t, "lost")
	if took := time.Since(start); took > 2*Timeout {
		t.Errorf("noticed after %v", took)
	}
	p.Thaw()
	h.want(t, "+a")
}

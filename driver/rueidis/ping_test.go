package rueidis

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPingPlan(t *testing.T) {
	var p pingPlan
	var at []int
	for tick := range 120 {
		if tick == 80 {
			p.restart()
		}
		if p.due() {
			at = append(at, tick)
		}
	}
	if want := []int{0, 8, 38, 68, 80, 88, 118}; !slices.Equal(at, want) {
		t.Errorf("PING at the ticks %d, want %d", at, want)
	}
}

// A message begins the plan again: more may follow.
func TestPingAfterMessage(t *testing.T) {
	s := aSubscriber(t, 1)
	var p pingPlan
	for range 10 {
		s.pingDue(&p)
	}
	if s.pingDue(&p) {
		t.Fatal("PING at the eleventh tick")
	}
	s.handle("message", "c0", "", 1)
	if !s.pingDue(&p) {
		t.Error("no PING after a message")
	}
}

// A connection ends when a reply is overdue, although rueidis sends PING much later. One
// that is idle, or on which replies arrive, goes on.
func TestOverdueReply(t *testing.T) {
	const limit = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		checked := &checkedConn{Conn: near, forget: func() bool { return true }}
		c := &commandConn{Conn: checked, silence: newSilence(checked, limit)}
		defer c.Close()
		ping, pong := []byte("*1\r\n$4\r\nPING\r\n"), []byte("+PONG\r\n")
		send := func() {
			go func() { _, _ = io.ReadFull(far, make([]byte, len(ping))) }()
			if _, err := c.Write(ping); err != nil {
				t.Fatal(err)
			}
		}
		read := make(chan error)
		go func() {
			for {
				_, err := c.Read(make([]byte, 64))
				read <- err
				if err != nil {
					return
				}
			}
		}()
		for range 5 { // each reply is nearly overdue, and then the connection is idle
			send()
			time.Sleep(limit - time.Millisecond)
			if _, err := far.Write(pong); err != nil {
				t.Fatal(err)
			}
			if err := <-read; err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * limit)
		}
		for range 10 { // one reply is always owed, but replies arrive
			send()
			time.Sleep(limit / 3)
			send()
			if _, err := far.Write(pong); err != nil {
				t.Fatal(err)
			}
			if err := <-read; err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		err := <-read
		if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took < limit || took > 2*limit {
			t.Errorf("a silent connection: %v after %v", err, took)
		}
	})
}

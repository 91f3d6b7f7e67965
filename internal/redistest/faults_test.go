package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestProxyFreeze(t *testing.T) {
	s, p := proxied(t)
	k := key(t)
	before, gone := dial(t, p.Addr()), dial(t, p.Addr())
	before.call("PONG", "PING")
	gone.call("PONG", "PING")

	p.Freeze()
	after := dial(t, p.Addr())
	before.send("RPUSH", k, "a")
	before.send("RPUSH", k, "b")
	gone.send("RPUSH", k+"gone", "a")
	gone.conn.Close()
	after.send("PING")
	before.wantSilence()
	after.wantSilence()
	if n := s.Int(t, "EXISTS", k, k+"gone"); n != 0 {
		t.Error("a command passed the frozen proxy")
	}
	if n := p.Count("RPUSH"); n != 0 {
		t.Errorf("%d commands counted that were not forwarded", n)
	}

	p.Thaw()
	before.want(int64(1))
	before.want(int64(2))
	after.want("PONG")
	eventually(t, "command of the closed connection", func() bool { return s.Int(t, "EXISTS", k+"gone") == 1 })
}

func TestProxyFreezeReplies(t *testing.T) {
	s, p := proxied(t)
	k := key(t)
	c := dial(t, p.Addr())
	c.call("PONG", "PING")
	p.FreezeReplies()
	c.send("SET", k, "v")
	eventually(t, "execution", func() bool { return s.Int(t, "EXISTS", k) == 1 })
	c.wantSilence()
	p.Thaw()
	c.want("OK")
}

func TestProxyCutWhileFrozen(t *testing.T) {
	_, p := proxied(t)
	c := dial(t, p.Addr())
	c.call("PONG", "PING")
	p.Freeze()
	c.send("PING")
	p.Cut()
	c.wantEnd()
}

func TestProxyDelay(t *testing.T) {
	_, p := proxied(t)
	c := dial(t, p.Addr())
	const delay = 2 * time.Second // as long as a machine may stand still
	p.Delay(delay)
	begin := time.Now()
	for range 20 {
		c.send("PING")
	}
	for range 20 {
		c.want("PONG")
	}
	if d := time.Since(begin); d < delay || d > 10*delay {
		t.Errorf("20 pipelined replies took %v with a delay of %v", d, delay)
	}
	p.Delay(0)
	fastest := time.Hour
	for range 3 { // each may meet a machine that stands still
		begin = time.Now()
		c.call("PONG", "PING")
		fastest = min(fastest, time.Since(begin))
	}
	if fastest >= delay {
		t.Errorf("reply took %v without a delay", fastest)
	}
}

func TestProxyCutAndRefuse(t *testing.T) {
	_, p := proxied(t)
	a, b := dial(t, p.Addr()), dial(t, p.Addr())
	a.call("PONG", "PING")
	b.call("PONG", "PING")
	p.Refuse(true)
	a.call("PONG", "PING")
	p.Cut()
	a.wantEnd()
	b.wantEnd()
	wantRefused(t, p.Addr())
	p.Refuse(false)
	c := dial(t, p.Addr())
	c.call("PONG", "PING")
}

func TestProxyDropReply(t *testing.T) {
	s, p := proxied(t)
	k := key(t)
	second := p.DropReply(2, redistest.Command("incr"))
	third := p.DropReply(3, redistest.Command("INCR"))
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	other.call("PONG", "PING")
	c.pipeline([]string{"INCR", k}, []string{"PING"}, []string{"INCR", k}, []string{"PING"})
	c.want(int64(1))
	c.want("PONG")
	c.wantEnd()
	await(t, second, "DropReply of the second")
	if closed(third) {
		t.Error("the third reply was dropped too early")
	}
	if n := s.Int(t, "GET", k); n != 2 {
		t.Errorf("INCR ran %d times, want 2", n)
	}
	other.send("INCR", k)
	other.wantEnd()
	await(t, third, "DropReply of the third")
	c = dial(t, p.Addr())
	c.call(int64(4), "INCR", k)
}

func TestProxyDropReplyOfScript(t *testing.T) {
	s, p := proxied(t)
	sha := s.Do(t, "SCRIPT", "LOAD", "return redis.call('incr', KEYS[1])").(string)
	k := key(t)
	done := p.DropReply(1, redistest.Script(sha))
	c := dial(t, p.Addr())
	if _, err := s.Try("EVALSHA", strings.Repeat("0", 40), "0"); err == nil {
		t.Error("the server knows a script that was never loaded")
	} else {
		c.call(err.Error(), "EVALSHA", strings.Repeat("0", 40), "0")
	}
	c.send("evalsha", sha, "1", k)
	c.wantEnd()
	await(t, done, "DropReply")
	if n := s.Int(t, "GET", k); n != 1 {
		t.Errorf("the script ran %d times, want 1", n)
	}
}

func TestProxyHoldReply(t *testing.T) {
	s, p := proxied(t)
	k := key(t)
	arrived, release := p.HoldReply(redistest.Command("INCR"))
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	c.call("PONG", "PING")
	if closed(arrived) {
		t.Error("arrived before the command was sent")
	}
	c.send("INCR", k)
	c.send("PING")
	await(t, arrived, "the held reply")
	if n := s.Int(t, "GET", k); n != 1 {
		t.Errorf("INCR ran %d times, want 1", n)
	}
	c.wantSilence()
	other.call(int64(2), "INCR", k) // only one reply is held
	release()
	release()
	c.want(int64(1))
	c.want("PONG")

	_, release = p.HoldReply(redistest.Command("INCR"))
	release()
	c.call(int64(3), "INCR", k)
}

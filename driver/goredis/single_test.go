package goredis_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/goredis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestUnsupported(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for _, client := range []redis.UniversalClient{ring, (*redis.Client)(nil), nil} {
		var e *goredis.UnsupportedError
		if _, err := goredis.New(t.Context(), client); !errors.As(err, &e) {
			t.Errorf("%T: %v", client, err)
		}
	}
}

// The client would send a script again after a lost reply, and report what the
// second run returned.
func TestNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, call := range map[string]func(*goredis.Driver) error{
		"one": func(d *goredis.Driver) error {
			_, err := d.Do(t.Context(), addOne("k"))
			return err
		},
		"many": func(d *goredis.Driver) error {
			return d.DoMany(t.Context(), []driver.Call{addOne("k"), addOne("k")})[0].Err
		},
		"acked": func(d *goredis.Driver) error {
			return d.DoAcked(t.Context(), []driver.Call{addOne("k")}, 0, time.Second)[0].Err
		},
	} {
		p := redistest.NewProxy(t, s.Addr())
		d := connect(t, single(p.Addr()))
		for range 2 { // so that the server knows the script
			p.ResetCounts()
			if err := call(d); err != nil {
				t.Fatal(err)
			}
		}
		sent := p.Count("EVALSHA")
		p.ResetCounts()
		p.DropReply(1, redistest.Script(incr.SHA))
		err := call(d)
		if driver.ClassOf(err) != driver.Ambiguous {
			t.Errorf("%s: %v is %v", name, err, driver.ClassOf(err))
		}
		if n := p.Count("EVALSHA") + p.Count("EVAL"); n > sent || n == 0 {
			t.Errorf("%s: sent %d scripts, want %d", name, n, sent)
		}
		if p.Count("WAIT") > 0 {
			t.Errorf("%s: waited for what is not known to have run", name)
		}
	}
}

// A master is demoted while a call waits for its replicas. It does not keep
// the write, and it is unknown whether another server has it.
func TestDemotedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, single(s.Addr()))
	done := make(chan driver.Result, 1)
	go func() { done <- d.DoAcked(t.Context(), []driver.Call{addOne("k")}, 1, 20*time.Second)[0] }()
	locktest.Eventually(t, soon, "a client waits for replicas", func() bool {
		return strings.Contains(s.Do(t, "INFO", "clients").(string), "blocked_clients:1")
	})
	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	r := <-done
	if driver.CodeOf(r.Err) != "UNBLOCKED" || driver.ClassOf(r.Err) != driver.Ambiguous {
		t.Errorf("%+v is %v", r, driver.ClassOf(r.Err))
	}
}

func TestFullPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, redis.NewClient(&redis.Options{
		Addr: p.Addr(), PoolSize: 1, PoolTimeout: 100 * time.Millisecond, ReadTimeout: 10 * time.Second,
		MaintNotificationsConfig: unannounced(),
	}))
	p.Freeze()
	defer p.Thaw()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	go func() {
		_, err := d.Do(ctx, addOne("k"))
		first <- err
	}()
	var err error
	locktest.Eventually(t, soon, "no place in the pool", func() bool {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = d.Do(short, addOne("k"))
		return errors.Is(err, redis.ErrPoolTimeout)
	})
	if driver.ClassOf(err) != driver.Definite {
		t.Errorf("%v is %v", err, driver.ClassOf(err))
	}
	cancel()
	<-first
}

// A client that would wait for ever does not.
func TestNoReadTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, MaintNotificationsConfig: unannounced()}))
	s.Pause()
	defer s.Resume()
	start := time.Now()
	_, err := d.Do(context.Background(), addOne("k"))
	if took := time.Since(start); driver.ClassOf(err) != driver.Ambiguous || took > 15*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// The driver notices a new server at the same address with its first reply, and
// calls its watchers. A broken connection does not count as a new server.
func TestTerm(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	d := connect(t, single(p.Addr()))
	var told atomic.Int64
	stop := d.Watch(func() { told.Add(1) })
	do := func() {
		t.Helper()
		locktest.Eventually(t, soon, "an answer", func() bool {
			_, err := d.Do(t.Context(), addOne("k"))
			return err == nil
		})
	}
	do()
	before := d.Place("k")
	if before.Node != p.Addr() || before.Replicas != 0 || before.Term == 0 {
		t.Errorf("place: %+v", before)
	}
	p.Cut()
	do()
	if d.Place("k") != before || told.Load() != 0 {
		t.Errorf("a broken connection: %+v after %+v", d.Place("k"), before)
	}
	for range 3 {
		before = d.Place("k")
		s.Restart()
		do()
		if d.Place("k").Term <= before.Term {
			t.Errorf("another server has answered: %+v after %+v", d.Place("k"), before)
		}
	}
	locktest.Eventually(t, soon, "the watcher is called for three new servers", func() bool { return told.Load() >= 3 })
	stop()
	told.Store(0)
	before = d.Place("k")
	s.Restart()
	do()
	if d.Place("k").Term <= before.Term || told.Load() != 0 {
		t.Errorf("told %d times after the end", told.Load())
	}
}

// A driver that only listens notices a restart, without a call.
func TestTermIsNoticed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, single(s.Addr()))
	h := drivertest.NewRecorder()
	l := d.Listen(h)
	l.Subscribe("c")
	locktest.Eventually(t, soon, "subscribed", func() bool { return h.Seen("+c") > 0 })
	before := d.Place("k")
	s.Restart()
	locktest.Eventually(t, soon, "another term", func() bool { return d.Place("k").Term > before.Term })
	h.Check(t)
}

// The driver's end is not that of the client, and leaves nothing behind.
func TestCloseLeavesTheClient(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	client := single(p.Addr())
	defer client.Close()
	d, err := goredis.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h := drivertest.NewRecorder()
		l := d.Listen(h)
		l.Subscribe("a", "b")
		locktest.Eventually(t, soon, "subscribed", func() bool { return h.Seen("+b") > 0 })
	}
	calls := make(chan error, 50)
	for range cap(calls) {
		go func() {
			_, err := d.Do(t.Context(), addOne("k"))
			calls <- err
		}()
	}
	for range cap(calls) {
		if err := <-calls; err != nil {
			t.Error(err)
		}
	}
	p.FreezeReplies()
	go func() {
		_, err := d.Do(context.Background(), addOne("k"))
		calls <- err
	}()
	locktest.Eventually(t, soon, "the call is in flight", func() bool { return s.Int(t, "GET", "k") > int64(cap(calls)) })
	_ = d.Close()
	if err := <-calls; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a call at the end of the driver: %v", err)
	}
	p.Thaw()
	if n, err := client.Get(t.Context(), "k").Int(); err != nil || n < 50 {
		t.Errorf("the client after the driver: %d, %v", n, err)
	}
}

// A channel that is forbidden does not keep others from being heard.
func TestForbiddenChannel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, single(s.Addr()))
	s.Do(t, "ACL", "SETUSER", "default", "resetchannels", "&mine:*")
	h := drivertest.NewRecorder()
	l := d.Listen(h)
	l.Subscribe("yours:1")
	locktest.Eventually(t, soon, "refused", func() bool { return h.Seen("refused yours:1") > 0 })
	l.Subscribe("mine:1")
	locktest.Eventually(t, soon, "subscribed", func() bool { return h.Seen("+mine:1") > 0 })
	if h.Seen("-mine:1")+h.Seen("refused mine:1") > 0 {
		t.Error("one channel was lost for the other's sake")
	}
	s.Do(t, "ACL", "SETUSER", "default", "allchannels")
	locktest.Eventually(t, soon, "subscribed when allowed", func() bool { return h.Seen("+yours:1") > 0 })
	h.Check(t)
}

// A forged message on a subscription costs the connection, not the process.
// Lengths that no memory has room for are left out: go-redis makes them.
func TestForgedMessages(t *testing.T) {
	t.Parallel()
	for name, forged := range drivertest.Forgeries() {
		if strings.HasPrefix(name, "large") || strings.HasPrefix(name, "deep") || strings.HasPrefix(name, "endless") {
			continue
		}
		f := drivertest.NewForger(t, false, "SUBSCRIBE", forged)
		f.Mute = strings.HasPrefix(name, "half")
		d := connect(t, single(f.Addr().String()))
		h := drivertest.NewRecorder()
		l := d.Listen(h)
		f.Arm(true)
		l.Subscribe("c")
		if forged != "" && !f.Mute {
			locktest.Eventually(t, soon, name+": it is forged", func() bool { return f.Forged() > 0 })
		}
		f.Arm(false)
		l.Subscribe("d")
		locktest.Eventually(t, soon, name+": a channel is confirmed again", func() bool { return h.Seen("+d") > 0 })
		_ = l.Close()
		_ = d.Close()
	}
}

// A proxy that spreads keys over servers is refused.
func TestProxy(t *testing.T) {
	t.Parallel()
	client := single(redistest.Recorded["Predixy 1.0.5"].Play(t))
	t.Cleanup(func() { _ = client.Close() })
	d, err := goredis.New(t.Context(), client)
	var e *driver.SystemError
	if !errors.As(err, &e) || e.System != "Predixy" {
		t.Errorf("%v, %v", d, err)
	}
}

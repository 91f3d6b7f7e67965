package rueidis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/rueidis"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A server that runs a long script of another client answers every command with
// an error, also UNSUBSCRIBE. The program must survive that.
func TestUnsubscribeFromBusyServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--lua-time-limit", "50")
	for _, protocol := range []string{"3", "2"} {
		d := connect(t, with(t, s.URL(), "protocol", protocol))
		h := drivertest.NewRecorder()
		l := d.Listen(h)
		l.Subscribe("a", "b")
		h.Want(t, "+b")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.Try("EVAL", "local t = redis.call('time') local stop = t[1] + 2 repeat t = redis.call('time') until tonumber(t[1]) >= stop", "0")
		}()
		locktest.Eventually(t, patience, "the server is busy", func() bool {
			_, err := d.Do(t.Context(), addOne("k"))
			return driver.CodeOf(err) == "BUSY"
		})
		l.Unsubscribe("a")
		l.Subscribe("c")
		<-done
		h.Want(t, "+c")
		locktest.Eventually(t, patience, "the server has unsubscribed what it was busy for", func() bool { return len(s.Channels(t)) == 2 })
		s.Do(t, "PUBLISH", "c", "heard")
		h.Want(t, "c:heard")
		_ = l.Close()
	}
}

// A server that has too many clients turns new ones away in a way that answers
// no request. That is an error like any other, and goes away.
func TestCrowdedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := connect(t, s.URL())
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for range 8 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := d.Do(t.Context(), addOne("k")); driver.ClassOf(err) == driver.Fatal && err != nil {
					t.Errorf("crowded: %v", err)
				}
				for _, r := range d.DoAcked(t.Context(), []driver.Call{addOne("k")}, 1, time.Millisecond) {
					if r.Err != nil && driver.ClassOf(r.Err) == driver.Fatal {
						t.Errorf("crowded: %v", r.Err)
					}
				}
			}
		})
	}
	const pause = 20 * time.Millisecond
	locktest.Repeat(pause, pause, func() bool { return time.Now().Before(end) }, func(int) {
		<-redistest.Outage(pause, func() {
			s.Do(t, "CONFIG", "SET", "maxclients", "1")
			s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}, nil)
		s.Do(t, "CONFIG", "SET", "maxclients", "10000")
	})
	wg.Wait()
	locktest.Eventually(t, patience, "the server has room again", func() bool { // what it has hung up on may not be noticed yet
		_, err := d.Do(t.Context(), addOne("k"))
		return err == nil
	})
}

// A port that is not Redis's is told from a server that cannot be reached.
func TestNotRedis(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	says := func(greeting string) string {
		return redistest.Accept(t, func(conn net.Conn) {
			_, _ = conn.Write([]byte(greeting))
			_, _ = conn.Read(make([]byte, 100))
		})
	}
	for name, addr := range map[string]string{
		"http":      strings.TrimPrefix(web.URL, "http://"),
		"ssh":       says("SSH-2.0-OpenSSH_9.2\r\n"),
		"a letter":  says("commands?\r\n"),
		"TLS alert": says("\x15\x03\x01\x00\x02\x02\x28"),
	} {
		err := try(t, "redis://"+addr)
		if !errors.Is(err, driver.ErrNotRedis) || !strings.Contains(err.Error(), "the server does not speak the Redis protocol") || len(err.Error()) > 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A URL that leads to the wrong kind of server says which would be right.
func TestWrongServers(t *testing.T) {
	t.Parallel()
	one, another := redistest.Start(t), redistest.Start(t)
	closed := redistest.Start(t, "--requirepass", "secret")
	sentinels := redistest.StartSentinels(t)
	for url, want := range map[string]string{
		"redis://" + one.Addr() + "," + another.Addr():                     "both report that they are the master",
		"redis://" + sentinels.Addrs()[0]:                                  "is a sentinel: use redis-sentinel://",
		"redis-sentinel://" + one.Addr() + "?master_name=m":                "the server is not a sentinel",
		"redis-sentinel://" + sentinels.Addrs()[0] + "?master_name=nobody": "No such master",
		"redis-cluster://" + one.Addr():                                    "is not part of a cluster: use redis://",
		"redis://" + closed.Addr():                                         "requires a password",
		"redis://:wrong-secret@" + closed.Addr():                           "WRONGPASS",
	} {
		err := try(t, url)
		if driver.ClassOf(err) != driver.Fatal || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%s: %v (%v), want %q", url, err, driver.ClassOf(err), want)
		}
	}
}

// A forged reply costs a connection, not the process: the driver goes on when
// the server answers as it should.
func TestForgedReplies(t *testing.T) {
	t.Parallel()
	for _, stage := range []struct {
		at    string
		resp2 bool
	}{{"PING", false}, {"HELLO", false}, {"INFO", false}, {"EVALSHA", false}, {"EVALSHA", true}, {"SUBSCRIBE", false}} {
		t.Run(fmt.Sprint(stage.at, stage.resp2), func(t *testing.T) {
			t.Parallel()
			for name, forged := range drivertest.Forgeries() {
				f := drivertest.NewForger(t, stage.resp2, stage.at, forged)
				f.Mute = strings.HasPrefix(name, "half")
				meetForger(t, name, stage.at, stage.resp2, f)
			}
		})
	}
}

func meetForger(t *testing.T, name, at string, resp2 bool, f *drivertest.Forger) {
	t.Helper()
	c := rueidis.Config{Addr: f.Addr().String(), RESP2: resp2, Timeout: time.Second, DialTimeout: time.Second}
	open := func() (*rueidis.Driver, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return rueidis.Open(ctx, c)
	}
	f.Arm(at == "PING" || at == "HELLO" || at == "INFO")
	d, err := open()
	if f.Arm(false); err != nil {
		d, err = open()
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer d.Close()
	h := drivertest.NewRecorder()
	l := d.Listen(h)
	f.Arm(true)
	l.Subscribe("c")
	var calls sync.WaitGroup
	for i := range 6 {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*100*time.Millisecond)
			defer cancel()
			_, _ = d.Do(ctx, addOne("k"))
			d.DoMany(ctx, []driver.Call{addOne("k"), addOne("l")})
			if i == 0 {
				d.Facts(ctx)
			}
		})
	}
	calls.Wait()
	f.Arm(false)
	locktest.Eventually(t, patience, name+": calls succeed again", func() bool {
		r, err := d.Do(t.Context(), addOne("k"))
		return err == nil && len(r.List) == 3
	})
	l.Subscribe("d")
	h.Want(t, "+d")
}

package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/object"
)

// heard is what a loop over the events of an object gets.
type heard struct {
	object.Event
	err error
}

// listenTo runs such a loop. The channel is closed when it has ended.
func listenTo(ctx context.Context, o *object.Object) <-chan heard {
	ch := make(chan heard)
	go func() {
		defer close(ch)
		for ev, err := range o.Listen(ctx) {
			ch <- heard{ev, err}
		}
	}()
	return ch
}

// next returns what is heard next, or ends the test.
func next(tb testing.TB, ch <-chan heard) heard {
	tb.Helper()
	select {
	case h, ok := <-ch:
		if !ok {
			tb.Fatal("the loop has ended")
		}
		return h
	case <-time.After(20 * time.Second):
		tb.Fatal("nothing is heard")
		return heard{}
	}
}

func hears(tb testing.TB, ch <-chan heard, want object.EventKind, name string) {
	tb.Helper()
	if h := next(tb, ch); h.err != nil || h.Kind != want || h.Name != name {
		tb.Fatalf("heard %v, want %s of %s", h, want, name)
	}
}

// over waits until the loop has ended without another word.
func over(tb testing.TB, ch <-chan heard) {
	tb.Helper()
	select {
	case h, ok := <-ch:
		if ok {
			tb.Fatalf("heard %v", h)
		}
	case <-time.After(20 * time.Second):
		tb.Fatal("the loop goes on")
	}
}

// calm never looks without a reason.
var calm = holdfast.Options{PollInterval: time.Hour}

func TestListenWithoutEvents(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL())
	for setting, want := range map[string]string{
		"": "CONFIG SET notify-keyspace-events Kgx", "gx": "gxK", "KE$": "gx", "gE": "x", "xK": "g",
	} {
		s.Do(t, "CONFIG", "SET", "notify-keyspace-events", setting)
		ch := listenTo(t.Context(), object.Of(c.Semaphore("a")))
		if h := next(t, ch); !errors.Is(h.err, object.ErrNoEvents) || !strings.Contains(h.err.Error(), want) {
			t.Errorf("%q: %v", setting, h)
		}
		over(t, ch)
	}
	s.Do(t, "ACL", "SETUSER", "default", "-config")
	ch := listenTo(t.Context(), object.Of(c.Semaphore("a")))
	if h := next(t, ch); !errors.Is(h.err, object.ErrNoEvents) || !strings.Contains(h.err.Error(), "+config|get; this also shows passwords") {
		t.Errorf("without the right to ask: %v", h)
	}
	over(t, ch)
	if channels := s.Channels(t); len(channels) > 0 {
		t.Errorf("subscribed all the same: %v", channels)
	}
	without := redistest.StartWith(t, redistest.Args("--rename-command", "CONFIG", ""))
	ch = listenTo(t.Context(), object.Of(locktest.Open(t, without.URL()).Semaphore("a")))
	if h := next(t, ch); !errors.Is(h.err, object.ErrNoEvents) || strings.Contains(h.err.Error(), "ACL") || !strings.Contains(h.err.Error(), "must have CONFIG GET") {
		t.Errorf("without the command: %v", h)
	}
	over(t, ch)
	ch = listenTo(t.Context(), object.Of(c.Semaphore("a{")))
	if h := next(t, ch); !errors.Is(h.err, holdfast.ErrInvalid) {
		t.Errorf("bad name: %v", h)
	}
	over(t, ch)
}

func TestListen(t *testing.T) {
	t.Parallel()
	for setting, channel := range map[string]string{
		"Kgxe": "__keyspace@%d__:a", "gxeE": "__keyevent@%d__:expired", "AKE": "__keyspace@%d__:a",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := redistest.Fresh(t, "--notify-keyspace-events", setting)
			url, db := inDatabase(s, 5)
			c := locktest.Open(t, url, calm)
			sem := c.Semaphore("a")
			o := object.Of(sem)
			ctx, cancel := context.WithCancel(t.Context())
			ch := listenTo(ctx, o)
			if redistest.Topology() == "cluster" && !strings.Contains(setting, "K") { // any node may tell of any event
				if h := next(t, ch); !errors.Is(h.err, object.ErrNoEvents) {
					t.Errorf("heard %v", h)
				}
				cancel()
				return
			}
			locktest.AwaitListener(t, s, fmt.Sprintf(channel, db))
			set := func() {
				t.Helper()
				for _, sem := range []*holdfast.Semaphore{sem, c.Semaphore("another")} {
					got, err := sem.TrySet(ctx, 3, 0)
					yes(t, "set", got, err, true)
				}
				got, err := object.Of(c.Semaphore("another")).Delete(ctx) // which is of no concern
				yes(t, "delete another", got, err, true)
			}
			set()
			got, err := o.Delete(ctx)
			yes(t, "delete", got, err, true)
			hears(t, ch, object.EventDeleted, "a")
			set()
			got, err = o.Unlink(ctx)
			yes(t, "unlink", got, err, true)
			hears(t, ch, object.EventDeleted, "a")
			set()
			got, err = o.Expire(ctx, time.Millisecond)
			yes(t, "expire", got, err, true)
			hears(t, ch, object.EventExpired, "a")
			set()
			if err := o.Rename(ctx, "{a}b"); err != nil {
				t.Fatal(err)
			}
			hears(t, ch, object.EventMoved, "a")
			if db != 0 {
				set()
				got, err = o.Move(ctx, 6)
				yes(t, "move", got, err, true)
				hears(t, ch, object.EventMoved, "a")
			}
			cancel()
			over(t, ch)
			over(t, listenTo(ctx, o)) // not even begun
			locktest.Eventually(t, 10*time.Second, "no subscription left", func() bool { return len(s.Channels(t)) == 0 })
		})
	}
}

func TestListenEvicted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--notify-keyspace-events", "Kgxe", "--maxmemory-policy", "allkeys-lru")
	ch := listenTo(t.Context(), object.Of(locktest.Open(t, s.URL(), calm).Semaphore("a")))
	locktest.AwaitListener(t, s, "__keyspace@0__:a")
	s.Do(t, "SET", "a", "3")
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	_, _ = s.Try("SET", "b", "3") // makes room first
	hears(t, ch, object.EventEvicted, "a")
}

func TestListenLock(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t, "--notify-keyspace-events", "Kgx")
	c := locktest.Open(t, s.URL(), calm)
	for kind, of := range lockables {
		m := of(c, kind)
		ch := listenTo(t.Context(), locktest.ObjectOf(m))
		locktest.AwaitListener(t, s, "__keyspace@0__:"+kind)
		locktest.Release(t, locktest.Lock(t, t.Context(), m))
		hears(t, ch, object.EventDeleted, kind)
	}
}

// A restarted server may have forgotten to publish events. Listeners are told.
func TestListenForgotten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--notify-keyspace-events", "Kgx")
	ch := listenTo(t.Context(), object.Of(locktest.Open(t, s.URL(), calm).Semaphore("a")))
	locktest.Eventually(t, 10*time.Second, "a subscription", func() bool { return len(s.Channels(t)) > 0 })
	s.Do(t, "CONFIG", "SET", "notify-keyspace-events", "")
	s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	if h := next(t, ch); !errors.Is(h.err, object.ErrNoEvents) {
		t.Errorf("heard %v", h)
	}
	over(t, ch)
}

// What happens while the subscription is broken is found out.
func TestListenBroken(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"Kgx", "Egx"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--notify-keyspace-events", setting)
			p := redistest.NewProxy(t, s.Addr())
			s.Do(t, "SET", "a", "3")
			ch := listenTo(t.Context(), object.Of(locktest.Open(t, p.URL(), calm).Semaphore("a")))
			locktest.Eventually(t, 10*time.Second, "a subscription", func() bool { return len(s.Channels(t)) > 0 })
			for range 3 {
				p.Refuse(true) // so that no new one comes before the key is gone
				s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
				locktest.Eventually(t, 10*time.Second, "the subscription is gone", func() bool { return len(s.Channels(t)) == 0 })
				s.Do(t, "DEL", "a")
				p.Refuse(false)
				hears(t, ch, object.EventGone, "a")
				s.Do(t, "SET", "a", "3")
				s.Do(t, "DEL", "a")
				hears(t, ch, object.EventDeleted, "a") // and only that: it was heard before it was looked for
				s.Do(t, "SET", "a", "3")
				s.Do(t, "RENAME", "a", "b")
				s.Do(t, "RENAME", "b", "a")
				hears(t, ch, object.EventMoved, "a")
			}
		})
	}
}

// What no message tells is found out by looking, and told once.
func TestListenLooks(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t, "--notify-keyspace-events", "Kgx")
	s.Do(t, "SET", "a", "3")
	ch := listenTo(t.Context(), object.Of(locktest.Open(t, s.URL(), holdfast.Options{PollInterval: 2 * time.Millisecond}).Semaphore("a")))
	locktest.AwaitListener(t, s, "__keyspace@0__:a")
	s.Do(t, "FLUSHALL")
	hears(t, ch, object.EventGone, "a")
	for range 500 { // among many looks
		s.Do(t, "SET", "a", "3")
		s.Do(t, "DEL", "a")
		hears(t, ch, object.EventDeleted, "a")
	}
	s.Do(t, "SET", "a", "3", "PX", "1")
	hears(t, ch, object.EventExpired, "a")
}

// A slow loop is told that it has missed events.
func TestListenSlowly(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t, "--notify-keyspace-events", "AK")
	c := locktest.Open(t, s.URL(), calm)
	ch, last := listenTo(t.Context(), object.Of(c.Semaphore("a"))), listenTo(t.Context(), object.Of(c.Semaphore("{a}z")))
	locktest.AwaitListener(t, s, "__keyspace@0__:a")
	locktest.AwaitListener(t, s, "__keyspace@0__:{a}z")
	for range 1000 {
		s.Do(t, "SET", "a", "3")
		s.Do(t, "DEL", "a")
	}
	s.Do(t, "SET", "{a}z", "3")
	s.Do(t, "DEL", "{a}z")
	hears(t, last, object.EventDeleted, "{a}z") // and so all before has arrived
	n := 0
	for h := next(t, ch); h.Kind != object.EventGone; h = next(t, ch) {
		if h.err != nil || h.Kind != object.EventDeleted {
			t.Fatal(h)
		}
		n++
	}
	if n == 0 || n >= 1000 {
		t.Errorf("%d of 1000 were heard one by one", n)
	}
	s.Do(t, "SET", "a", "3")
	s.Do(t, "DEL", "a")
	hears(t, ch, object.EventDeleted, "a")
}

// Closing the client ends the loop, also when its body goes on, and leaves
// nothing running.
func TestListenClosed(t *testing.T) {
	redistest.CheckGoroutines(t)
	s := redistest.Fresh(t, "--notify-keyspace-events", "Kgx")
	c := locktest.Open(t, s.URL(), calm)
	waiting := listenTo(t.Context(), object.Of(c.Semaphore("a")))
	busy, inside := make(chan heard), make(chan struct{}, 2)
	go func() {
		defer close(busy)
		for ev, err := range object.Of(c.Semaphore("b")).Listen(t.Context()) {
			inside <- struct{}{}
			busy <- heard{ev, err}
		}
	}()
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		for range object.Of(c.Semaphore("c")).Listen(t.Context()) {
			break
		}
	}()
	for _, key := range []string{"a", "b", "c"} {
		locktest.AwaitListener(t, s, "__keyspace@0__:"+key)
		s.Do(t, "SET", key, "3")
	}
	s.Do(t, "DEL", "b", "c")
	<-broken
	<-inside
	start := time.Now()
	_ = c.Close()
	if took := locktest.Took(start); took > locktest.Late {
		t.Errorf("Close took %v", took)
	}
	if h := next(t, waiting); !errors.Is(h.err, holdfast.ErrClosed) {
		t.Errorf("heard %v", h)
	}
	over(t, waiting)
	hears(t, busy, object.EventDeleted, "b")
	if h := next(t, busy); !errors.Is(h.err, holdfast.ErrClosed) {
		t.Errorf("heard %v", h)
	}
	over(t, busy)
	late := listenTo(t.Context(), object.Of(c.Semaphore("a")))
	if h := next(t, late); !errors.Is(h.err, holdfast.ErrClosed) {
		t.Errorf("after Close: %v", h)
	}
}

package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/observe"
)

func init() {
	clock.Fake()
	clock.Seed(1)
}

// A record is an observer that keeps the events.
type record struct {
	mu     sync.Mutex
	events []observe.Event
}

func (r *record) Observe(e observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// take returns the events since the last call, once the observer has received them.
func (r *record) take() []observe.Event {
	time.Sleep(5 * time.Millisecond)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.events
	r.events = nil
	return events
}

// text returns an event in one line, without what differs from run to run.
func text(e observe.Event) string {
	s := e.Type.String()
	add := func(name string, v any, zero bool) {
		if !zero {
			s += fmt.Sprintf(" %s=%v", name, v)
		}
	}
	add("kind", e.Kind, e.Kind == "")
	add("name", e.Name, e.Name == "")
	if e.Type == observe.Acquired || e.Type == observe.Failed {
		add("waited", e.Waited, e.Waited == 0)
		add("via", e.Via, e.Via == "")
		add("looks", min(e.Looks, 2), e.Looks == 0) // how many there are is random
	}
	add("held", e.Held, e.Held == 0)
	add("count", e.Count, e.Count == 0)
	add("late", e.Late, e.Late == 0)
	add("reason", e.Reason, e.Reason == "")
	add("node", e.Node, e.Node == "")
	add("outcome", e.Outcome(), e.Outcome() == "" || e.Outcome() == "acquired")
	add("err", e.Err, e.Err == nil || e.Outcome() != "")
	return s
}

func (r *record) want(t *testing.T, lines ...string) []observe.Event {
	t.Helper()
	events := r.take()
	var got []string
	for _, e := range events {
		got = append(got, text(e))
	}
	if !slices.Equal(got, lines) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
	return events
}

// in runs a test in fake time on a client with an observer.
func in(t *testing.T, test func(t *testing.T, d *fake.Driver, c *holdfast.Client, r *record)) {
	synctest.Test(t, func(t *testing.T) {
		d, r := fake.New(), new(record)
		c, err := holdfast.New(d, &holdfast.Options{Observers: []observe.Observer{r}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		test(t, d, c, r)
		_ = c.Close()
	})
}

type key struct{}

// A lock that is acquired, extended, renewed and released.
func TestLease(t *testing.T) {
	in(t, func(t *testing.T, _ *fake.Driver, c *holdfast.Client, r *record) {
		ctx := context.WithValue(t.Context(), key{}, "value")
		l, err := c.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		events := r.want(t,
			"started kind=mutex name=a",
			"acquired kind=mutex name=a via=server looks=1")
		for _, e := range events {
			if e.ID != events[0].ID || e.ID == 0 || e.Context.Value(key{}) != "value" || e.Client != c.ID() || e.Time.IsZero() {
				t.Errorf("%+v", e)
			}
		}
		if e := events[1]; e.Owner != l.Owner() || e.Token != l.Token() {
			t.Errorf("owner %q and token %d, the lease has %q and %d", e.Owner, e.Token, l.Owner(), l.Token())
		}
		time.Sleep(12 * time.Second)
		for _, e := range r.want(t, "renewed name=a count=1") {
			if e.Owner != l.Owner() {
				t.Errorf("owner %q", e.Owner)
			}
		}
		inner, err := c.Mutex("a").Lock(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = inner.Release(ctx)
		_ = l.Extend(ctx, time.Minute)
		held := time.Second - 5*time.Millisecond // see take
		time.Sleep(held)
		_ = l.Release(ctx)
		_ = l.Release(ctx) // the second call does nothing
		r.want(t,
			"started kind=mutex name=a",
			"acquired kind=mutex name=a via=reentry",
			"released kind=mutex name=a",
			"extended kind=mutex name=a",
			"released kind=mutex name=a held=13.005s")
	})
}

// How a lock was granted: by the server, by a release, by a hand-off; and how it was not.
func TestGranted(t *testing.T) {
	in(t, func(t *testing.T, d *fake.Driver, c *holdfast.Client, r *record) {
		far, err := holdfast.New(d, &holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		m, ctx := c.Mutex("a"), t.Context()
		other, err := far.Mutex("a").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = m.TryLock(ctx)
		_, _ = m.TryLock(ctx, holdfast.Wait(time.Second))
		canceled, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		_, _ = m.Lock(canceled)
		r.want(t,
			"started kind=mutex name=a",
			"failed kind=mutex name=a looks=1 outcome=busy",
			"started kind=mutex name=a",
			"failed kind=mutex name=a waited=1s looks=2 outcome=busy",
			"started kind=mutex name=a",
			"failed kind=mutex name=a waited=1s looks=1 outcome=canceled")

		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				l, err := m.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				_ = l.Release(ctx)
			})
		}
		time.Sleep(100 * time.Millisecond)
		_ = other.Release(ctx)
		wg.Wait()
		r.want(t,
			"started kind=mutex name=a",
			"started kind=mutex name=a",
			"acquired kind=mutex name=a waited=100ms via=grant looks=1",
			"released kind=mutex name=a held=1ms",
			"acquired kind=mutex name=a waited=101ms via=handoff",
			"released kind=mutex name=a held=1ms")
	})
}

// A lost lease is reported once, whether the watchdog notices it or the release.
func TestLost(t *testing.T) {
	in(t, func(t *testing.T, d *fake.Driver, c *holdfast.Client, r *record) {
		lock := func(name string, opts ...holdfast.LockOption) *holdfast.Lease {
			t.Helper()
			l, err := c.Mutex(name).Lock(t.Context(), opts...)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		lost := lock("lost")
		r.take()
		d.FailOver("lost")
		for _, e := range r.want(t,
			"lost kind=mutex name=lost held=5ms reason=failover err=holdfast: lease on \"lost\" lost: failover",
			"renewed name=lost count=1") {
			if e.Type == observe.Lost && !errors.Is(e.Err, holdfast.ErrLost) {
				t.Error(e.Err)
			}
		}
		_ = lost.Release(t.Context())
		r.want(t, "released kind=mutex name=lost held=10ms err=holdfast: lease on \"lost\" lost: failover")

		found := lock("found", holdfast.LeaseTime(time.Minute))
		r.take()
		d.Delete("found")
		_ = found.Release(t.Context())
		r.want(t,
			"lost kind=mutex name=found held=5ms reason=not owner err=holdfast: lease on \"found\" lost: not owner",
			"released kind=mutex name=found held=5ms err=holdfast: lease on \"found\" lost: not owner")

		survivor := lock("survivor")
		r.take()
		d.FailOver()
		r.want(t, "renewed name=survivor count=1", "verified count=1")
		_ = survivor.Release(t.Context())
		r.take()

		closed := lock("closed")
		r.take()
		_ = c.Close()
		r.want(t, "lost kind=mutex name=closed held=5ms reason=closed err=holdfast: lease on \"closed\" lost: closed")
		_ = closed.Release(t.Context())
	})
}

// An outage is reported once, and its end, too; and so are subscriptions.
func TestOutage(t *testing.T) {
	in(t, func(t *testing.T, d *fake.Driver, c *holdfast.Client, r *record) {
		m, ctx := c.Mutex("a"), t.Context()
		d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		_, _ = m.TryLock(ctx)
		_, _ = m.TryLock(ctx)
		var got []string
		for _, e := range r.take() {
			got = append(got, e.Type.String()+" "+e.Outcome())
		}
		if want := []string{"started ", "outage started ", "failed unavailable", "started ", "failed unavailable"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		d.Fail(nil)
		l, err := m.TryLock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.want(t,
			"started kind=mutex name=a",
			"outage ended",
			"acquired kind=mutex name=a via=server looks=1")
		_, _ = m.TryLock(ctx, holdfast.Wait(time.Second)) // subscribes
		r.take()
		d.Reconnect(errors.New("connection reset"))
		r.want(t, "subscription lost err=connection reset", "subscription restored")

		d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
		time.Sleep(12 * time.Second)
		d.Fail(nil)
		time.Sleep(2 * time.Second)
		var failed, renewed int
		var late time.Duration
		for _, e := range r.take() {
			switch {
			case e.Type == observe.Renewed && e.Err != nil:
				failed++
			case e.Type == observe.Renewed:
				renewed++
				late = max(late, e.Late)
			case e.Type != observe.OutageStarted && e.Type != observe.OutageEnded:
				t.Error(text(e))
			}
		}
		if failed == 0 || renewed != 1 || late < time.Second || late > 4*time.Second {
			t.Errorf("%d renewals failed, %d succeeded, %v late", failed, renewed, late)
		}
		_ = l.Release(ctx)
	})
}

// An observer that blocks or panics delays nothing and hides nothing from the others:
// no acquisition, no release, no loss, and not Close.
func TestStuckObserver(t *testing.T) {
	until := make(chan struct{})
	var dropped, total int
	stuck := observe.Func(func(e observe.Event) {
		<-until
		if e.Type == observe.Dropped {
			dropped += e.Count
		} else {
			total++
		}
	})
	faulty := observe.Func(func(observe.Event) { panic("faulty") })
	synctest.Test(t, func(t *testing.T) {
		until = make(chan struct{})
		d, r := fake.New(), new(record)
		c, err := holdfast.New(d, &holdfast.Options{Observers: []observe.Observer{stuck, faulty, r}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		const n = 5000
		for i := range n {
			start := time.Now()
			l, err := c.Mutex("a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Release(t.Context())
			if took := time.Since(start); took != 0 {
				t.Fatalf("took %v", took)
			}
			if i%1000 == 0 {
				time.Sleep(5 * time.Millisecond) // the others receive their events
			}
		}
		start := time.Now()
		l, err := c.Mutex("lost").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.FailOver("lost")
		<-l.Context().Done()
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		if events := r.take(); len(events) != 3*n+4 {
			t.Errorf("%d events", len(events))
		}
		start = time.Now()
		_ = c.Close()
		if took := time.Since(start); took > 110*time.Millisecond {
			t.Errorf("closing took %v", took)
		}
		close(until)
		time.Sleep(time.Second)
		synctest.Wait()
		if want := 3*n + 4; total+dropped != want || dropped == 0 {
			t.Errorf("%d events and %d dropped, of %d", total, dropped, want)
		}
	})
}

func TestNilObserver(t *testing.T) {
	_, err := holdfast.New(fake.New(), &holdfast.Options{Observers: []observe.Observer{nil}})
	if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "Observers") {
		t.Error(err)
	}
}

func TestString(t *testing.T) {
	for typ := observe.Started; typ <= observe.Dropped; typ++ {
		if s := typ.String(); s == "" || strings.Contains(s, "(") {
			t.Errorf("type %d is %q", typ, s)
		}
	}
	if s := observe.Type(200).String(); s != "Type(200)" {
		t.Error(s)
	}
}

// A watcher is an observer that watches its clients.
type watcher struct {
	record
	watched []string
}

func (w *watcher) Watch(c observe.Client) (stop func()) {
	w.watched = append(w.watched, "watch "+c.Stats().Client)
	return func() { w.watched = append(w.watched, "stop "+c.Stats().Client) }
}

// A watcher gets its clients, and is told when they are closed, once.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, want := new(watcher), []string(nil)
		for range 2 {
			d := fake.New()
			c, err := holdfast.New(d, &holdfast.Options{Observers: []observe.Observer{w}, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, "watch "+c.ID())
			if !slices.Equal(w.watched, want) {
				t.Errorf("%q, want %q", w.watched, want)
			}
			d.Fail(func(driver.Call) error { return driver.Unsent(errors.New("no network")) })
			_, _ = c.Mutex("a").TryLock(t.Context())
			if n := c.Stats().Outages; n != 1 {
				t.Errorf("%d outages", n)
			}
			d.Fail(nil)
			l, err := c.Mutex("a").TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Release(t.Context())
			if n := c.Stats().Outages; n != 0 {
				t.Errorf("%d outages", n)
			}
			_, _ = c.Close(), c.Close()
			want = append(want, "stop "+c.ID())
		}
		if !slices.Equal(w.watched, want) {
			t.Errorf("%q, want %q", w.watched, want)
		}
	})
}

package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The log of a lost lease names the semaphore and its owner, not the ids of the
// permits: an id is enough to release a permit.
func TestLogOfLostPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Fresh(t)
	log := new(locktest.Buffer)
	o := locktest.Quick
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	sem := locktest.Open(t, s.URL(), o).LeasedSemaphore("pool")
	if err := sem.Set(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	l, err := sem.Acquire(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "FLUSHALL")
	<-l.Context().Done()
	locktest.Eventually(t, 10*time.Second, "a word in the log", func() bool { return strings.Contains(log.String(), "lost") })
	text := log.String()
	if len(text) > 1000 || !strings.Contains(text, l.Owner()) || strings.Contains(text, "{pool}:timeout") {
		t.Errorf("%d bytes in the log: %.300s", len(text), text)
	}
}

// A stuckHandler blocks until the channel is closed, as a logger does that
// writes to a full pipe.
type stuckHandler struct{ until <-chan struct{} }

func (h stuckHandler) Enabled(context.Context, slog.Level) bool  { <-h.until; return false }
func (h stuckHandler) Handle(context.Context, slog.Record) error { <-h.until; return nil }
func (h stuckHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h stuckHandler) WithGroup(string) slog.Handler             { return h }

// With a logger that blocks, the holders of hundreds of leases of all kinds are
// told in time, and others get the locks. Close does not wait for it.
func TestStuckLogger(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	until := make(chan struct{})
	t.Cleanup(func() { close(until) }) // after the client was closed
	c := locktest.Open(t, p.URL(), holdfast.Options{WatchdogTimeout: 4 * time.Second, Logger: slog.New(stuckHandler{until})})
	other := locktest.Open(t, s.URL())
	const each = 40
	type held struct {
		lease *holdfast.Lease
		ctx   context.Context
		rival func() (*holdfast.Lease, error)
	}
	var all []held
	for i := range each {
		var opts []holdfast.LockOption
		if i%2 == 1 {
			opts = append(opts, holdfast.LeaseTime(3*time.Second+time.Duration(i)*20*time.Millisecond))
		}
		for _, k := range locktest.Kinds {
			n := fmt.Sprint(k.Name, i)
			l := locktest.Lock(t, t.Context(), k.Make(c, n), opts...)
			all = append(all, held{l, l.Context(), func() (*holdfast.Lease, error) { return k.Rival(other, n).Lock(t.Context()) }})
		}
		n := fmt.Sprint("permits", i)
		if err := other.LeasedSemaphore(n).Set(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		l, err := c.LeasedSemaphore(n).Acquire(t.Context(), 1, opts...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, held{l, l.Context(), func() (*holdfast.Lease, error) { return other.LeasedSemaphore(n).Acquire(t.Context(), 1) }})
	}
	p.Freeze()
	defer p.Thaw()
	locktest.Parallel(len(all), func(i int) {
		h := all[i]
		got, err := h.rival()
		if err != nil {
			t.Errorf("%s: %v", h.lease.Name(), err)
			return
		}
		if h.lease.Valid() {
			t.Errorf("%s: another has it, and the lease is valid", h.lease.Name())
		}
		select { // the notification may be late, but not for ever
		case <-h.ctx.Done():
		case <-time.After(locktest.Late):
			t.Errorf("%s: another has it, and the holder was not told", h.lease.Name())
		}
		if err := got.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", h.lease.Name(), err)
		}
	})
	p.Thaw()
	start := time.Now()
	_ = c.Close()
	if took := locktest.Took(start); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
}

// A logger that takes its time does not keep a holder from being told.
func TestSlowLogger(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr())
	slow := slowHandler{until: make(chan struct{})}
	c := locktest.Open(t, p.URL(), holdfast.Options{WatchdogTimeout: 2 * time.Second, Logger: slog.New(slow)})
	l := locktest.Lock(t, t.Context(), c.Mutex("x"))
	ctx := l.Context()
	p.Freeze()
	defer p.Thaw()
	got := locktest.Lock(t, t.Context(), locktest.Open(t, s.URL()).Mutex("x"))
	if l.Valid() {
		t.Error("another has the lock, and the lease is valid")
	}
	if _, ok := locktest.Receive(ctx.Done(), locktest.Late); !ok {
		t.Error("another has the lock, and the holder was not told")
	}
	close(slow.until)
	locktest.Release(t, got)
}

// A slowHandler writes no record before the channel is closed.
type slowHandler struct {
	slog.Handler
	until chan struct{}
}

func (slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	<-h.until
	return nil
}

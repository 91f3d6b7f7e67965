package holdfast_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

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
	c := open(t, p.URL(), holdfast.Options{WatchdogTimeout: 4 * time.Second, Logger: slog.New(stuckHandler{until})})
	other := open(t, s.URL())
	const each = 40
	type held struct {
		lease *holdfast.Lease
		ctx   context.Context
		rival func() (*holdfast.Lease, error)
	}
	var all []held
	for i := range each {
		var opts []holdfast.Option
		if i%2 == 1 {
			opts = append(opts, holdfast.LeaseTime(3*time.Second+time.Duration(i)*20*time.Millisecond))
		}
		for _, k := range kinds {
			n := fmt.Sprint(k.name, i)
			l := lock(t, t.Context(), k.make(c, n), opts...)
			all = append(all, held{l, l.Context(), func() (*holdfast.Lease, error) { return k.rival(other, n).Lock(t.Context()) }})
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
	parallel(len(all), func(i int) {
		h := all[i]
		got, err := h.rival()
		if err != nil {
			t.Errorf("%s: %v", h.lease.Name(), err)
			return
		}
		if h.lease.Valid() {
			t.Errorf("%s: another has it, and the lease is valid", h.lease.Name())
		}
		select { // who tells it may stand still, but not for ever
		case <-h.ctx.Done():
		case <-time.After(late):
			t.Errorf("%s: another has it, and the holder was not told", h.lease.Name())
		}
		if err := got.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", h.lease.Name(), err)
		}
	})
	p.Thaw()
	start := time.Now()
	_ = c.Close()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
}

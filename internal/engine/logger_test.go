package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/asynclog"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// stuck is a log handler that blocks until the channel is closed.
type stuck struct {
	until <-chan struct{}
	calls *atomic.Int64
}

func (h stuck) Enabled(context.Context, slog.Level) bool {
	h.calls.Add(1)
	<-h.until
	return false
}
func (h stuck) Handle(context.Context, slog.Record) error { return nil }
func (h stuck) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h stuck) WithGroup(string) slog.Handler             { return h }

// A witness records why and when it was told of a loss, and what its lease had left at the
// server then.
type witness struct {
	d   *fake.Driver
	key string

	mu   sync.Mutex
	said testimony
}

type testimony struct {
	why  watchdog.Reason
	at   time.Time
	left time.Duration
}

func (w *witness) Lost(why watchdog.Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = testimony{why, time.Now(), w.d.Remaining(w.key)}
}

func (w *witness) told() testimony {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// A logger that blocks delays nothing: no loss after a failover, no end of a lease, no
// renewal, no release, and not Close.
func TestStuckLogger(t *testing.T) {
	in(t, func(d *fake.Driver, _, far *Engine) {
		until, calls := make(chan struct{}), new(atomic.Int64)
		defer close(until)
		o := options
		o.Log = asynclog.New(slog.New(stuck{until, calls}), nil)
		e := New(d, o)
		var all []*witness
		take := func(key string, r Request) *witness {
			w := &witness{d: d, key: key}
			if _, err := e.Acquire(context.Background(), script.NewMutex(key), r, w); err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
			return w
		}
		var forgotten []string
		for i := range 200 {
			take(fmt.Sprint("renewed", i), forever)
			take(fmt.Sprint("fixed", i), Request{Lease: 12*time.Second + time.Duration(i)*time.Millisecond, Wait: Forever})
			take(fmt.Sprint("lost", i), forever)
			forgotten = append(forgotten, fmt.Sprint("lost", i))
		}
		acquire(t, far, forever)
		if _, err := e.Acquire(context.Background(), script.NewMutex("k"), Request{Wait: 100 * time.Millisecond}, nil); err == nil {
			t.Fatal("granted")
		}
		d.Reconnect(errors.New("connection reset"))
		d.FailOver(forgotten...)
		failed := time.Now()
		time.Sleep(time.Second)
		if calls.Load() != 1 {
			t.Fatalf("the logger was called %d times, want one call that does not return", calls.Load())
		}
		for _, w := range all {
			said := w.told()
			switch lost := w.key[:4] == "lost"; {
			case lost && (said.why != watchdog.Failover || said.at.Sub(failed) > time.Millisecond):
				t.Errorf("%s: told %v after %v", w.key, said.why, said.at.Sub(failed))
			case !lost && said.why != 0:
				t.Errorf("%s: told %v", w.key, said.why)
			}
		}
		d.Fail(func(c driver.Call) error {
			if c.Script.Name == "renew" {
				return driver.Unsent(errors.New("no network"))
			}
			return nil
		})
		time.Sleep(time.Minute)
		for _, w := range all {
			if said := w.told(); w.key[:4] != "lost" && (said.why != watchdog.Expired || said.left <= 0) {
				t.Errorf("%s: told %v with %v left at the server", w.key, said.why, said.left)
			}
		}
		d.Fail(nil)
		last := take("last", forever)
		start := time.Now()
		e.Close(time.Second)
		if took := time.Since(start); took != 0 {
			t.Errorf("closing took %v", took)
		}
		if why := last.told().why; why != watchdog.Closed || d.Holder("last") != "" {
			t.Errorf("after Close: told %v, held by %q", why, d.Holder("last"))
		}
		if calls.Load() != 1 {
			t.Errorf("the logger was called %d times", calls.Load())
		}
	})
}

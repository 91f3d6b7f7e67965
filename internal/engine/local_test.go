package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// If a held lock is deleted at the server, the calls of the same client that queue for it
// get the lock within the poll interval.
func TestQueueBehindDeletedLock(t *testing.T) {
	waits := map[string]Request{
		"renewed": forever,
		"fixed":   {Wait: Forever, Lease: time.Minute},
		"polling": {Wait: Forever, Pause: func(int) time.Duration { return time.Second }},
		"bounded": {Wait: time.Minute},
	}
	for _, held := range []Request{{}, {Lease: time.Hour}} {
		for name, r := range waits {
			t.Run(name, func(t *testing.T) {
				in(t, func(d *fake.Driver, a, _ *Engine) {
					holder := new(user)
					h, err := a.Acquire(context.Background(), script.NewMutex("k"), Request{Wait: Forever, Lease: held.Lease}, holder)
					if err != nil {
						t.Fatal(err)
					}
					next := make(chan *Hold)
					go func() {
						h, err := a.Acquire(context.Background(), script.NewMutex("k"), r, new(user))
						if err != nil {
							t.Error(err)
						}
						next <- h
					}()
					time.Sleep(time.Second)
					d.Delete("k")
					deleted := time.Now()
					got := <-next
					if got == nil {
						return
					}
					if took := time.Since(deleted); took > options.Poll+time.Second/10 {
						t.Errorf("acquired after %v", took)
					}
					if !slices.Equal(holder.told(), []watchdog.Reason{watchdog.NotOwner}) || h.Valid() {
						t.Errorf("the holder was told %v, valid: %v", holder.told(), h.Valid())
					}
					release(t, got)
				})
			})
		}
	}
}

// The calls that queue for a valid hold cost one request per poll interval together.
func TestQueueBehindLease(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		h := acquire(t, a, Request{Wait: Forever, Lease: time.Hour})
		for range 50 {
			go func() { release(t, acquire(t, a, forever)) }()
		}
		synctest.Wait()
		before := d.Renewals() + d.Acquires()
		const polls = 20
		time.Sleep(polls * options.Poll)
		if n := d.Renewals() + d.Acquires() - before; n > 2*polls {
			t.Errorf("%d requests in %d poll intervals", n, polls)
		}
		release(t, h)
		synctest.Wait()
		time.Sleep(time.Second)
	})
}

// If the server grants a lock to a client that has a lease on it, the old lease is lost at
// once.
func TestGrantBesideDeadLease(t *testing.T) {
	in(t, func(d *fake.Driver, a, _ *Engine) {
		for _, lease := range []time.Duration{0, time.Minute} {
			holder := new(user)
			h, err := a.Acquire(context.Background(), script.NewMutex("k"), Request{Lease: lease}, holder)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			d.Delete("k")
			next := acquire(t, a, Request{})
			if h.Valid() || !slices.Equal(holder.told(), []watchdog.Reason{watchdog.NotOwner}) {
				t.Errorf("lease %v: told %v, valid: %v", lease, holder.told(), h.Valid())
			}
			release(t, next)
		}
	})
}

// lateFirst delays the first reply.
type lateFirst struct {
	*fake.Driver
	n *atomic.Int32
}

func (d lateFirst) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	r, err := d.Driver.Do(ctx, c)
	if fake.Acquire(c) && d.n.Add(1) == 1 {
		time.Sleep(time.Second)
	}
	return r, err
}

// A grant that arrives after a newer grant of the same lock does not end the newer lease.
// It is verified, and lost.
func TestGrantBehindNewerOne(t *testing.T) {
	in(t, func(d *fake.Driver, _, _ *Engine) {
		x := New(lateFirst{d, new(atomic.Int32)}, options)
		defer x.Close(time.Second)
		late := make(chan *Hold)
		older := new(user)
		go func() {
			h, _ := x.Acquire(context.Background(), script.NewMutex("k"), Request{}, older)
			late <- h
		}()
		synctest.Wait()
		d.Delete("k")
		time.Sleep(time.Millisecond)
		h := acquire(t, x, Request{})
		l := <-late
		time.Sleep(time.Second)
		if !h.Valid() || l.Valid() || !slices.Equal(older.told(), []watchdog.Reason{watchdog.NotOwner}) {
			t.Errorf("newer valid: %v, older valid: %v, told %v", h.Valid(), l.Valid(), older.told())
		}
		release(t, h)
	})
}

// The error of a wait says what the holder has left now, not what it had at the last
// request.
func TestRemainingIsOfNow(t *testing.T) {
	in(t, func(_ *fake.Driver, a, b *Engine) {
		h := acquire(t, b, Request{Lease: 10 * time.Second})
		_, err := a.Acquire(context.Background(), script.NewMutex("k"), Request{Wait: 4500 * time.Millisecond}, new(user))
		var busy *Busy
		if !errors.As(err, &busy) || busy.TTL < 5*time.Second || busy.TTL > 5500*time.Millisecond {
			t.Errorf("error %v", err)
		}
		release(t, h)
	})
}

// The lock of a lease is deleted at the server. A call of the same client that waits for it
// for a limited time gets it before the time is over, wherever it is in the queue.
func TestDeletedBeforeBoundedWait(t *testing.T) {
	for _, wait := range []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second} {
		for _, end := range []string{"Wait", "context"} {
			in(t, func(d *fake.Driver, a, _ *Engine) {
				lost := acquire(t, a, Request{Lease: 5 * time.Minute, Wait: Forever}) // so that it keeps the turn
				d.Delete("k")
				r, ctx := Request{Wait: wait}, context.Background()
				if end == "context" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, wait)
					defer cancel()
					r.Wait = Forever
				}
				h, err := a.Acquire(ctx, script.NewMutex("k"), r, new(user))
				if err != nil {
					t.Fatalf("%s of %v: %v", end, wait, err)
				}
				release(t, h)
				if lost.Valid() {
					t.Error("the lease of the deleted lock is valid")
				}
			})
		}
	}
}

// A call that waits for a lease of its own client says so: in its error, and in
// the log after a second, once per lock.
func TestWaitForOwnClient(t *testing.T) {
	in(t, func(d *fake.Driver, a, b *Engine) {
		var log bytes.Buffer
		o := options
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		x := New(d, o)
		defer x.Close(time.Second)
		h := acquire(t, x, Request{})
		for _, wait := range []time.Duration{0, 3 * time.Second, 5 * time.Second} {
			_, err := x.Acquire(context.Background(), script.NewMutex("k"), Request{Wait: wait}, new(user))
			if !errors.Is(err, ErrNotAcquired) || !strings.Contains(err.Error(), "held by another lease of this client, which ends in ") {
				t.Errorf("wait %v: error %v", wait, err)
			}
		}
		time.Sleep(time.Millisecond)
		if n := strings.Count(log.String(), "another lease of this client"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, &log)
		}
		_, err := b.Acquire(context.Background(), script.NewMutex("k"), Request{}, new(user))
		if err == nil || strings.Contains(err.Error(), "this client") {
			t.Errorf("another client: error %v", err)
		}
		release(t, h)
	})
}

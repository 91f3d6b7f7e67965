package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// replicated runs a test on a server with that many replicas.
func replicated(t *testing.T, r Replication, replicas int, test func(d *fake.Driver, e *Engine)) {
	synctest.Test(t, func(*testing.T) {
		d := fake.New()
		d.Replicas(replicas)
		o := options
		o.Replication = r
		o.Replication.Timeout = time.Second
		e := New(d, o)
		test(d, e)
		e.Close(time.Second)
	})
}

// try tries the mutex "k" once.
func try(e *Engine) (*Hold, error) {
	return e.Acquire(context.Background(), script.NewMutex("k"), Request{}, new(user))
}

// A grant that too few replicas have is released, and the error is ErrNotReplicated.
func TestStrictGivesBack(t *testing.T) {
	replicated(t, Replication{Mode: Strict, Replicas: 2}, 1, func(d *fake.Driver, e *Engine) {
		_, err := try(e)
		if !errors.Is(err, ErrNotReplicated) || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotAcquired) {
			t.Errorf("with one replica of two: %v", err)
		}
		time.Sleep(5 * time.Second)
		if holder := d.Holder("k"); holder != "" {
			t.Errorf("not released: held by %s", holder)
		}
		d.Replicas(2)
		h, err := try(e)
		if err != nil {
			t.Fatal(err)
		}
		release(t, h)
	})
}

// A call waits for replicas as long as for an unavailable server.
func TestStrictWaits(t *testing.T) {
	replicated(t, Replication{Mode: Strict, Replicas: 1}, 0, func(d *fake.Driver, e *Engine) {
		time.AfterFunc(5*time.Second, func() { d.Replicas(1) })
		start := time.Now()
		h := acquire(t, e, forever)
		if took := time.Since(start); took < 5*time.Second || took > 8*time.Second {
			t.Errorf("granted after %v", took)
		}
		release(t, h)
		d.Replicas(0)
		_, err := e.Acquire(context.Background(), script.NewMutex("k"), forever, new(user))
		if !errors.Is(err, ErrNotReplicated) {
			t.Errorf("after the patience: %v", err)
		}
	})
}

// A refusal needs no replica.
func TestStrictBusy(t *testing.T) {
	replicated(t, Replication{Mode: Strict, Replicas: 1}, 1, func(d *fake.Driver, e *Engine) {
		h := acquire(t, e, forever)
		d.Replicas(0)
		_, err := try(e)
		if !errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrUnavailable) {
			t.Errorf("held lock: %v", err)
		}
		time.Sleep(time.Minute)
		if why := h.Loss(); why != watchdog.Unacked {
			t.Errorf("without a replica for a minute: lost %v", why)
		}
	})
}

// An extension counts when enough replicas have it.
func TestStrictExtension(t *testing.T) {
	replicated(t, Replication{Mode: Strict, Replicas: 1}, 1, func(d *fake.Driver, e *Engine) {
		h := acquire(t, e, Request{Lease: 20 * time.Second, Wait: Forever})
		pass, _ := h.Current()
		d.Replicas(0)
		before := h.Deadline()
		if err := h.Extend(context.Background(), pass, time.Hour); !errors.Is(err, ErrNotReplicated) {
			t.Errorf("extended: %v", err)
		}
		if h.Deadline() != before {
			t.Error("the deadline has moved")
		}
		d.Replicas(1)
		if err := h.Extend(context.Background(), pass, time.Hour); err != nil {
			t.Error(err)
		}
	})
}

// Acked needs one replica, and none if no replica is connected.
func TestAcked(t *testing.T) {
	replicated(t, Replication{Mode: Acked}, 0, func(d *fake.Driver, e *Engine) {
		start := time.Now()
		release(t, acquire(t, e, forever))
		d.Replicas(3)
		release(t, acquire(t, e, forever))
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// Async needs no replica.
func TestAsync(t *testing.T) {
	replicated(t, Replication{Mode: Async}, 0, func(d *fake.Driver, e *Engine) {
		start := time.Now()
		release(t, acquire(t, e, forever))
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// An unsure driver does not know how many replicas there are.
type unsure struct{ *fake.Driver }

func (u unsure) Place(key string) driver.Place {
	p := u.Driver.Place(key)
	p.Replicas = -1
	return p
}

func (unsure) Facts(context.Context, ...string) []driver.Facts {
	return []driver.Facts{{Err: driver.Unknown(errors.New("no answer"))}}
}

// If the number of replicas is unknown, Acked needs one.
func TestAckedUnsure(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		d := fake.New() // no replica acknowledges
		o := options
		o.Replication.Timeout = time.Second
		e := New(unsure{d}, o)
		defer e.Close(time.Second)
		if h, err := try(e); err == nil {
			t.Errorf("granted without a replica")
			release(t, h)
		}
	})
}

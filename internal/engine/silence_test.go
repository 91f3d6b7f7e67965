package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/script"
)

// requestTime is the longest time of one request on a silent server.
const requestTime = 2 * time.Second

// A mute is a server that can become unreachable. Requests are lost then, and each ends after
// requestTime.
type mute struct {
	masters
	silent atomic.Bool
}

func newMute(id string) *mute {
	m := &mute{masters: masters{Driver: fake.New()}}
	m.set(driver.Facts{RunID: id})
	return m
}

func (m *mute) Do(ctx context.Context, c driver.Call) (driver.Reply, error) {
	if !m.silent.Load() {
		return m.Driver.Do(ctx, c)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	<-ctx.Done()
	return driver.Reply{}, driver.Unknown(ctx.Err())
}

func (m *mute) DoMany(ctx context.Context, calls []driver.Call) []driver.Result {
	if !m.silent.Load() {
		return m.Driver.DoMany(ctx, calls)
	}
	_, err := m.Do(ctx, calls[0])
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// A call with a limited wait returns a second after the wait at the latest, also if the server
// stops to answer while the call is in its queue and asks again. Its error says that the
// server is unavailable, and not that the lock is held.
func TestWaitEndsInTime(t *testing.T) {
	for wait := 400 * time.Millisecond; wait < 3500*time.Millisecond; wait += 100 * time.Millisecond {
		for _, before := range []time.Duration{50 * time.Millisecond, wait / 2, wait - 10*time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				d := newMute("1")
				a, b := over(t, d), over(t, deaf{d.Driver})
				acquire(t, b, Request{Lease: 20 * time.Second})
				time.AfterFunc(before, func() { d.silent.Store(true) })
				start := time.Now()
				_, err := a.Acquire(t.Context(), script.NewMutex("k"), Request{Wait: wait}, new(user))
				took := time.Since(start)
				if took > wait+time.Second {
					t.Errorf("wait %v, silent after %v: returned after %v with %v", wait, before, took, err)
				}
				if silent := took - before; err == nil || took >= wait+time.Second && silent >= time.Second && !errors.Is(err, ErrUnavailable) {
					t.Errorf("wait %v, server silent for %v: error %v", wait, silent, err)
				}
				d.silent.Store(false)
			})
		}
	}
}

// The same for a set that has got a lock from a server that is silent when the wait ends.
func TestWaitOfSetEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 400 * time.Millisecond // it does not start again in this time
		d, other := newMute("1"), newMute("2")
		blocker := over(t, other)
		acquire(t, blocker, Request{Lease: time.Minute})
		time.AfterFunc(wait-10*time.Millisecond, func() { d.silent.Store(true); other.silent.Store(true) })
		start := time.Now()
		err := AcquireAll(t.Context(), wantsOf(over(t, d), over(t, other)), Request{Wait: wait})
		if took := time.Since(start); err == nil || took > wait+time.Second {
			t.Errorf("returned after %v with %v", took, err)
		}
		d.silent.Store(false)
		other.silent.Store(false)
		time.Sleep(3 * time.Second) // releases go on in the background
		if d.Holder("k") != "" {
			t.Error("the set has left a lock")
		}
	})
}

// Readers that wait for the answer to the request of another reader take no longer than that
// reader if the server is silent.
func TestShareOfSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMute("1")
		d.silent.Store(true)
		e := over(t, d)
		limit := 1500*time.Millisecond + requestTime
		for range 3 {
			go func() {
				start := time.Now()
				_, err := e.Acquire(t.Context(), script.NewRead("k"), Request{}, new(user))
				if took := time.Since(start); !errors.Is(err, ErrUnavailable) || took > limit {
					t.Errorf("returned after %v, want %v at most: %v", took, limit, err)
				}
			}()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * options.Lease) // so that nothing is left to undo
	})
}

package topology_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// hold takes a lock of the world.
func (w *world) hold(c *holdfast.Client, name string, opts ...holdfast.LockOption) *holdfast.Lease {
	w.Helper()
	l, err := c.Mutex(w.key(name), opts...).Lock(context.Background())
	if err != nil {
		w.Fatalf("%v: %v", w.mode.Mode, err)
	}
	return l
}

// kept checks that leases are valid, and releases them.
func (w *world) kept(leases ...*holdfast.Lease) {
	w.Helper()
	for _, l := range leases {
		if !l.Valid() {
			_, why := loss(l, slack)
			w.errorf("the lease on %q was lost: %s: %v", l.Name(), why, context.Cause(l.Context()))
		} else if err := l.Release(context.Background()); err != nil {
			w.errorf("release: %v", err)
		}
	}
}

// renewed waits until leases are renewed.
func (w *world) renewed(leases ...*holdfast.Lease) {
	w.Helper()
	deadlines := make([]time.Time, len(leases))
	for i, l := range leases {
		deadlines[i] = l.Deadline()
	}
	for i, l := range leases {
		w.eventually(2*slack, "a renewal", func() bool {
			return !l.Valid() || l.Deadline().After(deadlines[i].Add(100*time.Millisecond))
		})
	}
}

// renewedTwice waits until leases are renewed by requests that are sent from now
// on. The first renewal may be the answer to an earlier request.
func (w *world) renewedTwice(leases ...*holdfast.Lease) {
	w.Helper()
	w.renewed(leases...)
	w.renewed(leases...)
}

// loss waits for the end of a lease and returns its time and reason.
func loss(l *holdfast.Lease, within time.Duration) (time.Time, holdfast.LossReason) {
	if _, ok := locktest.Receive(l.Context().Done(), within); !ok {
		return time.Time{}, "not lost"
	}
	at := time.Now()
	var lost *holdfast.LostError
	if errors.As(context.Cause(l.Context()), &lost) {
		return at, lost.Reason
	}
	return at, ""
}

// A holder has a lease and records how long the lease is valid.
type holder struct {
	*holdfast.Lease
	w    *world
	over chan struct{} // closed when the lease is not valid any more
	news chan struct{} // closed when told is known

	mu       sync.Mutex
	until    time.Time // the last moment at which it was valid
	deadline time.Time // as it was then
	told     time.Time // when its context ended; zero: not yet
}

// keep takes a lock of the world and watches the lease.
func (w *world) keep(c *holdfast.Client, name string, opts ...holdfast.LockOption) *holder {
	w.Helper()
	return w.watch(w.hold(c, name, opts...))
}

// watch records what becomes of a lease.
func (w *world) watch(l *holdfast.Lease) *holder {
	h := &holder{Lease: l, w: w, over: make(chan struct{}), news: make(chan struct{})}
	if w.strictly() && w.stalls == nil {
		w.stalls = redistest.MeterStalls(w, w.master(l.Name()))
	}
	context.AfterFunc(l.Context(), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.told = time.Now()
		close(h.news)
	})
	go func() {
		defer close(h.over)
		for ; ; locktest.Work(2 * time.Millisecond) {
			now, deadline := time.Now(), l.Deadline() // before it is asked: it was valid then
			if !l.Valid() {
				return
			}
			h.mu.Lock()
			h.until, h.deadline = now, deadline
			h.mu.Unlock()
		}
	}()
	w.Cleanup(func() {
		_ = l.Release(context.Background())
		<-h.over
	})
	return h
}

// last returns the last moment at which the lease was valid, and its deadline
// then.
func (h *holder) last() (until, deadline time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until, h.deadline
}

// kept checks that the lease was not lost, and releases it.
func (h *holder) kept() {
	h.w.Helper()
	h.w.kept(h.Lease)
}

// lost waits for the loss of the lease, checks that it has one of the reasons,
// and returns when its holder was told. If the last renewals before the end got
// no answer, because the master or this process did not run, the holder cannot
// know that replicas were missing.
func (h *holder) lost(within time.Duration, reasons ...holdfast.LossReason) time.Time {
	h.w.Helper()
	_, why := loss(h.Lease, within)
	if why == holdfast.LossExpired && !slices.Contains(reasons, why) && slices.Contains(reasons, holdfast.LossUnreplicated) && h.w.stalls.Since(time.Now().Add(-lease)) > 500*time.Millisecond {
		why = holdfast.LossUnreplicated
	}
	switch {
	case why == "not lost":
		h.w.Fatalf("the hold on %q was not lost within %v", h.Name(), within)
	case !slices.Contains(reasons, why):
		h.w.errorf("the hold on %q was lost for the reason %q, want %q", h.Name(), why, reasons)
	}
	<-h.over
	<-h.news // the context has ended, and its function runs
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// inTime checks that the holder was told of its loss by the deadline that it
// knew, less the gap (P2).
func (h *holder) inTime() {
	h.w.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told.IsZero() || h.told.After(h.deadline.Add(slack)) {
		h.w.errorf("the hold on %q was valid up to %v, and its holder was told at %v", h.Name(), h.deadline, h.told)
	}
}

// keep has a client of each world take locks.
func (f fleet) keep(change func(*holdfast.Options), names ...string) holders {
	var hs holders
	for _, w := range f {
		w.Helper()
		c := w.open(change)
		for _, name := range names {
			hs = append(hs, w.keep(c, name))
		}
	}
	return hs
}

type holders []*holder

// kept checks that no lease was lost, and releases them.
func (hs holders) kept() {
	for _, h := range hs {
		h.w.Helper()
		h.kept()
	}
}

// renewed waits until the leases are renewed.
func (hs holders) renewed() {
	var leases []*holdfast.Lease
	for _, h := range hs {
		leases = append(leases, h.Lease)
	}
	hs[0].w.Helper()
	hs[0].w.renewed(leases...)
}

// A rival waits for a lock and keeps it.
type rival struct {
	w     *world
	name  string
	stop  context.CancelFunc
	done  chan struct{}
	lease *holdfast.Lease
	at    time.Time
	err   error
}

// rival has a client wait for a lock.
func (w *world) rival(c *holdfast.Client, name string) *rival {
	ctx, stop := context.WithCancel(context.Background())
	r := &rival{w: w, name: w.key(name), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			r.lease, r.err = c.Mutex(r.name).Lock(ctx)
			r.at = time.Now()
			if ctx.Err() != nil || !errors.Is(r.err, holdfast.ErrUnavailable) {
				return
			}
		}
	}()
	w.Cleanup(func() {
		stop()
		<-r.done
		if r.err == nil {
			_ = r.lease.Release(context.Background())
		}
	})
	return r
}

// waits returns when the rival has found the lock taken, and listens for its
// release.
func (r *rival) waits() {
	r.w.Helper()
	r.w.eventually(2*slack, "a rival waits for "+r.name, func() bool {
		return slices.ContainsFunc(r.w.master(r.name).Channels(r.w), func(c string) bool { return strings.Contains(c, "{"+r.name+"}") })
	})
}

// in returns whether the rival has the lock.
func (r *rival) in() bool {
	select {
	case <-r.done:
		return r.err == nil
	default:
		return false
	}
}

// await waits until the rival has the lock, which must be by then.
func (r *rival) await(by time.Time) {
	r.w.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Until(by.Add(slack)) + 10*time.Second): // to report how much too late
		r.w.Fatal("the rival never got the lock")
	}
	if r.err != nil {
		r.w.Fatal(r.err)
	}
	if late := r.at.Sub(by); late > slack {
		r.w.errorf("the rival got %q %v too late", r.lease.Name(), late)
	}
}

// after checks that the rival got the lock only when the holder did not count on
// it any more, and that the rival has the higher token.
func (r *rival) after(h *holder) {
	r.w.Helper()
	<-h.over
	until, _ := h.last()
	if r.at.Before(until) {
		r.w.errorf("%q was held twice for %v", h.Name(), until.Sub(r.at))
	}
	r.rises(h)
}

// rises checks that the rival has a higher token than the holder.
func (r *rival) rises(h *holder) {
	r.w.Helper()
	if r.lease.Token() <= h.Token() {
		r.w.errorf("the token of %q went from %d to %d", h.Name(), h.Token(), r.lease.Token())
	}
}

// release releases the rival's lock.
func (r *rival) release() {
	r.w.Helper()
	if err := r.lease.Release(context.Background()); err != nil {
		r.w.errorf("%v", err)
	}
}

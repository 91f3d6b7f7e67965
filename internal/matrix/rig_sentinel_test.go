package matrix_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// side is one of two groups of servers that a partition keeps apart.
type side = redistest.Side

// slack is what a busy machine may add to any time. What fails without a fault
// of the machine, fails by more.
const slack = 5 * time.Second

// long gives renewed leases so much time that a loss which comes at their end is
// told from one that comes with a renewal.
func long(o *holdfast.Options) { o.WatchdogTimeout = 20 * time.Second }

// modes are those that clients of a master with two replicas may be in.
var modes = []holdfast.Replication{async, acked, strict(2)}

// inFleet runs a test under sentinels whose clients are in several modes at
// once: there is one world for each, with names of its own, and all share the
// servers. What goes wrong goes wrong for all of them.
func inFleet(t *testing.T, modes []holdfast.Replication, test func(fleet), opts ...redistest.Option) {
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinels(t, opts...)
		var f fleet
		for _, mode := range modes {
			f = append(f, &world{T: t, name: "sentinel", prefix: mode.Mode.String() + "-", url: s.URL(), mode: mode, sentinels: s})
		}
		test(f)
	})
}

// alone runs the test of a fleet with one server.
func alone(t *testing.T, test func(fleet), opts ...redistest.Option) {
	inSingle(t, func(w *world) { test(fleet{w}) }, opts...)
}

// A fleet is several worlds on the same servers.
type fleet []*world

// master returns the server that keeps all names.
func (f fleet) master() *redistest.Server { return f[0].master("") }

// sentinels returns the deployment, or nil if there is only one server.
func (f fleet) sentinels() *redistest.Sentinels { return f[0].sentinels }

// patient keeps the Sentinels, if there are any, from taking a server for dead
// that is slow.
func (f fleet) patient() { f.bear("60000") }

// watchful ends patient, since something is about to happen.
func (f fleet) watchful() { f.bear("1000") }

// bear has the Sentinels bear with a silent server for so many milliseconds.
func (f fleet) bear(ms string) {
	if f.sentinels() == nil {
		return
	}
	for _, s := range f.sentinels().Sentinels() {
		s.Do(f[0], "SENTINEL", "SET", f.sentinels().MasterName(), "down-after-milliseconds", ms)
	}
}

// run runs a part of the test for all worlds as a subtest.
func (f fleet) run(name string, part func(fleet)) {
	f[0].Run(name, func(t *testing.T) {
		var sub fleet
		for _, w := range f {
			same := *w
			same.T = t
			sub = append(sub, &same)
		}
		part(sub)
	})
}

// crowds sets a crowd of two clients on two names in each world.
func (f fleet) crowds() crowds {
	var cs crowds
	for _, w := range f {
		cs = append(cs, w.crowd(2, 2))
	}
	return cs
}

type crowds []*crowd

// await waits until each crowd has been granted some more leases.
func (cs crowds) await() {
	for _, c := range cs {
		c.w.Helper()
		c.await(10)
	}
}

// end checks the promises that all modes give, unless there was a failover: then
// exclusion is promised in mode Strict only.
func (cs crowds) end(failedOver bool) {
	for _, c := range cs {
		c.w.Helper()
		c.end(!failedOver || c.w.strictly())
	}
}

// key returns a name of this world alone.
func (w *world) key(name string) string { return name + "-" + w.mode.Mode.String() }

// follows waits until a client has found a master.
func (w *world) follows(c *holdfast.Client, master *redistest.Server) {
	w.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		at := c.Driver().Place("").Node
		if at == master.Addr() {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("%v: the client is at %q, want the new master %s; the Sentinels name %s", w.mode.Mode, at, master.Addr(), w.sentinels.Master().Addr())
		}
	}
}

// A holder has a lease and notes for how long it counts on it.
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

// keep takes a lock and notes what becomes of it.
func (w *world) keep(c *holdfast.Client, name string, opts ...holdfast.Option) *holder {
	w.Helper()
	l, err := c.Mutex(name, opts...).Lock(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return w.watch(l)
}

// watch notes what becomes of a lease.
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
		for ; ; time.Sleep(2 * time.Millisecond) {
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
	if !h.Valid() {
		h.w.errorf("the hold on %q was lost: %v", h.Name(), context.Cause(h.Context()))
	}
	if err := h.Release(context.Background()); err != nil {
		h.w.errorf("%v", err)
	}
}

// lost waits for the loss of the lease, checks that it is for one of the
// reasons, and returns when its holder was told. If the last renewals before the
// end got no answer, since the master or this process stood still, the holder
// cannot know that replicas were missing.
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

// A rival waits for a lock that somebody else holds.
type rival struct {
	w     *world
	stop  context.CancelFunc
	done  chan struct{}
	lease *holdfast.Lease
	at    time.Time
	err   error
}

// rival has a client wait for a lock.
func (w *world) rival(c *holdfast.Client, name string) *rival {
	ctx, stop := context.WithCancel(context.Background())
	r := &rival{w: w, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			r.lease, r.err = c.Mutex(name).Lock(ctx)
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
	case <-time.After(time.Until(by.Add(slack)) + 10*time.Second): // to say how much too late
		r.w.Fatal("the rival never got the lock")
	}
	if r.err != nil {
		r.w.Fatal(r.err)
	}
	if late := r.at.Sub(by); late > slack {
		r.w.errorf("the rival got %q %v too late", r.lease.Name(), late)
	}
}

// after checks that the rival was let in only when the holder did not count on
// the lock any more, and has the higher token.
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

// release gives the rival's lock back.
func (r *rival) release() {
	r.w.Helper()
	if err := r.lease.Release(context.Background()); err != nil {
		r.w.errorf("%v", err)
	}
}

// empty checks that a server keeps no lock, and that nobody listens at it,
// soon after all was released.
func empty(t testing.TB, s *redistest.Server) {
	t.Helper()
	var keys, channels []string
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		keys = s.Keys(t)
		channels = slices.DeleteFunc(s.Channels(t), func(c string) bool { return strings.HasPrefix(c, "__sentinel__") })
		if len(keys) == 0 && len(channels) == 0 {
			return
		}
	}
	t.Errorf("left behind: %d keys: %.500q, %d channels: %.500q", len(keys), keys, len(channels), channels)
}

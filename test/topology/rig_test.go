package topology_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A world is a deployment in which something goes wrong.
type world struct {
	*testing.T
	name string
	url  string
	mode holdfast.Replication

	prefix  string // of the names of the crowd
	clients []*holdfast.Client
	stalls  *redistest.StallMeter // of the master; see holder.lost

	single    *redistest.Server    // nil in other worlds
	sentinels *redistest.Sentinels // nil in other worlds
	cluster   *redistest.Cluster   // nil in other worlds
}

var (
	async = holdfast.Replication{Mode: holdfast.Async}
	acked = holdfast.Replication{Mode: holdfast.Acked}
)

func strict(replicas int) holdfast.Replication {
	return holdfast.Replication{Mode: holdfast.Strict, Replicas: replicas, Timeout: 500 * time.Millisecond}
}

// inSingle runs a test with one server.
func inSingle(t *testing.T, test func(*world), opts ...redistest.Option) {
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartWith(t, opts...)
		test(&world{T: t, name: "single", url: s.URL(), mode: async, single: s})
	})
}

// inSentinel runs a test under sentinels that replace nobody, in each of the
// modes.
func inSentinel(t *testing.T, modes []holdfast.Replication, test func(*world), opts ...redistest.Option) {
	for _, mode := range modes {
		t.Run("sentinel/"+mode.Mode.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, opts...)
			w := &world{T: t, name: "sentinel", url: s.URL(), mode: mode, sentinels: s}
			fleet{w}.patient()
			test(w)
		})
	}
}

// inCluster runs a test in a cluster, in each of the modes.
func inCluster(t *testing.T, modes []holdfast.Replication, test func(*world), opts ...redistest.Option) {
	for _, mode := range modes {
		t.Run("cluster/"+mode.Mode.String(), func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, opts...)
			test(&world{T: t, name: "cluster", url: c.URL(), mode: mode, cluster: c})
		})
	}
}

// lease is the lease time of renewed leases.
const lease = 4 * time.Second

// open returns a client of the world.
func (w *world) open(change ...func(*holdfast.Options)) *holdfast.Client {
	w.Helper()
	return w.openAt(w.url, change...)
}

// enduring returns a URL for clients that wait for the answer of a server that may
// stand still for longer than the two seconds that are the default.
func enduring(url string) string {
	sep := "?"
	if strings.Contains(url, sep) {
		sep = "&"
	}
	return url + sep + "timeout=10s&dial_timeout=10s"
}

// openAt returns a client with another URL.
func (w *world) openAt(url string, change ...func(*holdfast.Options)) *holdfast.Client {
	w.Helper()
	o := holdfast.Options{
		WatchdogTimeout: lease, RenewEvery: 500 * time.Millisecond,
		PollInterval: time.Second, RetryTimeout: 60 * time.Second, Replication: w.mode,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := holdfast.Open(w.Context(), url, o)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, holdfast.ErrUnavailable) && time.Now().Before(end); {
		c, err = holdfast.Open(w.Context(), url, o) // a server stood still
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	w.clients = append(w.clients, c)
	return c
}

// master returns the server that keeps a name.
func (w *world) master(name string) *redistest.Server {
	w.Helper()
	switch {
	case w.sentinels != nil:
		return w.sentinels.Master()
	case w.cluster != nil:
		return w.cluster.MasterOf(name)
	}
	return w.single
}

// A crowd contends for a few names for as long as something goes wrong, and
// writes down who held what from when to when.
type crowd struct {
	w      *world
	names  []string
	stop   context.CancelFunc
	wg     sync.WaitGroup
	record bytes.Buffer
	rec    *redistest.Recorder

	mu     sync.Mutex
	grants []grant
	errs   []error
}

// A grant is a token, and when the lease was asked for and granted.
type grant struct {
	name         string
	token        int64
	asked, given int64
}

// crowd sets some clients on some names, each with two goroutines.
func (w *world) crowd(clients, names int) *crowd {
	ctx, stop := context.WithCancel(context.Background())
	c := &crowd{w: w, stop: stop}
	c.rec = redistest.NewRecorder(&c.record)
	for i := range names {
		c.names = append(c.names, fmt.Sprint(w.prefix, "crowd-", i))
	}
	w.Cleanup(stop)
	for range clients {
		client := w.open(func(o *holdfast.Options) { o.RetryTimeout = 300 * time.Millisecond })
		for range 2 {
			c.wg.Go(func() {
				for ctx.Err() == nil {
					c.once(ctx, client)
				}
			})
		}
	}
	return c
}

func (c *crowd) once(ctx context.Context, client *holdfast.Client) {
	name := c.names[rand.IntN(len(c.names))]
	asked := redistest.Now()
	l, err := client.Mutex(name).Lock(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable) {
			c.mu.Lock()
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
		return
	}
	g := grant{name, l.Token(), asked, redistest.Now()}
	iv := redistest.Interval{Name: name, Owner: fmt.Sprint(l.Owner(), "#", l.Token())}
	work := rand.N(20 * time.Millisecond)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		now := redistest.Now() // before the lease is asked: it was valid at that moment
		if !l.Valid() {
			break
		}
		if iv.Enter == 0 {
			iv.Enter = now
		}
		iv.Leave = now
		if time.Since(start) >= work {
			break
		}
	}
	if iv.Enter != 0 {
		c.rec.Record(iv)
		c.mu.Lock()
		c.grants = append(c.grants, g)
		c.mu.Unlock()
	}
	_ = l.Release(ctx) // a loss is no error here
}

// granted is how many leases there were so far.
func (c *crowd) granted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.grants)
}

// grantedAfter is how many leases were granted after a moment.
func (c *crowd) grantedAfter(moment int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, g := range c.grants {
		if g.given > moment {
			n++
		}
	}
	return n
}

// await waits until so many more leases were granted.
func (c *crowd) await(more int) time.Duration {
	const within = 40 * time.Second
	c.w.Helper()
	start, want := time.Now(), c.granted()+more
	for c.granted() < want {
		if time.Since(start) > within {
			c.w.Fatalf("only %d of %d leases were granted within %v", c.granted()-want+more, more, within)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// end stops the crowd and checks the promises: nobody failed with anything but
// ErrUnavailable; if exclusive, no two held a name at once (P1); tokens rise in the
// order of the grants (P3).
func (c *crowd) end(exclusive bool) {
	c.w.Helper()
	c.stop()
	c.wg.Wait()
	for i, err := range c.errs {
		if i < 5 {
			c.w.Errorf("a lock failed: %v", err)
		}
	}
	if exclusive {
		if err := c.overlap(); err != nil {
			c.w.Error(err)
		}
	}
	if err := c.disorder(); err != nil {
		c.w.Error(err)
	}
}

// overlap returns an error if two held a name at once.
func (c *crowd) overlap() error {
	ivs, err := redistest.ReadIntervals(bytes.NewReader(c.record.Bytes()))
	if err != nil {
		return err
	}
	return redistest.CheckExclusive(ivs)
}

// clockError is how far the wall clocks that two servers read may be apart, and
// set back, on one machine. Tokens that come from them can be no better.
const clockError = 20 * time.Millisecond

// disorder returns an error if a lease that was asked for after another had been
// granted has a lower token.
func (c *crowd) disorder() error {
	byName := make(map[string][]grant)
	for _, g := range c.grants {
		byName[g.name] = append(byName[g.name], g)
	}
	for _, gs := range byName {
		slices.SortFunc(gs, func(a, b grant) int { return cmp.Compare(a.token, b.token) })
		for i := 1; i < len(gs); i++ {
			if gs[i].token == gs[i-1].token || gs[i].given+clockError.Nanoseconds() < gs[i-1].asked {
				return fmt.Errorf("tokens of %q out of order: %+v and %+v", gs[i].name, gs[i-1], gs[i])
			}
		}
	}
	return nil
}

// loss waits for the end of a lease and returns when it came, and why.
func loss(l *holdfast.Lease, within time.Duration) (time.Time, holdfast.LossReason) {
	select {
	case <-l.Context().Done():
		at := time.Now()
		var lost *holdfast.LostError
		if errors.As(context.Cause(l.Context()), &lost) {
			return at, lost.Reason
		}
		return at, ""
	case <-time.After(within):
		return time.Time{}, "not lost"
	}
}

var allModes = []holdfast.Replication{async, acked, strict(1)}

// inOneCluster runs a test in one cluster that clients of all modes share: what
// goes wrong does so for each of them. Everybody has names of his own, which
// live at the first shard.
func inOneCluster(t *testing.T, test func(*redistest.Cluster, []*world), opts ...redistest.Option) {
	t.Parallel()
	c := redistest.StartCluster(t, opts...)
	var ws []*world
	for _, mode := range allModes {
		ws = append(ws, &world{T: t, name: "cluster", url: c.URL(), mode: mode, cluster: c, prefix: tag(0, mode.Mode.String())})
	}
	test(c, ws)
	for _, w := range ws {
		w.leavesNothing()
	}
}

// shardOf is the shard, of three, that a name lives at while no slot has moved.
func shardOf(name string) int { return (3*redistest.SlotOf(name) + 2) / 16384 }

// tag returns a hash tag that lives at a shard.
func tag(shard int, about string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("{", about, i, "}"); shardOf(name) == shard {
			return name
		}
	}
}

// strictly reports whether exclusion is promised across failovers.
func (w *world) strictly() bool { return w.mode.Mode == holdfast.Strict }

// errorf fails the test on behalf of one of several worlds.
func (w *world) errorf(format string, args ...any) {
	w.Helper()
	w.Errorf("%v: "+format, append([]any{w.mode.Mode}, args...)...)
}

// hold takes locks of the world, by suffixes of their names.
func (w *world) hold(c *holdfast.Client, names ...string) []*holdfast.Lease {
	w.Helper()
	var leases []*holdfast.Lease
	for _, name := range names {
		l, err := c.Mutex(w.prefix + name).Lock(w.Context())
		if err != nil {
			w.Fatalf("%v: %v", w.mode.Mode, err)
		}
		leases = append(leases, l)
	}
	return leases
}

// kept says that leases are valid, and gives them back.
func (w *world) kept(leases []*holdfast.Lease) {
	w.Helper()
	for _, l := range leases {
		if !l.Valid() {
			_, why := loss(l, soon)
			w.errorf("the lease on %q was lost: %s", l.Name(), why)
		} else if err := l.Release(w.Context()); err != nil {
			w.errorf("release: %v", err)
		}
	}
}

// renewed says that leases are renewed.
func (w *world) renewed(leases []*holdfast.Lease) {
	w.Helper()
	for _, l := range leases {
		deadline := l.Deadline()
		w.eventually(2*soon, "a renewal", func() bool {
			return !l.Valid() || l.Deadline().After(deadline.Add(100*time.Millisecond))
		})
	}
}

// renewedTwice says that leases are renewed by requests that are sent from now
// on. The first renewal may be the answer to an earlier request.
func (w *world) renewedTwice(leases []*holdfast.Lease) {
	w.Helper()
	w.renewed(leases)
	w.renewed(leases)
}

// soon is how long anything may take, on a busy machine, that waits for nothing.
const soon = 5 * time.Second

func (w *world) eventually(limit time.Duration, what string, cond func() bool) {
	w.Helper()
	begin := time.Now()
	for !cond() {
		if time.Since(begin) > limit {
			w.Fatalf("%v: not within %v: %s", w.mode.Mode, limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// leavesNothing closes the clients and sees that nothing of theirs is left at
// any node: no key but the counters of fenced locks, no subscription.
func (w *world) leavesNothing() {
	w.Helper()
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.errorf("close: %v", err)
		}
	}
	var left []string
	nothing := func() bool {
		left = nil
		for _, s := range w.cluster.Masters() {
			for _, args := range [][]string{{"KEYS", "*" + w.prefix + "*"}, {"PUBSUB", "CHANNELS", "*" + w.prefix + "*"}, {"PUBSUB", "SHARDCHANNELS", "*" + w.prefix + "*"}} {
				reply, err := s.Try(args...)
				if err != nil {
					left = append(left, err.Error())
				}
				list, _ := reply.([]any)
				for _, e := range list {
					if name := fmt.Sprint(e); len(name) < 20 || name[:20] != "redisson_lock_token:" {
						left = append(left, args[0]+" "+name)
					}
				}
			}
		}
		return len(left) == 0
	}
	for end := time.Now().Add(lease + soon); !nothing(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.errorf("left behind: %q", left)
			return
		}
	}
}

// A queue is some who wait for locks, each in a goroutine of his own.
type queue struct {
	w    *world
	wg   sync.WaitGroup
	stop context.CancelFunc

	mu    sync.Mutex
	times []time.Time // when each got his turn
	errs  []error
}

// line has so many wait for a lock, and give it back at once when they get it.
func (w *world) line(lockers ...holdfast.Locker) *queue {
	ctx, stop := context.WithCancel(context.Background())
	w.Cleanup(stop)
	q := &queue{w: w, stop: stop}
	for _, m := range lockers {
		q.wg.Go(func() {
			l, err := m.Lock(ctx)
			at := time.Now()
			if err == nil {
				if err = l.Release(ctx); errors.Is(err, holdfast.ErrLost) {
					err = nil
				}
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			if err != nil {
				q.errs = append(q.errs, err)
			} else {
				q.times = append(q.times, at)
			}
		})
	}
	return q
}

// turns is how many had their turn so far.
func (q *queue) turns() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.times)
}

// end waits until everybody had his turn, and says when the last one had it.
func (q *queue) end(within time.Duration) {
	q.w.Helper()
	done := make(chan struct{})
	go func() {
		q.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(within):
		q.w.errorf("only %d had their turn within %v", q.turns(), within)
		q.stop()
		<-done
	}
	for _, err := range q.errs {
		q.w.errorf("somebody who waited: %v", err)
	}
}

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

// patient makes the nodes of a cluster wait for each other for longer than any
// of these tests has them paused.
var patient = redistest.Args("--cluster-node-timeout", "15000")

// notReplicated checks that a lock is refused for want of replicas. A try that
// the master has not answered says nothing about that.
func (w *world) notReplicated(m holdfast.Locker) {
	w.Helper()
	redistest.MeterStalls(w, w.master("")).Rounds(w, 500*time.Millisecond, func() error {
		l, err := m.TryLock(context.Background())
		if err == nil {
			_ = l.Release(context.Background())
			w.errorf("too few replicas have heard of %q, and yet it was granted", l.Name())
			return nil
		}
		if !errors.Is(err, holdfast.ErrNotReplicated) || !errors.Is(err, holdfast.ErrUnavailable) {
			return fmt.Errorf("%v: too few replicas have heard of it, and yet: %w", w.mode.Mode, err)
		}
		return nil
	})
}

// never has the Sentinels never promote a replica.
func (f fleet) never(replica *redistest.Server) {
	s := f.sentinels()
	replica.Do(f[0], "CONFIG", "SET", "replica-priority", "0")
	for _, watcher := range s.Sentinels() {
		f[0].eventually(30*time.Second, "the Sentinels know of the priority", func() bool {
			n := 0
			list, _ := watcher.Do(f[0], "SENTINEL", "REPLICAS", s.MasterName()).([]any)
			for _, e := range list {
				words, _ := e.([]any)
				for i := 0; i+1 < len(words); i += 2 {
					if words[i] == "slave-priority" && words[i+1] == "0" {
						n++
					}
				}
			}
			return n == 1
		})
	}
}

// others returns the masters but one.
func others(c *redistest.Cluster, one *redistest.Server) []*redistest.Server {
	return slices.DeleteFunc(c.Masters(), func(s *redistest.Server) bool { return s == one })
}

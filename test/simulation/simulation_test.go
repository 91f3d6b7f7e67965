// Package simulation_test runs clients against a fake server in faked time, under
// random faults. A seed decides everything that is random:
//
//	HOLDFAST_SEED=17 go test -run TestSchedules ./test/simulation
//
// runs the schedule with that seed alone and prints what the server did.
//
// A schedule runs in one of several settings. They differ in what the servers may do,
// and so in what is promised:
//
//   - steady: the server keeps its memory and its clock. A replica that replaces it has
//     everything. P1, P2 and P3 hold.
//   - strict: the mode is Strict. A replica lacks what it has not acknowledged, a master
//     that was replaced may still answer, clocks differ by less than ClockSkew, and
//     clients free the lock by force. P1 and P2 hold, except for what was freed by force.
//   - weak: the mode is Async or Acked. The same faults, and clocks that are set by
//     seconds. A holder is told in time after its server has lost the lock. Until then
//     another may hold it.
//
// In each of them no lease is valid for longer than a server has promised.
package simulation_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/fake"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func init() { clock.Fake() }

const (
	name = "lock"
	poll = 2300 * time.Millisecond
)

// A world is one schedule.
type world struct {
	seed    uint64
	net     *network
	links   []*link
	mutexes []*holdfast.Mutex
	random  *rand.Rand
	options holdfast.Options
	strict  bool          // see the package comment; neither: steady
	weak    bool          //
	crashes int           // how many clients may still crash
	expires bool          // every lease ends soon, because some are left behind
	repeats bool          // requests may arrive twice
	slept   time.Duration // how long the machine of the clients was suspended
	ahead   time.Duration // how far the clock of the master is ahead, or behind

	// Guarded by net.mu and mu.
	resumed time.Time // when the machine of the clients was last resumed
	left    string    // the holder
	unused  time.Time // since when no call uses what it holds
	latest  time.Time // that the clock of a server has shown

	mu      sync.Mutex
	leases  []*lease // that are not released
	owners  map[string]*owner
	trace   []event
	failed  []string
	grants  int
	served  [8]int       // grants by client
	waiting [8]int       // calls of Lock, by client
	waits   [8]time.Time // since when there are some; zero if there are none
	highest [8]int64     // tokens, by client
	begun   time.Time
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// use acquires and releases the lock again and again, in all ways, until ctx ends.
func (w *world) use(ctx context.Context, client int, r *rand.Rand) {
	m := w.mutexes[client]
	time.Sleep(upTo(r, 10*time.Millisecond)) // not all at once
	for ctx.Err() == nil {
		var opts []holdfast.Option
		var fixed time.Duration
		switch {
		case r.IntN(4) == 0:
			fixed = time.Second + upTo(r, time.Second<<(2*r.IntN(3)))
		case r.IntN(4) == 0 && !w.expires:
			fixed = time.Hour
		}
		if fixed > 0 {
			opts = append(opts, holdfast.LeaseTime(fixed))
		}
		lock := m.Lock
		one, cancel := context.WithCancel(ctx)
		waits := 1
		switch r.IntN(8) {
		case 0:
			opts = append(opts, holdfast.Wait(upTo(r, 5*time.Second)))
		case 1:
			time.AfterFunc(upTo(r, 3*time.Second), cancel)
		case 2:
			lock, waits = m.TryLock, 0
		}
		w.wait(client, waits)
		l, err := lock(one, opts...)
		w.wait(client, -waits)
		if err == nil && one.Err() != nil {
			w.fail("P8: client %d got a lease after its context had ended", client)
		}
		if err == nil {
			held := w.took(client, l, fixed)
			w.hold(one, m, held, r)
			w.release(held)
		}
		cancel()
		time.Sleep(upTo(r, 20*time.Millisecond))
	}
}

// hold holds a lease for some time, and sometimes extends or re-enters it.
func (w *world) hold(ctx context.Context, m *holdfast.Mutex, l *lease, r *rand.Rand) {
	longest := 10 * time.Millisecond
	if r.IntN(4) == 0 {
		longest = 8 * time.Second // longer than most leases
	}
	switch r.IntN(6) {
	case 0:
		w.extended(l)
		_ = l.Extend(ctx, time.Second+upTo(r, 8*time.Second))
	case 1:
		w.extended(l)
		opts := []holdfast.Option{holdfast.Wait(time.Second)}
		if r.IntN(2) == 0 {
			opts = append(opts, holdfast.LeaseTime(time.Second+upTo(r, 5*time.Second)))
		}
		if nested, err := m.Lock(l.Context(), opts...); err == nil {
			time.Sleep(upTo(r, longest))
			_ = nested.Release(context.Background())
		}
	}
	time.Sleep(upTo(r, longest))
}

// disturb lets something go wrong, or lets it be well again.
func (w *world) disturb() {
	l := w.links[w.random.IntN(len(w.links))]
	span := upTo(w.random, 8*time.Second)
	switch w.random.IntN(18) {
	case 0:
		l.freeze(span)
	case 1:
		w.stop(span)
	case 2:
		l.disconnect()
	case 3:
		w.crash(l)
	case 4, 5:
		w.failOver()
	case 6:
		w.cut(span)
	case 7, 8:
		w.setClock()
	case 9:
		w.suspend(span)
	case 10, 11:
		w.force(l)
	default:
		f := faults{delay: upTo(w.random, 20*time.Millisecond)}
		if w.random.IntN(3) > 0 {
			f = faults{
				loseRequest: w.random.IntN(30), loseReply: w.random.IntN(30),
				loseMessage: w.random.IntN(100), repeatMessage: w.random.IntN(30),
				delay: upTo(w.random, 4*time.Second),
			}
		}
		if w.repeats && w.random.IntN(3) == 0 {
			f.repeatRequest = w.random.IntN(20) // a late copy may acquire the lock again
		}
		l.set(f)
	}
}

func (w *world) crash(l *link) {
	if w.crashes == 0 {
		return
	}
	w.crashes--
	l.crash()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("client %d crashes", l.client)
	w.leases = slices.DeleteFunc(w.leases, func(x *lease) bool { return x.client == l.client })
}

// stop lets the master do nothing for d.
func (w *world) stop(d time.Duration) {
	w.net.mu.Lock()
	s := w.net.master
	s.stopped, s.resumes = time.Now(), time.Now().Add(d)
	w.net.mu.Unlock()
	for _, l := range w.links {
		l.draw(func() { l.disturbed(d + d/8 + time.Second) })
	}
}

// cut lets the replica receive nothing for d. Often it is promoted then.
func (w *world) cut(d time.Duration) {
	if !w.strict && !w.weak {
		return
	}
	w.net.mu.Lock()
	s := w.net.master
	s.cut, s.wasCut = time.Now().Add(d), true
	w.net.mu.Unlock()
	if w.random.IntN(2) == 0 {
		time.Sleep(upTo(w.random, d))
		w.failOver()
	}
}

// failOver replaces the master by its replica. Clients notice at different times. Until
// then they cannot reach the master, or it refuses writes, or it still answers.
func (w *world) failOver() {
	lacks, gone := 0, state(1+w.random.IntN(2))
	var skew time.Duration
	if w.strict || w.weak {
		lacks, gone = w.random.IntN(20), state(w.random.IntN(3))
		skew = w.drift()
	}
	w.net.mu.Lock()
	old := w.net.master
	next := old.promote(lacks)
	next.Step(skew)
	w.ahead += skew
	old.state, old.cutOff = gone, true
	w.net.serve(next)
	w.mu.Lock()
	w.tracef("failover to a replica that lacks %d writes, its clock is %v ahead, and the old master is %d", lacks, skew, gone)
	if w.weak {
		w.breaks("a failover", w.toldAtOnce())
	}
	w.mu.Unlock()
	w.net.mu.Unlock()
	for _, l := range w.links {
		time.AfterFunc(upTo(w.random, 3*time.Second), func() {
			w.net.mu.Lock()
			master := w.net.master
			w.net.mu.Unlock()
			l.move(master)
		})
	}
}

// drift returns by how much the next clock is ahead of the present one.
func (w *world) drift() time.Duration {
	limit := 5 * time.Second
	if w.strict {
		limit = w.options.ClockSkew
	}
	next := upTo(w.random, limit)
	if w.random.IntN(2) == 0 { // as far as possible
		next = limit * time.Duration(w.random.IntN(2))
	}
	return next - limit/2 - w.ahead
}

// setClock sets the clock of the master forward or back.
func (w *world) setClock() {
	if !w.strict && !w.weak {
		return
	}
	by := w.drift()
	w.ahead += by
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("the clock of the master is set by %v", by)
	w.net.master.Step(by)
	if w.weak && by > 0 {
		w.breaks("a clock that was set forward", w.toldByRenewal())
	}
}

// suspend suspends the machine of all clients for d. Their timers do not run, but the
// servers do.
func (w *world) suspend(d time.Duration) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tracef("the clients are suspended for %v", d)
	clock.Skip(d)
	w.slept += d
	for _, s := range w.net.servers {
		s.Step(d)
	}
	w.resumed = time.Now()
	for _, o := range w.owners {
		o.late = true // a request may be under way
	}
}

// force frees the lock, whichever client holds it.
func (w *world) force(l *link) {
	if !w.strict && !w.weak {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = w.mutexes[l.client].ForceUnlock(ctx)
	}()
}

// begin draws the setting of a schedule.
func (w *world) begin() {
	w.options = holdfast.Options{
		Anonymous:       true,
		WatchdogTimeout: 3 * time.Second, RenewEvery: 700 * time.Millisecond, PollInterval: poll,
		Logger: slog.New(slog.DiscardHandler),
	}
	if w.random.IntN(2) == 0 { // most fixed leases end before they are verified
		w.options.WatchdogTimeout, w.options.RenewEvery = 20*time.Second, 6170*time.Millisecond
	}
	if w.random.IntN(2) == 0 {
		w.options.Handoffs = -1
	}
	w.crashes = w.random.IntN(2)
	replicas := 1
	switch w.random.IntN(3) {
	case 0:
		w.strict = true
		w.options.Replication = holdfast.Replication{Mode: holdfast.Strict, Replicas: 1, Timeout: time.Second}
		w.options.ClockSkew = 250 * time.Millisecond
	case 1:
		w.weak = true
		w.options.Replication.Mode = holdfast.ReplicationMode(w.random.IntN(2)) // Acked or Async
	default:
		replicas = w.random.IntN(2)
	}
	w.expires = w.strict || w.weak || w.crashes > 0
	w.repeats = w.expires && w.random.IntN(3) == 0 // a late copy may acquire the lock again
	w.net = &network{executed: w.executed, down: make(chan struct{})}
	w.net.serve(newServer(fake.New(), replicas))
	w.tracef("strict %v, weak %v, %+v", w.strict, w.weak, w.options.Replication)
}

// quiet sets the same faults for all clients, and then checks P5.
func (w *world) quiet(f faults, bound time.Duration) {
	for _, l := range w.links {
		l.set(f)
		l.draw(func() { l.frozen = time.Time{} })
	}
	time.Sleep(15 * time.Second)
	w.watch(15*time.Second, bound)
}

// closeOne closes a client whose users hold the lock or wait for it. It checks P7: what
// they hold is free then.
func (w *world) closeOne(c *holdfast.Client, l *link) {
	if l.dead() {
		return
	}
	w.mu.Lock()
	held := make(map[string]bool)
	for _, x := range w.leases {
		held[x.Owner()] = x.client == l.client && x.Valid()
	}
	w.mu.Unlock()
	_ = c.Close()
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if holder := w.net.master.Holder(name); held[holder] {
		w.failf("P7: %s has the lock, and its client is closed", w.name(holder))
	}
}

// schedule runs one schedule and returns the world at its end.
func schedule(t *testing.T, seed uint64) (w *world) {
	t.Helper()
	clock.Seed(seed)
	synctest.Test(t, func(t *testing.T) {
		w = &world{seed: seed, random: rand.New(rand.NewPCG(seed, 1)), owners: make(map[string]*owner), begun: time.Now()}
		w.begin()
		defer func() { clock.Skip(-w.slept) }()
		wakeAll := w.random.IntN(3)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		var cs []*holdfast.Client
		var users sync.WaitGroup
		for i := range 2 + w.random.IntN(3) {
			l := newLink(w.net, i, seed)
			l.renewed = w.renewed
			w.links = append(w.links, l)
			options := w.options
			options.WakeAll = wakeAll == 2 || wakeAll == 1 && i == 0 // none, one of them, or all
			c := locktest.Must[*holdfast.Client](t)(holdfast.New(l, options))
			cs = append(cs, c)
			w.mutexes = append(w.mutexes, c.Mutex(name))
		}
		for i := range cs {
			for g := range 1 + w.random.IntN(3) {
				users.Go(func() { w.use(ctx, i, rand.New(rand.NewPCG(seed, uint64(100+10*i+g)))) })
			}
		}
		users.Go(func() { w.look(ctx) })
		for range 30 {
			time.Sleep(upTo(w.random, 2*time.Second<<(2*(w.random.IntN(6)/5))))
			w.disturb()
		}
		// The server answers again, but no message arrives. Then all is well.
		w.quiet(faults{loseMessage: 100, delay: time.Millisecond}, poll+time.Second)
		w.mu.Lock()
		served := w.served
		w.mu.Unlock()
		w.quiet(faults{delay: time.Millisecond}, 300*time.Millisecond)
		w.mu.Lock()
		before := w.grants
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		w.mu.Lock()
		for i, l := range w.links {
			if w.served[i] == served[i] && !l.dead() {
				w.failf("P5: client %d got nothing in 50 s without faults", i)
			}
		}
		w.mu.Unlock()
		if w.random.IntN(2) == 0 {
			w.closeOne(cs[0], w.links[0])
		}
		stop()
		users.Wait()
		time.Sleep(30 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := w.net.master.Channels(); n > 0 {
			w.failf("P7: %d channels are still subscribed", n)
		}
		if w.grants == before {
			w.failf("P5: nothing was granted in 20 s without faults")
		}
		if holder := w.net.master.Holder(name); holder != "" {
			w.failf("P6: %s still has the lock", w.name(holder))
		}
		close(w.net.down)
		for _, c := range cs {
			if err := c.Close(); err != nil && !errors.Is(err, driver.ErrClosed) {
				w.failf("close: %v", err)
			}
		}
	})
	return w
}

// report fails the test for what went wrong in a schedule.
func (w *world) report(t *testing.T) {
	t.Helper()
	if len(w.failed) > 0 {
		t.Errorf("HOLDFAST_SEED=%d: %s", w.seed, strings.Join(w.failed[:min(len(w.failed), 5)], "\n"))
	}
}

func TestSchedules(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that a seed replays
	if text := os.Getenv("HOLDFAST_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := schedule(t, seed)
		t.Log("\n" + strings.Join(w.text(), "\n"))
		w.report(t)
		return
	}
	n := uint64(300)
	if testing.Short() {
		n = 50
	}
	if text := os.Getenv("HOLDFAST_SCHEDULES"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	grants := 0
	begun := time.Now()
	for seed := range n {
		w := schedule(t, seed)
		grants += w.grants
		if w.report(t); t.Failed() {
			return
		}
	}
	t.Logf("%d schedules with %d grants in %v", n, grants, time.Since(begun))
}

// A seed replays: the server does the same at the same times. Timers of one client that
// end in the same nanosecond may run in another order, so a few seeds may not.
func TestReplay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const seeds, may = 40, 4
	differ := 0
	for seed := range uint64(seeds) {
		one, two := schedule(t, seed).text(), schedule(t, seed).text()
		if slices.Equal(one, two) {
			continue
		}
		differ++
		i := 0
		for i < min(len(one), len(two)) && one[i] == two[i] {
			i++
		}
		t.Logf("seed %d differs from step %d of %d:\n%s\n%s", seed, i, len(one), strings.Join(one[max(0, i-1):min(i+1, len(one))], "\n"), strings.Join(two[max(0, i-1):min(i+1, len(two))], "\n"))
	}
	if differ > may {
		t.Errorf("%d of %d seeds do not replay, want %d at most", differ, seeds, may)
	}
}

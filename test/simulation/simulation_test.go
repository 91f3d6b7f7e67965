// Package simulation_test runs clients against a fake server in faked time, under
// random faults. A seed decides everything that is random:
//
//	HOLDFAST_SEED=17 go test -run TestSchedules ./test/simulation
//
// runs the schedule with that seed alone and prints what the server did.
package simulation_test

import (
	"context"
	"errors"
	"fmt"
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
	seed   uint64
	net    *network
	links  []*link
	random *rand.Rand
	mortal bool // clients may crash

	mu      sync.Mutex
	leases  []*lease // that are not released
	owners  map[string]string
	trace   []string
	failed  []string
	granted int
	waiting [8]int    // calls of Lock, by client
	free    time.Time // since when the lock is free while some wait; zero if it is not
	highest int64     // token
	begun   time.Time
}

// A lease is what a user of a client has got and not yet released.
type lease struct {
	*holdfast.Lease
	ctx    context.Context
	client int
}

func (w *world) failf(format string, args ...any) {
	w.failed = append(w.failed, fmt.Sprintf("%v: ", time.Since(w.begun))+fmt.Sprintf(format, args...))
}

// executed checks the promises whenever the server has done something.
func (w *world) executed(client int, call driver.Call, reply driver.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	args := slices.Clone(call.Args)
	for i, a := range args {
		if strings.Count(a, "-") == 4 { // an owner, whose first part is random
			if w.owners[a] == "" {
				w.owners[a] = fmt.Sprintf("%d:%s", client, a[strings.IndexByte(a, ':')+1:])
			}
			args[i] = w.owners[a]
		}
	}
	w.trace = append(w.trace, fmt.Sprintf("%12v client %d %s%q = %v %v", time.Since(w.begun), client, call.Script.Name, args, reply.Int, reply.List))
	w.check()
}

// check checks P1 and P2. The caller holds w.mu.
func (w *world) check() {
	holder := w.net.Holder(name)
	valid := 0
	for _, l := range w.leases {
		if !l.Valid() {
			continue
		}
		valid++
		if holder != l.Owner() {
			w.failf("P2: the lease of %s is valid, and the server has %q", w.owners[l.Owner()], w.owners[holder])
		}
	}
	if valid > 1 {
		w.failf("P1: %d leases are valid", valid)
	}
	for _, l := range w.leases {
		if l.ctx.Err() == nil && holder != l.Owner() && holder != "" {
			w.failf("P2: the context of %s has not ended, and the server has %q", w.owners[l.Owner()], w.owners[holder])
		}
	}
}

func (w *world) took(c int, l *holdfast.Lease) *lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := &lease{l, l.Context(), c}
	if !w.links[c].dead() {
		w.leases = append(w.leases, held)
		w.granted++
	}
	if !l.Valid() {
		w.failf("P2: Lock returned a lease that is over")
	}
	if l.Token() <= w.highest {
		w.failf("P3: token %d after %d", l.Token(), w.highest)
	}
	w.highest = max(w.highest, l.Token())
	w.check()
	return held
}

func (w *world) wait(client, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[client] += n
}

// watch checks P5 for a time: a lock is not free for long while some wait.
func (w *world) watch(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100*time.Millisecond + 7) {
		w.mu.Lock()
		waiting := 0
		for _, l := range w.links {
			if !l.dead() {
				waiting += w.waiting[l.client]
			}
		}
		switch {
		case waiting == 0 || w.net.Holder(name) != "":
			w.free = time.Time{}
		case w.free.IsZero():
			w.free = time.Now()
		case time.Since(w.free) > poll+time.Second:
			w.failf("P5: the lock is free for %v while %d wait", time.Since(w.free), waiting)
			w.free = time.Now()
		}
		w.mu.Unlock()
	}
}

func (w *world) drop(l *lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases = slices.DeleteFunc(w.leases, func(x *lease) bool { return x == l })
}

// use acquires and releases the lock again and again, in all ways, until ctx ends.
func (w *world) use(ctx context.Context, client int, m *holdfast.Mutex, r *rand.Rand) {
	time.Sleep(time.Duration(r.Int64N(int64(10 * time.Millisecond)))) // not all at once
	for ctx.Err() == nil {
		var opts []holdfast.Option
		switch {
		case r.IntN(4) == 0:
			opts = append(opts, holdfast.LeaseTime(time.Second+time.Duration(r.Int64N(int64(5*time.Second)))))
		case r.IntN(4) == 0 && !w.mortal: // what is left behind does not expire
			opts = append(opts, holdfast.LeaseTime(time.Hour))
		}
		one, cancel := context.WithCancel(ctx)
		switch r.IntN(6) {
		case 0:
			opts = append(opts, holdfast.Wait(time.Duration(r.Int64N(int64(5*time.Second)))))
		case 1:
			time.AfterFunc(time.Duration(r.Int64N(int64(3*time.Second))), cancel)
		}
		w.wait(client, 1)
		l, err := m.Lock(one, opts...)
		w.wait(client, -1)
		cancel()
		if err == nil {
			held := w.took(client, l)
			longest := 10 * time.Millisecond
			if r.IntN(4) == 0 {
				longest = 8 * time.Second // longer than most leases
			}
			time.Sleep(time.Duration(r.Int64N(int64(longest))))
			w.drop(held)
			release, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			_ = l.Release(release)
			cancel()
		}
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
	}
}

// disturb lets something go wrong, or lets it be well again.
func (w *world) disturb(crashes *int) {
	l := w.links[w.random.IntN(len(w.links))]
	span := time.Duration(w.random.Int64N(int64(8 * time.Second)))
	switch w.random.IntN(10) {
	case 0:
		l.freeze(span)
	case 1:
		w.net.stop(span)
	case 2:
		l.disconnect()
	case 3:
		if *crashes > 0 {
			*crashes--
			l.crash()
			w.mu.Lock()
			w.leases = slices.DeleteFunc(w.leases, func(x *lease) bool { return x.client == l.client })
			w.mu.Unlock()
		}
	case 4:
		w.net.FailOver() // to a replica that has everything
	default:
		f := faults{delay: time.Duration(w.random.Int64N(int64(20 * time.Millisecond)))}
		if w.random.IntN(3) > 0 {
			f = faults{w.random.IntN(30), w.random.IntN(30), w.random.IntN(100), w.random.IntN(30), time.Duration(w.random.Int64N(int64(4 * time.Second)))}
		}
		l.draw(func() { l.faults = f })
	}
}

// schedule runs one schedule and returns the world at its end.
func schedule(t *testing.T, seed uint64) (w *world) {
	t.Helper()
	clock.Seed(seed)
	synctest.Test(t, func(t *testing.T) {
		w = &world{seed: seed, random: rand.New(rand.NewPCG(seed, 1)), owners: make(map[string]string), begun: time.Now()}
		w.net = &network{Driver: fake.New(), executed: w.executed, down: make(chan struct{})}
		clients := 2 + w.random.IntN(3)
		crashes := w.random.IntN(2)
		w.mortal = crashes > 0
		options := holdfast.Options{
			WatchdogTimeout: 3 * time.Second, RenewEvery: 700 * time.Millisecond, PollInterval: poll,
			Logger: slog.New(slog.DiscardHandler),
		}
		if w.random.IntN(2) == 0 { // most fixed leases end before they are verified
			options.WatchdogTimeout, options.RenewEvery = 20*time.Second, 6170*time.Millisecond
		}
		if w.random.IntN(2) == 0 {
			options.Handoffs = -1
		}
		wakeAll := w.random.IntN(3)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		var cs []*holdfast.Client
		var users sync.WaitGroup
		for i := range clients {
			l := &link{network: w.net, client: i, seed: seed, sent: make(map[string]uint64), faults: faults{delay: time.Millisecond}}
			w.links = append(w.links, l)
			options.WakeAll = wakeAll == 2 || wakeAll == 1 && i == 0 // none, one of them, or all
			c := locktest.Must[*holdfast.Client](t)(holdfast.New(l, options))
			cs = append(cs, c)
			for g := range 1 + w.random.IntN(3) {
				users.Go(func() { w.use(ctx, i, c.Mutex(name), rand.New(rand.NewPCG(seed, uint64(100+10*i+g)))) })
			}
		}
		for range 30 {
			time.Sleep(time.Duration(w.random.Int64N(int64(2 * time.Second))))
			w.disturb(&crashes)
		}
		// The server answers again, but no message arrives. Then all is well.
		for _, f := range []faults{{loseMessage: 100, delay: time.Millisecond}, {delay: time.Millisecond}} {
			for _, l := range w.links {
				l.draw(func() { l.faults, l.frozen = f, time.Time{} })
			}
			time.Sleep(15 * time.Second)
			w.watch(15 * time.Second)
		}
		w.mu.Lock()
		before := w.granted
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		stop()
		users.Wait()
		time.Sleep(30 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.granted == before {
			w.failf("P5: nothing was granted in 20 s without faults")
		}
		if holder := w.net.Holder(name); holder != "" {
			w.failf("P6: %s still has the lock", w.owners[holder])
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
		t.Log("\n" + strings.Join(w.trace, "\n"))
		w.report(t)
		return
	}
	n := uint64(300)
	if testing.Short() {
		n = 50
	}
	grants := 0
	begun := time.Now()
	for seed := range n {
		w := schedule(t, seed)
		grants += w.granted
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
		one, two := schedule(t, seed).trace, schedule(t, seed).trace
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
